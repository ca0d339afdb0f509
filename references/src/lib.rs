//! Verb: computes a checkpoint as transformers does, in float32 (and float64, to say how right that is).
//!
//! Checkpoint folders and the Hub they come from, the strict reading of config.json, the one decoder with its sites, the tokenizer. This crate must
//! not know devices, recipes, metrics or verdicts.

mod check;
mod checkpoint;
mod config;
mod decoder;
mod demo;
mod embedding;
mod error;
mod gguf;
mod hub;
mod keys;
mod local;
mod noise;
mod pooling;
mod refed;
mod reference;
mod scopes;
mod second_opinion;
mod taps;
mod tokenizer;
mod weights;

pub use check::{
    CheckOutcome, CheckedPrompt, ChunkedPart, NoisePart, OpinionPart, OpinionRow, ReferenceCheck, SiteDistance,
    WorstRow, check_reference,
};
pub use checkpoint::Checkpoint;
pub use config::{
    Activation, Architecture, Biases, Layer, MlpKind, NormKind, NormPlacement, Output, Rope, RopeScaling,
};
pub(crate) use decoder::bert_heads;
pub use decoder::{
    Cache, Chunk, Decoder, Feed, Instrument, Part, Visibility, WeightKind, WeightTransform, Wiring, logits_from,
};
pub use embedding::Embedding;
pub use error::CheckpointError;
pub use hub::{HubError, HubSettings, Snapshot, fetch};
pub use local::local_blocks;
pub use pooling::{Pooling, PoolingMode};
pub use reference::Reference;
pub use scopes::{TOGETHER, run_scopes};
pub use second_opinion::SecondImplementation;
pub use taps::TapCollector;
pub use tokenizer::{Tokenizer, TokenizerError};
pub use weights::WeightFiles;

/// Raised with every change that changes a number the reference computes; kept references of another version are not used.
pub const ENGINE_VERSION: u32 = 4;
