//! Why a checkpoint is not forged.

use std::{io, path::PathBuf};

use fidelity_references::CheckpointError;
use fidelity_trace::Site;

/// A checkpoint that is not forged. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// The source cannot be read, or what was written cannot.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A step does not fit the checkpoint as it is then.
    #[error("{step}: {reason}")]
    Refused {
        /// The step.
        step: String,
        /// Why.
        reason: String,
    },
    /// The source is an encoder.
    #[error("a checkpoint of model_type {model_type} is an encoder; decoders alone are forged")]
    Encoder {
        /// `model_type` in config.json.
        model_type: String,
    },
    /// The folder is there already.
    #[error("{path} exists already; give another folder with --out, or remove it")]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A tensor would be larger than is taken.
    #[error("{tensor} would be of {shape:?} values, more than the {limit} that are taken; ask for less")]
    TooLarge {
        /// The tensor, or all of them.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// How many values are taken.
        limit: usize,
    },
    /// A tensor that a step needs is not there, or not of the shape it was said to have.
    #[error("tensor `{0}` is missing or of another shape; the checkpoint does not fit its architecture")]
    NoTensor(String),
    /// config.json of this family cannot say what was meant.
    #[error("config.json of this family cannot say what was meant: `{said}`, meant `{meant}`")]
    Inexpressible {
        /// Part of the architecture that was meant.
        meant: String,
        /// What the written config.json says in its place.
        said: String,
    },
    /// What was written does not compute what it must.
    #[error(
        "not proven at {site}: relative L2 {relative_l2:.2e}, tolerance {tolerance:.2e} (at most {largest:.0e} proves anything); nothing was written"
    )]
    NotProven {
        /// The first such site.
        site: Site,
        /// The worst row's distance.
        relative_l2: f64,
        /// The tolerance.
        tolerance: f64,
        /// The largest tolerance that proves anything.
        largest: f64,
    },
    /// The two have no site to be compared at.
    #[error("nothing could be compared, so nothing is proven; nothing was written")]
    NothingCompared,
    /// The file system said no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A JSON file cannot be made: a fault of ours.
    #[error("cannot write JSON: {0}")]
    Json(serde_json::Error),
    /// A safetensors header cannot be made: a fault of ours.
    #[error("cannot write safetensors: {0}")]
    Weights(safetensors::SafeTensorError),
    /// The tensor library failed: out of memory, or a fault of ours.
    #[error("while proving the forged checkpoint: {0}")]
    Compute(candle_core::Error),
}
