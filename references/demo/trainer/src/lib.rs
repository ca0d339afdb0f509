//! Trains the demo checkpoint from a story grammar.
pub mod grammar;
