//! What comes from a device: compiled models, their runs, dumps of other tools. Builds without a tensor library.

pub mod audit;
pub mod chip;
#[cfg(feature = "hailo")]
pub mod hailo;
pub mod hef;
pub mod import;
pub mod session;
pub mod supervisor;
mod text;
pub mod worker;
