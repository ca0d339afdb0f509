//! Trains the demo checkpoint: a story grammar, a byte-pair tokenizer, a small Llama and the loop that fits it.
//!
//! Knows nothing of the production engine; its forward pass is written apart from it, so that a test can hold the two
//! against each other.

mod error;
pub mod grammar;
pub mod model;
mod ops;
mod optimiser;
pub mod prompts;
pub mod score;
pub mod tokenizer;
pub mod train;

pub use error::{Error, Result};
pub use model::{Model, logits};
