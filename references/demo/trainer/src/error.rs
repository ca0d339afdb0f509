use std::path::{Path, PathBuf};

/// Everything that can go wrong while training, storing or loading the demo.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tensor operation failed.
    #[error("tensor operation: {0}")]
    Tensor(#[from] candle_core::Error),
    /// The tokenizer could not be trained, stored, loaded or applied.
    #[error("tokenizer: {0}")]
    Tokenizer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The checkpoint could not be serialised.
    #[error("checkpoint: {0}")]
    Checkpoint(#[from] safetensors::SafeTensorError),
    /// A tensor the model needs is not in the checkpoint.
    #[error("the checkpoint has no tensor {name}")]
    MissingTensor {
        /// Its Hugging Face name.
        name: String,
    },
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn write(path: &Path, contents: &str) -> Result<()> {
    std::fs::write(path, contents).map_err(|source| Error::Write { path: path.to_owned(), source })
}
