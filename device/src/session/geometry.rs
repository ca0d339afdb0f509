//! The dimensions of a compiled language model.

use fidelity_trace::Scope;
use serde::{Deserialize, Serialize};

/// How tokens reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feeding {
    /// A prefill group and a group of one token at a time share a KV-cache.
    PrefillAndTbt,
    /// Every token goes through prefill.
    PrefillOnly,
    /// The whole sequence at once, no cache.
    Whole,
}

impl Feeding {
    /// The scopes it can compute.
    #[must_use]
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Self::PrefillAndTbt | Self::PrefillOnly => &[Scope::Prefill, Scope::Tbt, Scope::TbtFree, Scope::TbtSelf],
            Self::Whole => &[Scope::Base],
        }
    }
}

/// A shard of the logits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    /// Logits in it.
    pub width: usize,
    /// Distance of two values on its grid; absent where the file does not say.
    pub step: Option<f64>,
}

/// The dimensions of a compiled language model, as far as the host that feeds it needs them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Geometry {
    /// How tokens reach the device.
    pub feeding: Feeding,
    /// Width of an embedding row.
    pub hidden: usize,
    /// Query heads.
    pub query_heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Entries of the cache's ring; without a cache, rows of the sequence.
    pub cache_length: usize,
    /// Tokens of a prefill chunk; without a cache, rows of the sequence.
    pub prefill_rows: usize,
    /// Rows of logits that a run of the first group gives.
    pub output_rows: usize,
    /// Rows of embeddings.bin: ids from there on cannot be fed.
    pub embedding_rows: usize,
    /// Shards of the logits, in order; steps are those of tbt where there is one.
    pub shards: Vec<Shard>,
    /// Steps of the shards in rows of the first group.
    pub prefill_steps: Vec<Option<f64>>,
}

impl Geometry {
    /// Logits of a row.
    #[must_use]
    pub fn logits(&self) -> usize {
        self.shards.iter().map(|shard| shard.width).sum()
    }

    /// The step of the logit grid by shard, of rows cut to `vocabulary` logits, as a trace states it: for shards of equal width.
    #[must_use]
    pub fn logits_step(&self, vocabulary: Option<usize>) -> Option<Vec<f64>> {
        let steps: Vec<f64> = self.shards.iter().map(|shard| shard.step).collect::<Option<_>>()?;
        let (first, width) = (*steps.first()?, self.shards.first()?.width);
        let kept = vocabulary.unwrap_or(self.logits()).min(self.logits());
        if kept.div_ceil(steps.len()) == width {
            return Some(steps);
        }
        let equal = steps.iter().all(|step| step.to_bits() == first.to_bits());
        equal.then(|| vec![first])
    }

    /// What [`Geometry::logits_step`] leaves out, as a sentence; nothing where it says all.
    #[must_use]
    pub fn logits_step_note(&self, vocabulary: Option<usize>) -> Option<String> {
        if self.shards.iter().any(|shard| shard.step.is_none()) {
            let note = "The HEF states no single step of the grid of each logit shard: ties of the device's logits are not judged as ties.";
            return Some(note.into());
        }
        if self.logits_step(vocabulary).is_none() {
            let (shards, kept) = (self.shards.len(), vocabulary.unwrap_or(self.logits()));
            return Some(format!(
                "The {shards} logit shards have grids of different steps, and {kept} logits do not fill them: ties of the device's logits are not judged as ties."
            ));
        }
        let bits = |step: Option<f64>| step.map(f64::to_bits);
        let same = self.shards.iter().map(|shard| bits(shard.step)).eq(self.prefill_steps.iter().copied().map(bits));
        (!same).then(|| {
            "The logits of prefill lie on another grid than those of tbt: ties in rows of prefill are not judged as ties."
                .into()
        })
    }
}
