//! From weight files to a decoder: which tensor is what, by the names each family gives them.

use std::sync::Arc;

use candle_core::{DType, Result as CandleResult, Tensor};

use super::{
    Block, Decoder, Embedding, WeightKind, Weights,
    attention::Attention,
    operations::{Linear, Norm},
};
use crate::{Architecture, CheckpointError, MlpKind, NormKind, WeightFiles};

type Result<T> = std::result::Result<T, CheckpointError>;

impl Decoder {
    /// Reads every tensor of the architecture from `weights`; `transform` sees each on the way.
    ///
    /// # Errors
    /// A tensor is missing or does not fit.
    pub fn load(
        weights: &mut WeightFiles,
        architecture: &Architecture,
        transform: &dyn Fn(WeightKind, Tensor) -> CandleResult<Tensor>,
    ) -> Result<Self> {
        let names = Names::of(architecture, weights);
        let mut loader = Loader { weights, transform, a: architecture, names };
        let a = architecture;
        let table = loader.raw(&loader.names.embedding(), &[a.vocabulary, a.hidden])?;
        let embedding = loader.transformed(WeightKind::Embedding, table.clone())?;
        let head = if a.tied_head {
            // A tied file may still hold the head; transformers ignores that copy.
            loader.weights.ignore("lm_head.weight");
            table
        } else {
            loader.raw("lm_head.weight", &[a.vocabulary, a.hidden])?
        };
        let head = loader.transformed(WeightKind::Head, head)?;
        let embedding = if head.id() == embedding.id() { Embedding::Head } else { Embedding::Table(embedding) };
        let head = loader.turned("the output head", head, None)?;
        let positions = match a.rope {
            Some(_) => None,
            None => Some(loader.raw(&loader.names.positions(), &[a.max_positions, a.hidden])?),
        };
        let positions = positions.map(|rows| loader.transformed(WeightKind::Embedding, rows)).transpose()?;
        let blocks = (0..a.blocks).map(|index| loader.block(index)).collect::<Result<_>>()?;
        let final_norm = loader.norm(&loader.names.final_norm(), a.hidden)?;
        let weights = Weights { architecture: a.clone(), embedding, positions, blocks, final_norm, head };
        Ok(Self { weights: Arc::new(weights), dtype: DType::F32 })
    }
}

/// The names of one family's tensors.
enum Names {
    /// `model.layers.0.self_attn.q_proj.weight`, matrices `[out, in]`.
    Llama,
    /// `transformer.h.0.attn.c_attn.weight`, with or without the prefix, matrices `[in, out]`.
    Gpt2 { prefix: &'static str },
}

impl Names {
    fn of(a: &Architecture, weights: &WeightFiles) -> Self {
        match a.model_type.as_str() {
            "gpt2" if weights.contains("transformer.wte.weight") => Self::Gpt2 { prefix: "transformer." },
            "gpt2" => Self::Gpt2 { prefix: "" },
            _ => Self::Llama,
        }
    }

    fn embedding(&self) -> String {
        match self {
            Self::Llama => "model.embed_tokens.weight".into(),
            Self::Gpt2 { prefix } => format!("{prefix}wte.weight"),
        }
    }

    fn positions(&self) -> String {
        match self {
            Self::Llama => "model.embed_positions.weight".into(),
            Self::Gpt2 { prefix } => format!("{prefix}wpe.weight"),
        }
    }

    fn final_norm(&self) -> String {
        match self {
            Self::Llama => "model.norm".into(),
            Self::Gpt2 { prefix } => format!("{prefix}ln_f"),
        }
    }

    fn block(&self, index: usize, part: &str) -> String {
        match self {
            Self::Llama => format!("model.layers.{index}.{part}"),
            Self::Gpt2 { prefix } => format!("{prefix}h.{index}.{part}"),
        }
    }
}

struct Loader<'a> {
    weights: &'a mut WeightFiles,
    transform: &'a dyn Fn(WeightKind, Tensor) -> CandleResult<Tensor>,
    a: &'a Architecture,
    names: Names,
}

