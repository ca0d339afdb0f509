//! Traces in, verdicts out.

mod attribution;
mod blocks;
mod coverage;
mod encoder;
mod logits;
mod outcomes;
mod properties;
mod traces;
