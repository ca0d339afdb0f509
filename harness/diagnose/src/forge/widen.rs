//! The same function in a wider residual stream.
//!
//! x' = [x, 0] has mean(x'²) = mean(x²)·H/H'. With ε' = ε·H/H' and w' = w·√(H/H') every norm is x'/√(mean(x'²) + ε')·w' = [norm(x), 0].
//! Norms of queries and keys share ε: with q' = q·√(H/H') they are q'/√(mean(q'²) + ε') = q/√(mean(q²) + ε).

use fidelity_references::NormKind;

use super::{
    Draft, ForgeError, Transformation,
    draft::StreamChange,
    refused,
    tensors::{Part, Tensors, Values},
};

pub(super) struct Widen(pub(super) usize);

impl Transformation for Widen {
    fn apply(&self, mut draft: Draft) -> Result<Draft, ForgeError> {
        let (from, to) = (draft.architecture.hidden, self.0);
        if draft.architecture.norm != NormKind::Rms {
            return Err(refused(
                self,
                "it has LayerNorm, which takes the mean over all channels off: zeros beside them would change it",
            ));
        }
        if to < from {
            return Err(refused(self, format!("it is {from} wide; only more channels can be added")));
        }
        if to == from {
            return Ok(draft);
        }
        let heads = draft.architecture.query_heads;
        if draft.architecture.model_type == "llama" && !to.is_multiple_of(heads) {
            let below = to / heads * heads;
            return Err(refused(
                self,
                format!(
                    "transformers takes a llama's hidden size as a multiple of its {heads} heads alone, whatever head_dim says; \
                     {below} or {} is one",
                    below.saturating_add(heads)
                ),
            ));
        }
        let share = from as f64 / to as f64;
        draft.architecture.hidden = to;
        draft.architecture.norm_eps *= share;
        draft.set("hidden_size", to);
        draft.set("head_dim", draft.architecture.head_dim);
        draft.set("rms_norm_eps", draft.architecture.norm_eps);
        draft.relation.stream.push(StreamChange::Pad(to));
        draft.relation.copied = false;
        let qk_norm = draft.architecture.qk_norm;
        draft.tensors = Box::new(Widened { inner: draft.tensors, to, scale: share.sqrt(), qk_norm });
        Ok(draft)
    }

    fn name(&self) -> String {
        format!("--widen {}", self.0)
    }
}

struct Widened {
    inner: Box<dyn Tensors>,
    to: usize,
    scale: f64,
    qk_norm: bool,
}

impl Widened {
    fn shape(&self, name: &str, shape: &[usize]) -> Vec<usize> {
        let part = Part::of(name);
        match (part, shape) {
            (part, [_]) if part.norms_stream() || part.writes_stream() => vec![self.to],
            (part, [_, columns]) if part.writes_stream() => vec![self.to, *columns],
            (part, [rows, _]) if part == Part::Embedding || part.norm_before().is_some() => vec![*rows, self.to],
            (_, shape) => shape.to_vec(),
        }
    }
}

impl Tensors for Widened {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.inner
            .shapes()
            .into_iter()
            .map(|(name, shape)| {
                let shape = self.shape(&name, &shape);
                (name, shape)
            })
            .collect()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let values = self.inner.read(name)?;
        let shape = self.shape(name, &values.shape);
        let values = match shape.as_slice() {
            same if same == values.shape => values,
            [rows, columns] => values.padded(*rows, *columns),
            _ => values.padded(1, self.to),
        };
        let part = Part::of(name);
        let scaled = part.norms_stream() || self.qk_norm && matches!(part, Part::Q | Part::K);
        Ok(if scaled { values.scaled(self.scale) } else { values })
    }
}
