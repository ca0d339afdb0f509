//! A history is appended to, read, and survives what happens to its writers.

mod files;
mod remembering;
mod sample;
mod writers;
