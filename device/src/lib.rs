//! What comes from a device: compiled models and dumps of other tools. Builds without a tensor library.

pub mod audit;
pub mod hef;
