//! Data in, text out: every format on a few synthetic verdicts.

mod advice;
mod arms;
mod attribution;
mod ci;
mod csv;
mod document;
mod folder;
mod gate;
mod history;
mod html;
mod sample;
mod terminal;
