//! The embedding, a few rows at a time: a comparison row by row needs no decoder.

use crate::{CheckpointError, WeightFiles};

/// The embedding `[vocabulary, hidden]` of a checkpoint, still in its file.
pub struct Embedding {
    weights: WeightFiles,
    shape: [usize; 2],
}

impl Embedding {
    pub(crate) fn new(weights: WeightFiles, shape: [usize; 2]) -> Self {
        Self { weights, shape }
    }

    /// `count` rows from row `first` on, row after row, in float32.
    ///
    /// # Errors
    /// It has no such rows, or they cannot be read.
    pub fn rows(&mut self, first: usize, count: usize) -> Result<Vec<f32>, CheckpointError> {
        let rows = self.weights.embedding_rows(self.shape, first, count)?;
        rows.flatten_all().and_then(|flat| flat.to_vec1()).map_err(CheckpointError::computing("rows of the embedding"))
    }
}
