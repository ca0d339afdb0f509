//! Verb: computes a checkpoint under a recipe, with faults injected on request.
//!
//! The decoder is the reference's own; what is added is data: quantised weights, an instrument that quantises activations,
//! and a wiring. This crate must not know metrics, verdicts or devices.

mod calibration;
mod emulator;
mod quantise;
mod recipe;

pub use calibration::{Ranges, calibrate};
pub use emulator::{Emulator, EmulatorError};
pub use quantise::{Grid, quantise_rows};
pub use recipe::{Precision, Recipe, RecipeError};
