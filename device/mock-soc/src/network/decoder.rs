//! The decoder: rows in, logits out, one pass through all blocks.

use std::sync::Arc;

use super::{
    geometry::{Dimensions, Rotation},
    operations::{add, dot, gated, linear, rms_norm, softmax},
    ring::{Caches, Window},
    weights::{Block, Projection, Weights},
};

/// cos and sin of each row, `[rows, heads x head_dim]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rope {
    pub(crate) query_cos: Vec<f32>,
    pub(crate) query_sin: Vec<f32>,
    pub(crate) key_cos: Vec<f32>,
    pub(crate) key_sin: Vec<f32>,
}

/// What a run is fed, dequantised.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// `[rows, hidden]`
    pub(crate) embeddings: Vec<f32>,
    /// Added to the scores, `[rows, query head, columns]`: the columns are what is read of the caches, then the rows.
    pub(crate) bias: Vec<f32>,
    pub(crate) rope: Rope,
}

/// A decoder.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    pub(crate) dimensions: Dimensions,
    pub(crate) rotation: Rotation,
    pub(crate) weights: Arc<Weights>,
}

/// Keys or values of all columns of a block.
struct Columns {
    values: Vec<f32>,
    count: usize,
}

impl Decoder {
    /// The residual stream after the last block, `[rows, hidden]`; `None` when a cache is not bound. `caches` is what a group
    /// with caches reads and writes, with the ids of keys and values of each block.
    pub(crate) fn run(&self, step: &Step, mut caches: Option<(&mut Caches, Window, &[[i32; 2]])>) -> Option<Vec<f32>> {
        let mut residual = step.embeddings.clone();
        for (layer, block) in self.weights.blocks.iter().enumerate() {
            let place = match &mut caches {
                None => None,
                Some((caches, window, ids)) => Some((&mut **caches, *window, *ids.get(layer)?)),
            };
            let attended = self.attention(block, &residual, step, place)?;
            add(&mut residual, &attended);
            let normed = rms_norm(&residual, &block.mlp_norm, self.dimensions.norm_epsilon);
            let (gate, up) = (self.project(&normed, &block.gate), self.project(&normed, &block.up));
            let down = linear(
                &gated(&gate, &up),
                &block.down.weight,
                block.down.bias.as_deref(),
                self.dimensions.intermediate,
            );
            add(&mut residual, &down);
        }
        Some(residual)
    }

    /// Logits of these rows of the residual stream, `[rows, vocabulary]`.
    pub(crate) fn logits(&self, residual: &[f32]) -> Vec<f32> {
        let normed = rms_norm(residual, &self.weights.norm, self.dimensions.norm_epsilon);
        linear(&normed, &self.weights.head, None, self.dimensions.hidden)
    }

    fn project(&self, rows: &[f32], projection: &Projection) -> Vec<f32> {
        linear(rows, &projection.weight, projection.bias.as_deref(), self.dimensions.hidden)
    }

    fn attention(
        &self,
        block: &Block,
        residual: &[f32],
        step: &Step,
        cache: Option<(&mut Caches, Window, [i32; 2])>,
    ) -> Option<Vec<f32>> {
        let normed = rms_norm(residual, &block.attention_norm, self.dimensions.norm_epsilon);
        let mut queries = self.project(&normed, &block.query);
        let mut keys = self.project(&normed, &block.key);
        let values = self.project(&normed, &block.value);
        self.rotate(&mut queries, &step.rope.query_cos, &step.rope.query_sin);
        self.rotate(&mut keys, &step.rope.key_cos, &step.rope.key_sin);
        let (keys, values) = match cache {
            None => (keys, values),
            Some((caches, window, [key_id, value_id])) => {
                let past = [caches.gather(key_id, window)?, caches.gather(value_id, window)?];
                caches.scatter(key_id, window, &keys)?;
                caches.scatter(value_id, window, &values)?;
                let [past_keys, past_values] = past;
                ([past_keys, keys].concat(), [past_values, values].concat())
            }
        };
        let count = keys.len() / self.dimensions.key_width();
        let mixed = self.mix(&queries, &Columns { values: keys, count }, &Columns { values, count }, &step.bias);
        Some(linear(&mixed, &block.output.weight, block.output.bias.as_deref(), self.dimensions.query_width()))
    }

    /// `x cos + turned(x) sin`, head by head; every head has values of its own in cos and sin.
    fn rotate(&self, rows: &mut [f32], cos: &[f32], sin: &[f32]) {
        let head_dim = self.dimensions.head_dim;
        let sign = match self.rotation {
            Rotation::SignInTable => 1.0,
            Rotation::SignInGraph => -1.0,
        };
        let angles = cos.chunks_exact(head_dim).zip(sin.chunks_exact(head_dim));
        for (head, (cos, sin)) in rows.chunks_exact_mut(head_dim).zip(angles) {
            for pair in 0..head_dim / 2 {
                let other = pair + head_dim / 2;
                let (first, second) = (head[pair], head[other]);
                head[pair] = first * cos[pair] + sign * second * sin[pair];
                head[other] = second * cos[other] + first * sin[other];
            }
        }
    }

    /// Softmax over the columns, head by head; query head h reads key head h div group.
    fn mix(&self, queries: &[f32], keys: &Columns, values: &Columns, bias: &[f32]) -> Vec<f32> {
        let &Dimensions { query_heads, kv_heads, head_dim, .. } = &self.dimensions;
        let (entry, group) = (self.dimensions.key_width(), query_heads / kv_heads);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let mut mixed = vec![0.0; queries.len()];
        let heads = queries.chunks_exact(head_dim).zip(mixed.chunks_exact_mut(head_dim));
        for (index, (query, mixed)) in heads.enumerate() {
            let start = index % query_heads / group * head_dim;
            let bias = &bias[index * keys.count..(index + 1) * keys.count];
            let score = |(key, bias): (&[f32], &f32)| dot(query, &key[start..start + head_dim]) * scale + bias;
            let mut weights: Vec<f32> = keys.values.chunks_exact(entry).zip(bias).map(score).collect();
            softmax(&mut weights);
            for (value, weight) in values.values.chunks_exact(entry).zip(weights) {
                for (sum, value) in mixed.iter_mut().zip(&value[start..start + head_dim]) {
                    *sum += weight * value;
                }
            }
        }
        mixed
    }
}
