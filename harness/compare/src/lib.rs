//! Verb: trace × trace → verdict.
//!
//! Pure: values in, values out; no clock, no files, no randomness beyond the stored seed of [`BOOTSTRAP`]. Rows are
//! matched and measured prompt by prompt ([`compare_prompt`], heavy, independent of each other), then summarised and
//! judged ([`conclude()`], light). This crate must not know which device wrote a trace, and never looks at deviations.
//!
//! Conventions: reference first, device ("the arm") second. Sums run in f64 in a fixed order. A NaN is a finding, never
//! a match; a metric that is not defined on a row is absent there, never 0.

mod agreement;
mod attribute;
mod bootstrap;
mod calibration;
mod conclude;
mod first_bad;
mod gate;
mod generated;
mod judge;
mod local;
mod logits;
mod matching;
mod numbers;
mod profile;
mod prompt;
mod row;
mod scope;
mod site;
mod summary;

pub use attribute::attribute;
pub use bootstrap::BOOTSTRAP;
pub use conclude::{Header, NotComputed, conclude};
pub use gate::{Changed, GateError, as_baseline, baseline_path, bless, gate, mcnemar, replaced};
pub use generated::generated;
pub use prompt::{PromptComparison, PromptSettings, compare_prompt};
pub use row::{Measured, RowMetrics, measure};
