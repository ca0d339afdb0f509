//! Data in, text out: every format on a few synthetic verdicts.

mod advice;
mod arms;
mod csv;
mod document;
mod folder;
mod gate;
mod html;
mod sample;
mod terminal;
