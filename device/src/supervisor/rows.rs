//! Rows of one prompt as they come, put in order once all are there.

use std::collections::BTreeMap;

use fidelity_trace::{Capture, Rows, Scope, Site};

/// What a worker computed of one prompt.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Token and logits by scope and position.
    rows: BTreeMap<(Scope, u32), (u32, Vec<f32>)>,
    pub(super) generated: Option<Vec<u32>>,
}

impl Collected {
    /// Takes a row of float32, little-endian; says what is wrong with one that does not fit.
    pub(super) fn add(
        &mut self,
        scope: Scope,
        position: u32,
        token: u32,
        payload: &[u8],
        width: usize,
    ) -> Result<(), String> {
        let (values, rest) = payload.as_chunks::<4>();
        if !rest.is_empty() || values.len() != width {
            return Err(format!("a row of {} bytes, expected {width} logits", payload.len()));
        }
        let logits = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        match self.rows.insert((scope, position), (token, logits)) {
            None => Ok(()),
            Some(_) => Err(format!("a second row of {scope} at position {position}")),
        }
    }

    pub(super) fn write(self, capture: &mut Capture) {
        for ((scope, position), (token, logits)) in self.rows {
            capture.rows(scope, Rows { positions: &[position], token_ids: &[token] });
            capture.tensor(scope, Site::Logits, &[1, logits.len()], &logits);
        }
        if self.generated.is_some() {
            capture.generated = self.generated;
        }
    }
}
