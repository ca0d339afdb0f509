//! What comes from a device: compiled models, their runs, dumps of other tools. Builds without a tensor library.

pub mod audit;
pub mod chip;
pub mod hef;
pub mod import;
pub mod session;
mod status;
pub mod supervisor;
mod text;
pub mod worker;
