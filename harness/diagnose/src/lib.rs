//! Verb: looks for causes. [`profile()`]: what the float32 activations of a checkpoint look like to a quantiser. [`advise()`]: which
//! quantisers of a recipe hurt, and what to promote.
//!
//! This crate must not know devices or how results are shown.

mod accumulate;
mod advise;
mod profile;

pub use advise::{AdviseError, Advising, Split, advise, conclude_advice, inconclusive_advice, proven, split};
pub use profile::profile;