impl Loader<'_> {
    fn raw(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.weights.take(name, shape)
    }

    fn transformed(&self, kind: WeightKind, tensor: Tensor) -> Result<Tensor> {
        (self.transform)(kind, tensor).map_err(CheckpointError::computing(format!("a weight of kind {kind:?}")))
    }

    fn linear(&mut self, name: &str, out: usize, input: usize, bias: bool) -> Result<Linear> {
        let weight = self.raw(&format!("{name}.weight"), &[out, input])?;
        self.finished(name, weight, out, bias)
    }

    /// A matrix stored `[in, out]`.
    fn conv1d(&mut self, name: &str, out: usize, input: usize) -> Result<Linear> {
        let weight = self.raw(&format!("{name}.weight"), &[input, out])?;
        let weight = weight.t().and_then(|turned| turned.contiguous()).map_err(CheckpointError::computing(name))?;
        self.finished(name, weight, out, true)
    }

    fn finished(&mut self, name: &str, weight: Tensor, out: usize, bias: bool) -> Result<Linear> {
        let weight = self.transformed(WeightKind::Linear, weight)?;
        let bias = bias.then(|| self.raw(&format!("{name}.bias"), &[out])).transpose()?;
        let bias = bias.map(|bias| self.transformed(WeightKind::Bias, bias)).transpose()?;
        self.turned(name, weight, bias)
    }

    fn turned(&self, name: &str, weight: Tensor, bias: Option<Tensor>) -> Result<Linear> {
        Linear::new(&weight, bias).map_err(CheckpointError::computing(name))
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm> {
        let weight = self.raw(&format!("{name}.weight"), &[width])?;
        let weight = self.transformed(WeightKind::Norm, weight)?;
        let eps = self.a.norm_eps;
        match self.a.norm {
            NormKind::Rms => Ok(Norm::Rms { weight, eps }),
            NormKind::Layer => {
                let bias = self.raw(&format!("{name}.bias"), &[width])?;
                Ok(Norm::Layer { weight, bias: self.transformed(WeightKind::Bias, bias)?, eps })
            }
        }
    }

    fn block(&mut self, index: usize) -> Result<Block> {
        match self.names {
            Names::Llama => self.llama_block(index),
            Names::Gpt2 { .. } => self.gpt2_block(index),
        }
    }

    fn llama_block(&mut self, index: usize) -> Result<Block> {
        let a = self.a;
        let name = |loader: &Self, part: &str| loader.names.block(index, part);
        let (queries, keys) = (a.query_heads * a.head_dim, a.kv_heads * a.head_dim);
        let mut linear = |part: &str, out, input, bias| {
            let name = name(self, part);
            self.linear(&name, out, input, bias)
        };
        let q = linear("self_attn.q_proj", queries, a.hidden, a.biases.qkv)?;
        let k = linear("self_attn.k_proj", keys, a.hidden, a.biases.qkv)?;
        let v = linear("self_attn.v_proj", keys, a.hidden, a.biases.qkv)?;
        let o = linear("self_attn.o_proj", a.hidden, queries, a.biases.o)?;
        let gate = match a.mlp_kind {
            MlpKind::Gated => Some(linear("mlp.gate_proj", a.mlp, a.hidden, a.biases.mlp)?),
            MlpKind::Plain => None,
        };
        let up = linear("mlp.up_proj", a.mlp, a.hidden, a.biases.mlp)?;
        let down = linear("mlp.down_proj", a.hidden, a.mlp, a.biases.mlp)?;
        let mut norm = |part: &str, width| {
            let name = name(self, part);
            self.norm(&name, width)
        };
        let qk_norms = match a.qk_norm {
            true => Some((norm("self_attn.q_norm", a.head_dim)?, norm("self_attn.k_norm", a.head_dim)?)),
            false => None,
        };
        let (attn_norm, mlp_norm) = (norm("input_layernorm", a.hidden)?, norm("post_attention_layernorm", a.hidden)?);
        let attention = self.attention(index, [q, k, v, o], qk_norms);
        Ok(Block { attn_norm, attention, mlp_norm, gate, up, down, activation: a.activation })
    }

    fn gpt2_block(&mut self, index: usize) -> Result<Block> {
        let a = self.a;
        let name = |loader: &Self, part: &str| loader.names.block(index, part);
        // Buffers of older files: a causal mask and its constant.
        for buffer in ["attn.bias", "attn.masked_bias"] {
            self.weights.ignore(&name(self, buffer));
        }
        let fused = self.conv1d(&name(self, "attn.c_attn"), 3 * a.hidden, a.hidden)?;
        let part = |index| fused.channels(index * a.hidden, a.hidden).map_err(CheckpointError::computing("q, k and v"));
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let o = self.conv1d(&name(self, "attn.c_proj"), a.hidden, a.hidden)?;
        let up = self.conv1d(&name(self, "mlp.c_fc"), a.mlp, a.hidden)?;
        let down = self.conv1d(&name(self, "mlp.c_proj"), a.hidden, a.mlp)?;
        let attn_norm = self.norm(&name(self, "ln_1"), a.hidden)?;
        let mlp_norm = self.norm(&name(self, "ln_2"), a.hidden)?;
        let attention = self.attention(index, [q, k, v, o], None);
        Ok(Block { attn_norm, attention, mlp_norm, gate: None, up, down, activation: a.activation })
    }

    fn attention(&self, index: usize, [q, k, v, o]: [Linear; 4], qk_norms: Option<(Norm, Norm)>) -> Attention {
        let a = self.a;
        let (query_heads, kv_heads, head_dim, layer) = (a.query_heads, a.kv_heads, a.head_dim, a.layers[index]);
        Attention { q, k, v, o, qk_norms, query_heads, kv_heads, head_dim, layer }
    }
}
