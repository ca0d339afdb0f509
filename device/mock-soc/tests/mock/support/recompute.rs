//! The decoder once more, in float64 and position by position, without caches, chunks or quantised inputs: what a text's
//! logits are.

use std::collections::BTreeMap;

use fidelity_mock_soc::Checkpoint;
use safetensors::SafeTensors;

/// A checkpoint's weights in float64.
pub(crate) struct Reference {
    checkpoint: Checkpoint,
    tensors: BTreeMap<String, Vec<f64>>,
}

impl Reference {
    pub(crate) fn of(checkpoint: Checkpoint) -> Self {
        let file = SafeTensors::deserialize(&checkpoint.weights).expect("safetensors");
        let values = |bytes: &[u8], kind| -> Vec<f64> {
            match kind {
                safetensors::Dtype::F16 => {
                    bytes.as_chunks::<2>().0.iter().map(|pair| half::f16::from_le_bytes(*pair).to_f64()).collect()
                }
                safetensors::Dtype::F32 => {
                    bytes.as_chunks::<4>().0.iter().map(|quad| f64::from(f32::from_le_bytes(*quad))).collect()
                }
                other => panic!("{other:?}"),
            }
        };
        let tensors = file.tensors().into_iter().map(|(name, view)| (name, values(view.data(), view.dtype())));
        Self { tensors: tensors.collect(), checkpoint }
    }

    fn tensor(&self, name: &str) -> &[f64] {
        &self.tensors[name]
    }

    fn project(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let weight = self.tensor(&format!("{name}.weight"));
        let mut output: Vec<f64> =
            weight.chunks(input.len()).map(|row| row.iter().zip(input).map(|(w, x)| w * x).sum()).collect();
        if let Some(bias) = self.tensors.get(&format!("{name}.bias")) {
            output.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
        }
        output
    }

    fn norm(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let mean = input.iter().map(|x| x * x).sum::<f64>() / input.len() as f64;
        let factor = 1.0 / (mean + f64::from(self.checkpoint.dimensions.norm_epsilon)).sqrt();
        input.iter().zip(self.tensor(name)).map(|(x, weight)| x * factor * weight).collect()
    }

    fn rotated(&self, heads: &[f64], position: usize) -> Vec<f64> {
        let head_dim = self.checkpoint.dimensions.head_dim;
        let half = head_dim / 2;
        let turn = |head: &[f64]| -> Vec<f64> {
            let value = |dimension: usize| {
                let angle = position as f64 * self.checkpoint.frequencies[dimension % half];
                let other = if dimension < half { -head[dimension + half] } else { head[dimension - half] };
                head[dimension] * angle.cos() + other * angle.sin()
            };
            (0..head_dim).map(value).collect()
        };
        heads.chunks(head_dim).flat_map(turn).collect()
    }

    /// Logits of each position; `first` is the first position that a position sees.
    pub(crate) fn logits(&self, ids: &[usize], first: impl Fn(usize) -> usize) -> Vec<Vec<f32>> {
        let size = self.checkpoint.dimensions;
        let embedding = self.tensor("model.embed_tokens.weight");
        let mut rows: Vec<Vec<f64>> =
            ids.iter().map(|id| embedding[id * size.hidden..(id + 1) * size.hidden].to_vec()).collect();
        for layer in 0..size.layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let normed: Vec<_> = rows.iter().map(|row| self.norm(&name("input_layernorm.weight"), row)).collect();
            let all = |part: &str| -> Vec<Vec<f64>> {
                normed.iter().map(|row| self.project(&name(&format!("self_attn.{part}_proj")), row)).collect()
            };
            let rotate = |rows: Vec<Vec<f64>>| -> Vec<Vec<f64>> {
                rows.iter().enumerate().map(|(position, row)| self.rotated(row, position)).collect()
            };
            let (queries, keys, values) = (rotate(all("q")), rotate(all("k")), all("v"));
            for (position, row) in rows.iter_mut().enumerate() {
                let seen = first(position)..position + 1;
                let mixed = self.attend(&queries[position], &keys[seen.clone()], &values[seen]);
                let attended = self.project(&name("self_attn.o_proj"), &mixed);
                row.iter_mut().zip(attended).for_each(|(sum, term)| *sum += term);
                let normed = self.norm(&name("post_attention_layernorm.weight"), row);
                let gate = self.project(&name("mlp.gate_proj"), &normed);
                let up = self.project(&name("mlp.up_proj"), &normed);
                let gated: Vec<f64> = gate.iter().zip(up).map(|(x, up)| x / (1.0 + (-x).exp()) * up).collect();
                let down = self.project(&name("mlp.down_proj"), &gated);
                row.iter_mut().zip(down).for_each(|(sum, term)| *sum += term);
            }
        }
        let head = if self.tensors.contains_key("lm_head.weight") { "lm_head" } else { "model.embed_tokens" };
        let logits = |row: &Vec<f64>| self.project(head, &self.norm("model.norm.weight", row));
        rows.iter().map(|row| logits(row).into_iter().map(|value| value as f32).collect()).collect()
    }

    fn attend(&self, query: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
        let size = self.checkpoint.dimensions;
        let mut mixed = Vec::new();
        for head in 0..size.query_heads {
            let own = head * size.head_dim..(head + 1) * size.head_dim;
            let kv = head * size.kv_heads / size.query_heads;
            let shared = kv * size.head_dim..(kv + 1) * size.head_dim;
            let score = |key: &Vec<f64>| {
                let products = query[own.clone()].iter().zip(&key[shared.clone()]).map(|(q, k)| q * k);
                products.sum::<f64>() / (size.head_dim as f64).sqrt()
            };
            let scores: Vec<f64> = keys.iter().map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for dimension in shared {
                let sum: f64 = weights.iter().zip(values).map(|(weight, value)| weight * value[dimension]).sum();
                mixed.push(sum / total);
            }
        }
        mixed
    }
}
