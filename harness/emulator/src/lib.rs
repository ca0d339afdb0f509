//! Verb: computes a checkpoint under a recipe, with faults injected on request.
//!
//! The decoder is the reference's own; what is added is data: prepared and quantised weights, an instrument that quantises
//! activations, and a wiring. This crate must not know metrics, verdicts or devices.

mod basis;
mod calibrated;
mod calibration;
mod emulator;
mod first_position;
mod grid;
mod histogram;
mod jitter;
mod preparation;
mod quantiser;
mod recipe;
mod rotation;
mod values;
mod weights;

pub use calibrated::Calibrated;
pub use calibration::{Calibration, CalibrationSet, Distribution, calibrate};
pub use emulator::{Emulator, EmulatorError};
pub use grid::{Beyond, Grid};
pub use histogram::Histogram;
pub use recipe::{
    Fault as RecipeFault, LayerNames, LayerNamesError, Plan, Precision, Promotions, Recipe, RecipeError, WeightGrid,
};
pub use rotation::Rotation;
pub use values::with_values;
pub use weights::quantise_rows;
