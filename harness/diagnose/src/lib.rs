//! Verb: looks for causes. [`diagnose()`]: which fault explains an arm. [`profile()`]: what the float32 activations of a
//! checkpoint look like to a quantiser. [`advise()`]: which quantisers of a recipe hurt, and what to promote.
//! [`forge()`]: checkpoints that tell two causes apart. [`bisect()`]: where along an axis an arm begins to be wrong.
//! [`explain()`]: which covariate of several checkpoints goes with who passes.
//!
//! This crate must not know devices or how results are shown.

mod accumulate;
mod advise;
mod attribute;
mod bank;
mod bisect;
mod forge;
mod profile;
mod search;
mod selftest;

pub use advise::{AdviseError, Advising, Split, advise, conclude_advice, inconclusive_advice, proven, split};
pub use attribute::{Outcome, PUBLISHED, ResultRow, ResultsError, explain, read_results};
pub use bank::{Entry, entry};
pub use bisect::{Bisecting, LEAST_PROMPTS, Reading, bisect, measurement};
pub use forge::{Axis, ForgeError, Ladder, Outlier, Step, forge, forge_ladder};
pub use profile::profile;
pub use search::{DiagnoseError, Numerics, Question, Rerun, diagnose};
pub use selftest::{Bench, drawn_prompts, selftest};
