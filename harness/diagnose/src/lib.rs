//! Verb: looks for causes. [`diagnose()`]: which fault explains an arm. [`profile()`]: what the float32 activations of a
//! checkpoint look like to a quantiser.
//!
//! This crate must not know devices or how results are shown.

mod accumulate;
mod bank;
mod profile;
mod search;

pub use bank::{Entry, entry};
pub use profile::profile;
pub use search::{DiagnoseError, Question, diagnose};
