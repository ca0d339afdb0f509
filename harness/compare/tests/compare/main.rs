//! Traces in, verdicts out.

mod blocks;
mod coverage;
mod logits;
mod outcomes;
mod properties;
mod traces;
