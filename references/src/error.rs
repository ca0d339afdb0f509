//! Why a checkpoint cannot be used.

use std::{io, path::PathBuf};

/// A checkpoint that cannot be used. Each message names file, field, found and expected, and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system said no.
    #[error("cannot read {path}: {source}; {remedy}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The folder is no checkpoint folder.
    #[error(
        "{path} is not a Hugging Face checkpoint folder: {missing} is missing; it needs config.json, tokenizer.json and model.safetensors (or model.safetensors.index.json with its shards)"
    )]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        missing: &'static str,
    },
    /// Text was to be tokenised without a tokenizer.
    #[error(
        "{path} has no tokenizer.json, which text prompts need; add it, or give prompts as token_ids (--prompts with JSON lines)"
    )]
    NoTokenizer {
        /// The folder.
        path: PathBuf,
    },
    /// A config key whose value is missing, of a wrong type, or not supported.
    #[error("{file}: `{key}` is {found}, expected {expected}")]
    Config {
        /// The file.
        file: String,
        /// The key, with the tables it is in.
        key: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A config key this program does not know.
    #[error(
        "{file}: `{key}` = {found} is not a key this program knows; it may change the computation, so it is not ignored. If it does not, remove it from the file"
    )]
    UnknownKey {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// Its value.
        found: String,
    },
    /// A file that is not what its name says.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A tensor the architecture needs is not there.
    #[error(
        "{file}: tensor `{tensor}` is missing, expected with shape {expected:?}; config.json and the weights do not belong together, or the file is incomplete"
    )]
    MissingTensor {
        /// The file or folder.
        file: String,
        /// The tensor.
        tensor: String,
        /// The shape the architecture gives it.
        expected: Vec<usize>,
    },
    /// A tensor that does not fit.
    #[error(
        "{file}: tensor `{tensor}` has {what} {found}, expected {expected}; config.json and the weights do not belong together"
    )]
    Tensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// `shape` or `dtype`.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// Tensors nobody asked for.
    #[error(
        "{file}: {count} tensors have no place in this architecture: {names}; the reference would not compute what the file holds: take config.json and weights of one checkpoint"
    )]
    UnusedTensors {
        /// The file or folder.
        file: String,
        /// How many.
        count: usize,
        /// The first of them.
        names: String,
    },
    /// The tensor library failed: out of memory, or a fault of ours.
    #[error("while computing {what}: {source}")]
    Compute {
        /// What was being computed.
        what: String,
        /// What the library says.
        source: candle_core::Error,
    },
}

impl CheckpointError {
    pub(crate) fn computing(what: impl Into<String>) -> impl FnOnce(candle_core::Error) -> Self {
        let what = what.into();
        move |source| Self::Compute { what, source: without_backtrace(source) }
    }
}

/// The error itself: with RUST_BACKTRACE set, Candle's errors hold a backtrace, which has no place in a trace or a verdict.
pub(crate) fn without_backtrace(error: candle_core::Error) -> candle_core::Error {
    match error {
        candle_core::Error::WithBacktrace { inner, .. } => without_backtrace(*inner),
        error => error,
    }
}
