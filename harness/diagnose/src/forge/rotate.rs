//! The same function in a rotated residual stream (QuaRot, Ashkboos et al. 2024).
//!
//! RMSNorm without weights commutes with an orthogonal R: norm(x·R) = norm(x)·R. So embeddings E·R, what reads a norm of weights w
//! W·diag(w)·R, what writes the stream Rᵀ·W, its bias b·R; norms of weight 1. The head reads the final norm: it is untied first.

use fidelity_emulator::Rotation;
use fidelity_references::NormKind;

use super::{
    Draft, ForgeError, Transformation,
    draft::StreamChange,
    refused,
    tensors::{Part, Tensors, Values, sibling},
    tie::Untie,
};

pub(super) struct Rotate(pub(super) u64);

impl Transformation for Rotate {
    fn apply(&self, draft: Draft) -> Result<Draft, ForgeError> {
        if draft.architecture.norm != NormKind::Rms {
            return Err(refused(
                self,
                "it has LayerNorm, which takes the mean of channels off and so does not commute with a rotation",
            ));
        }
        let mut draft = if draft.architecture.tied_head { Untie.apply(draft)? } else { draft };
        let rotation = Rotation::seeded(draft.architecture.hidden, self.0);
        draft.relation.stream.push(StreamChange::Rotate(Box::new(rotation.clone())));
        draft.relation.norms = false;
        draft.relation.copied = false;
        draft.tensors = Box::new(Rotated { inner: draft.tensors, rotation });
        Ok(draft)
    }

    fn name(&self) -> String {
        format!("--rotate {}", self.0)
    }
}

struct Rotated {
    inner: Box<dyn Tensors>,
    rotation: Rotation,
}

impl Tensors for Rotated {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.inner.shapes()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let part = Part::of(name);
        let mut values = self.inner.read(name)?;
        if part.norms_stream() {
            values.values.fill(1.0);
            return Ok(values);
        }
        let matrix = values.shape.len() == 2;
        let rotated = |values: Values| values.each_row(|row| self.rotation.apply(row));
        Ok(match part.norm_before() {
            Some(norm) if matrix => {
                let weights = self.inner.read(&sibling(name, norm))?;
                rotated(values.columns_scaled(&weights.values))
            }
            _ if part == Part::Embedding => rotated(values),
            _ if part.writes_stream() && matrix => rotated(values.transposed()).transposed(),
            _ if part.writes_stream() => rotated(values),
            _ => values,
        })
    }
}
