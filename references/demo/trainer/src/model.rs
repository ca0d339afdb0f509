//! The demo model: a Llama as transformers' `LlamaForCausalLM` computes it, in operations that have a gradient.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use serde_json::json;

use crate::ops;
use crate::{Error, Result};

/// The sizes that make up an architecture.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Number of token ids.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key/value heads; each serves `heads / kv_heads` neighbouring query heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Width of the gated MLP.
    pub intermediate: usize,
    /// Added to the mean square in every norm.
    pub norm_epsilon: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Longest sequence the checkpoint admits, in tokens.
    pub max_positions: usize,
}

/// The demo checkpoint's architecture.
pub const DEMO: Config = Config {
    vocabulary: crate::tokenizer::VOCABULARY,
    hidden: 128,
    layers: 4,
    heads: 8,
    kv_heads: 4,
    head_dim: 16,
    intermediate: 344,
    norm_epsilon: 1e-5,
    rope_theta: 10_000.0,
    max_positions: 512,
};

impl Config {
    /// Every tensor's Hugging Face name and shape, in a fixed order.
    #[must_use]
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![self.vocabulary, self.hidden])];
        for layer in 0..self.layers {
            let of_layer = [
                ("input_layernorm", vec![self.hidden]),
                ("self_attn.q_proj", vec![query, self.hidden]),
                ("self_attn.k_proj", vec![key, self.hidden]),
                ("self_attn.v_proj", vec![key, self.hidden]),
                ("self_attn.o_proj", vec![self.hidden, query]),
                ("post_attention_layernorm", vec![self.hidden]),
                ("mlp.gate_proj", vec![self.intermediate, self.hidden]),
                ("mlp.up_proj", vec![self.intermediate, self.hidden]),
                ("mlp.down_proj", vec![self.hidden, self.intermediate]),
            ];
            tensors.extend(of_layer.map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)));
        }
        tensors.push(("model.norm.weight".to_owned(), vec![self.hidden]));
        tensors
    }

    /// Number of parameters; the output layer shares the embedding.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.tensors().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// The contents of `config.json` in the dialect of transformers 5.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": false,
            "attention_dropout": 0.0,
            "bos_token_id": crate::tokenizer::END_OF_TEXT_ID,
            "dtype": "float16",
            "eos_token_id": crate::tokenizer::END_OF_TEXT_ID,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate,
            "max_position_embeddings": self.max_positions,
            "mlp_bias": false,
            "model_type": "llama",
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_theta": self.rope_theta, "rope_type": "default"},
            "tie_word_embeddings": true,
            "use_cache": true,
            "vocab_size": self.vocabulary,
        })
    }
}

/// The demo model's logits for one sequence: `[token, vocabulary]`, f32. `checkpoint` is a safetensors file.
///
/// # Errors
/// When the file can't be read, lacks a tensor, or a token is out of range.
pub fn logits(checkpoint: &Path, tokens: &[u32]) -> Result<Tensor> {
    Model::load(checkpoint)?.logits(tokens)
}

/// The demo model's weights, in f32.
#[derive(Debug)]
pub struct Model {
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
}

