//! Verb: looks for causes. So far [`profile()`]: what the float32 activations of a checkpoint look like to a quantiser.
//!
//! This crate must not know devices or how results are shown.

mod accumulate;
mod profile;

pub use profile::profile;
