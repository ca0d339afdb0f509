//! Compiles a checkpoint into a HEF that the mock executes and that `fidelity audit` passes.

mod calibration;
mod checkpoint;
mod file;
mod options;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use file::{BuildError, build};
pub use options::{Groups, HefOptions, InputOrder, MaskConvention, Width};
