//! Verb: looks for causes. [`diagnose()`]: which fault explains an arm. [`profile()`]: what the float32 activations of a
//! checkpoint look like to a quantiser. [`advise()`]: which quantisers of a recipe hurt, and what to promote. [`explain()`]: which
//! covariate of several checkpoints goes with who passes.
//!
//! This crate must not know devices or how results are shown.

mod accumulate;
mod advise;
mod attribute;
mod bank;
mod profile;
mod search;
mod selftest;

pub use advise::{AdviseError, Advising, Split, advise, conclude_advice, inconclusive_advice, proven, split};
pub use attribute::{Outcome, PUBLISHED, ResultRow, ResultsError, explain, read_results};
pub use bank::{Entry, entry};
pub use profile::profile;
pub use search::{DiagnoseError, Question, diagnose};
pub use selftest::{Bench, drawn_prompts, selftest};
