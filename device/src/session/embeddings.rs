//! Rows of embeddings.bin: uint16 codes, little-endian, handed on verbatim.

use std::fs::File;

use crate::hef::{HefError, Source};

/// The table inside an open file.
pub(super) struct Embeddings {
    pub(super) file: Source<File>,
    pub(super) start: u64,
    pub(super) row_bytes: usize,
}

impl Embeddings {
    /// Writes the row of `token`, which is inside the table.
    pub(super) fn copy(&mut self, token: u32, row: &mut [u8]) -> Result<(), HefError> {
        let start = self.start + u64::from(token) * self.row_bytes as u64;
        row.copy_from_slice(&self.file.read(start, self.row_bytes)?);
        Ok(())
    }
}