#[derive(Debug)]
struct Layer {
    input_norm: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    mlp_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Model {
    /// Reads a safetensors file of the [`DEMO`] architecture.
    ///
    /// # Errors
    /// When the file can't be read or lacks a tensor.
    pub fn load(checkpoint: &Path) -> Result<Self> {
        Self::from_tensors(&candle_core::safetensors::load(checkpoint, &Device::Cpu)?)
    }

    /// Takes the weights from tensors under their Hugging Face names. F32 tensors are shared, not copied, so gradients
    /// reach them.
    ///
    /// # Errors
    /// When a tensor is missing or not a float.
    pub fn from_tensors(tensors: &HashMap<String, Tensor>) -> Result<Self> {
        let take = |name: &str| -> Result<Tensor> {
            let tensor = tensors.get(name).ok_or_else(|| Error::MissingTensor { name: name.to_owned() })?;
            Ok(tensor.to_dtype(candle_core::DType::F32)?)
        };
        let layer = |index: usize| -> Result<Layer> {
            let take = |name: &str| take(&format!("model.layers.{index}.{name}.weight"));
            Ok(Layer {
                input_norm: take("input_layernorm")?,
                query: take("self_attn.q_proj")?,
                key: take("self_attn.k_proj")?,
                value: take("self_attn.v_proj")?,
                output: take("self_attn.o_proj")?,
                mlp_norm: take("post_attention_layernorm")?,
                gate: take("mlp.gate_proj")?,
                up: take("mlp.up_proj")?,
                down: take("mlp.down_proj")?,
            })
        };
        Ok(Self {
            embedding: take("model.embed_tokens.weight")?,
            layers: (0..DEMO.layers).map(layer).collect::<Result<_>>()?,
            norm: take("model.norm.weight")?,
        })
    }

    /// The logits for one sequence: `[token, vocabulary]`, f32.
    ///
    /// # Errors
    /// When there is no token or one is out of range.
    pub fn logits(&self, tokens: &[u32]) -> Result<Tensor> {
        let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        Ok(self.forward(&tokens)?.squeeze(0)?)
    }

    /// `[batch, token]` ids to `[batch, token, vocabulary]` logits.
    pub(crate) fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let (batch, length) = tokens.dims2()?;
        let mut residual = self.embedding.index_select(&tokens.flatten_all()?, 0)?;
        for layer in &self.layers {
            residual = (&residual + layer.attention(&rms_norm(&residual, &layer.input_norm)?, batch)?)?;
            residual = (&residual + layer.mlp(&rms_norm(&residual, &layer.mlp_norm)?)?)?;
        }
        let logits = linear(&rms_norm(&residual, &self.norm)?, &self.embedding)?;
        Ok(logits.reshape((batch, length, DEMO.vocabulary))?)
    }
}

impl Layer {
    /// `[batch · token, hidden]` to the same shape.
    fn attention(&self, x: &Tensor, batch: usize) -> Result<Tensor> {
        let length = x.dim(0)? / batch;
        // [batch · token, head · head_dim] to [batch, head, token, head_dim].
        let heads = |projection: &Tensor, heads: usize| -> Result<Tensor> {
            let split = linear(x, projection)?.reshape((batch, length, heads, DEMO.head_dim))?;
            Ok(split.transpose(1, 2)?.contiguous()?)
        };
        let query = ops::rotate(&heads(&self.query, DEMO.heads)?, DEMO.rope_theta)?;
        let key = ops::rotate(&heads(&self.key, DEMO.kv_heads)?, DEMO.rope_theta)?;
        let value = heads(&self.value, DEMO.kv_heads)?;
        // Query heads that share a key head are neighbours, so they stack to one matrix of rows.
        let rows = DEMO.heads / DEMO.kv_heads * length;
        let query = query.reshape((batch, DEMO.kv_heads, rows, DEMO.head_dim))?;
        let scores = query.matmul(&key.transpose(2, 3)?)?;
        let weights = ops::causal_softmax(&scores, (DEMO.head_dim as f32).sqrt().recip())?;
        let mixed = weights.matmul(&value)?.reshape((batch, DEMO.heads, length, DEMO.head_dim))?;
        let joined = mixed.transpose(1, 2)?.contiguous()?.reshape((batch * length, DEMO.heads * DEMO.head_dim))?;
        linear(&joined, &self.output)
    }

    fn mlp(&self, x: &Tensor) -> Result<Tensor> {
        let gated = (ops::silu(&linear(x, &self.gate)?)? * linear(x, &self.up)?)?;
        linear(&gated, &self.down)
    }
}

/// `x · weightᵀ`, the weight in the checkpoint's `[out, in]`.
fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok(x.matmul(&weight.t()?)?)
}

fn rms_norm(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok(ops::normalise(x, DEMO.norm_epsilon)?.broadcast_mul(weight)?)
}
