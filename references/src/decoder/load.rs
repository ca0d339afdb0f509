//! From weight files to a decoder: which tensor is what, by the names each family gives them.

use std::sync::Arc;

use candle_core::{DType, Result as CandleResult, Tensor};

use super::{
    Block, Decoder, WeightKind, Weights,
    attention::Attention,
    operations::{Linear, Norm},
};
use crate::{Architecture, CheckpointError, MlpKind, NormKind, NormPlacement, Output, WeightFiles};

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
        let (embedding_norm, final_norm) = (names.embedding_norm(), names.final_norm());
        let mut loader = Loader { weights, transform, a: architecture, names };
        let a = architecture;
        let table = loader.raw(&loader.names.embedding(), &[a.vocabulary, a.hidden])?;
        let embedding = loader.transformed(WeightKind::Embedding, table.clone())?;
        let head = match a.output {
            Output::Logits if a.tied_head => {
                // A tied file may still hold the head; transformers ignores that copy.
                loader.weights.ignore("lm_head.weight");
                Some(table)
            }
            Output::Logits => Some(loader.raw("lm_head.weight", &[a.vocabulary, a.hidden])?),
            Output::Hidden(_) => None,
        };
        let head = head.map(|head| loader.transformed(WeightKind::Head, head)).transpose()?;
        let embedding = Some(embedding).filter(|table| head.as_ref().is_none_or(|head| head.id() != table.id()));
        let head = head.map(|head| packed("the output head", &head, None)).transpose()?;
        let positions = match a.rope {
            Some(_) => None,
            None => Some(loader.raw(&loader.names.positions(), &[a.max_positions, a.hidden])?),
        };
        let positions = positions.map(|rows| loader.transformed(WeightKind::Embedding, rows)).transpose()?;
        let blocks = (0..a.blocks).map(|index| loader.block(index)).collect::<Result<_>>()?;
        let token_type = a.token_types.map(|rows| loader.first_token_type(rows)).transpose()?;
        let mut norm_if = |there: bool, name: &str| there.then(|| loader.norm(name, a.hidden)).transpose();
        let embedding_norm = norm_if(a.embedding_norm, &embedding_norm)?;
        let final_norm = norm_if(a.norm_placement == NormPlacement::Before, &final_norm)?;
        loader.ignore_what_stands_on_it();
        let architecture = a.clone();
        let weights =
            Weights { architecture, embedding, positions, token_type, embedding_norm, blocks, final_norm, head };
        Ok(Self { weights: Arc::new(weights), dtype: DType::F32 })
    }
}

fn packed(name: &str, weight: &Tensor, bias: Option<Tensor>) -> Result<Linear> {
    Linear::new(weight, bias).map_err(CheckpointError::computing(name))
}

/// The names of one family's tensors.
enum Names {
    /// `model.layers.0.self_attn.q_proj.weight`, matrices `[out, in]`.
    Llama,
    /// `transformer.h.0.attn.c_attn.weight`, with or without the prefix, matrices `[in, out]`.
    Gpt2 { prefix: &'static str },
    /// `bert.encoder.layer.0.attention.self.query.weight`, with or without the prefix, matrices `[out, in]`. Norms of old files
    /// have `gamma` and `beta` for `weight` and `bias`.
    Bert { prefix: &'static str },
}

impl Names {
    fn of(a: &Architecture, weights: &WeightFiles) -> Self {
        match a.model_type.as_str() {
            "gpt2" if weights.contains("transformer.wte.weight") => Self::Gpt2 { prefix: "transformer." },
            "gpt2" => Self::Gpt2 { prefix: "" },
            "bert" if weights.contains("bert.embeddings.word_embeddings.weight") => Self::Bert { prefix: "bert." },
            "bert" => Self::Bert { prefix: "" },
            _ => Self::Llama,
        }
    }

    fn embedding(&self) -> String {
        match self {
            Self::Llama => "model.embed_tokens.weight".into(),
            Self::Gpt2 { prefix } => format!("{prefix}wte.weight"),
            Self::Bert { prefix } => format!("{prefix}embeddings.word_embeddings.weight"),
        }
    }

    fn positions(&self) -> String {
        match self {
            Self::Llama => "model.embed_positions.weight".into(),
            Self::Gpt2 { prefix } => format!("{prefix}wpe.weight"),
            Self::Bert { prefix } => format!("{prefix}embeddings.position_embeddings.weight"),
        }
    }

    fn token_types(&self) -> String {
        match self {
            Self::Llama | Self::Gpt2 { .. } => "token_type_embeddings.weight".into(),
            Self::Bert { prefix } => format!("{prefix}embeddings.token_type_embeddings.weight"),
        }
    }

    fn embedding_norm(&self) -> String {
        match self {
            Self::Llama => "model.embed_norm".into(),
            Self::Gpt2 { prefix } => format!("{prefix}ln_emb"),
            Self::Bert { prefix } => format!("{prefix}embeddings.LayerNorm"),
        }
    }

    fn final_norm(&self) -> String {
        match self {
            Self::Llama => "model.norm".into(),
            Self::Gpt2 { prefix } => format!("{prefix}ln_f"),
            Self::Bert { prefix } => format!("{prefix}encoder.norm"),
        }
    }

    fn block(&self, index: usize, part: &str) -> String {
        match self {
            Self::Llama => format!("model.layers.{index}.{part}"),
            Self::Gpt2 { prefix } => format!("{prefix}h.{index}.{part}"),
            Self::Bert { prefix } => format!("{prefix}encoder.layer.{index}.{part}"),
        }
    }
}

/// Tensors of BERT's heads for pre-training.
pub(crate) fn bert_heads() -> impl Iterator<Item = String> {
    let norms = ["weight", "bias", "gamma", "beta"].map(|part| format!("transform.LayerNorm.{part}"));
    let others = ["bias", "transform.dense.weight", "transform.dense.bias", "decoder.weight", "decoder.bias"];
    let predictions = norms.into_iter().chain(others.map(str::to_owned)).map(|part| format!("cls.predictions.{part}"));
    predictions.chain(["weight", "bias"].map(|part| format!("cls.seq_relationship.{part}")))
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
        let (weight, bias) = self.finished(name, weight, out, bias)?;
        packed(name, &weight, bias)
    }

    fn conv1d(&mut self, name: &str, out: usize, input: usize) -> Result<Linear> {
        let (weight, bias) = self.conv1d_tensors(name, out, input)?;
        packed(name, &weight, bias)
    }

    /// Weight `[out, in]`, stored `[in, out]`, and bias.
    fn conv1d_tensors(&mut self, name: &str, out: usize, input: usize) -> Result<(Tensor, Option<Tensor>)> {
        let weight = self.raw(&format!("{name}.weight"), &[input, out])?;
        let weight = weight.t().and_then(|turned| turned.contiguous()).map_err(CheckpointError::computing(name))?;
        self.finished(name, weight, out, true)
    }

    fn finished(&mut self, name: &str, weight: Tensor, out: usize, bias: bool) -> Result<(Tensor, Option<Tensor>)> {
        let weight = self.transformed(WeightKind::Linear, weight)?;
        let bias = bias.then(|| self.raw(&format!("{name}.bias"), &[out])).transpose()?;
        Ok((weight, bias.map(|bias| self.transformed(WeightKind::Bias, bias)).transpose()?))
    }

    /// What every token of a text of one segment has: row 0 of the table of token types.
    fn first_token_type(&mut self, rows: usize) -> Result<Tensor> {
        let table = self.raw(&self.names.token_types(), &[rows, self.a.hidden])?;
        let table = self.transformed(WeightKind::Embedding, table)?;
        table.get(0).map_err(CheckpointError::computing("the first token type"))
    }

    /// The pooler and the heads for pre-training stand on an encoder's last hidden state and change nothing in it.
    fn ignore_what_stands_on_it(&mut self) {
        let Names::Bert { prefix } = self.names else { return };
        for part in ["weight", "bias"] {
            self.weights.ignore(&format!("{prefix}pooler.dense.{part}"));
        }
        for head in bert_heads() {
            self.weights.ignore(&head);
        }
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm> {
        let old = matches!(self.names, Names::Bert { .. }) && self.weights.contains(&format!("{name}.gamma"));
        let [scale, shift] = if old { ["gamma", "beta"] } else { ["weight", "bias"] };
        let weight = self.raw(&format!("{name}.{scale}"), &[width])?;
        let weight = self.transformed(WeightKind::Norm, weight)?;
        let eps = self.a.norm_eps;
        match self.a.norm {
            NormKind::Rms => Ok(Norm::Rms { weight, eps }),
            NormKind::Layer => {
                let bias = self.raw(&format!("{name}.{shift}"), &[width])?;
                Ok(Norm::Layer { weight, bias: self.transformed(WeightKind::Bias, bias)?, eps })
            }
        }
    }

    fn block(&mut self, index: usize) -> Result<Block> {
        match self.names {
            Names::Llama => self.llama_block(index),
            Names::Gpt2 { .. } => self.gpt2_block(index),
            Names::Bert { .. } => self.bert_block(index),
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
        let (weight, bias) = self.conv1d_tensors(&name(self, "attn.c_attn"), 3 * a.hidden, a.hidden)?;
        let part = |index| {
            let part = |fused: &Tensor| fused.narrow(0, index * a.hidden, a.hidden);
            let linear = part(&weight).and_then(|weight| Linear::new(&weight, bias.as_ref().map(part).transpose()?));
            linear.map_err(CheckpointError::computing("q, k and v"))
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let o = self.conv1d(&name(self, "attn.c_proj"), a.hidden, a.hidden)?;
        let up = self.conv1d(&name(self, "mlp.c_fc"), a.mlp, a.hidden)?;
        let down = self.conv1d(&name(self, "mlp.c_proj"), a.hidden, a.mlp)?;
        let attn_norm = self.norm(&name(self, "ln_1"), a.hidden)?;
        let mlp_norm = self.norm(&name(self, "ln_2"), a.hidden)?;
        let attention = self.attention(index, [q, k, v, o], None);
        Ok(Block { attn_norm, attention, mlp_norm, gate: None, up, down, activation: a.activation })
    }

    fn bert_block(&mut self, index: usize) -> Result<Block> {
        let a = self.a;
        let name = |loader: &Self, part: &str| loader.names.block(index, part);
        let mut linear = |part: &str, out, input| {
            let name = name(self, part);
            self.linear(&name, out, input, true)
        };
        let q = linear("attention.self.query", a.hidden, a.hidden)?;
        let k = linear("attention.self.key", a.hidden, a.hidden)?;
        let v = linear("attention.self.value", a.hidden, a.hidden)?;
        let o = linear("attention.output.dense", a.hidden, a.hidden)?;
        let up = linear("intermediate.dense", a.mlp, a.hidden)?;
        let down = linear("output.dense", a.hidden, a.mlp)?;
        let attn_norm = self.norm(&name(self, "attention.output.LayerNorm"), a.hidden)?;
        let mlp_norm = self.norm(&name(self, "output.LayerNorm"), a.hidden)?;
        let attention = self.attention(index, [q, k, v, o], None);
        Ok(Block { attn_norm, attention, mlp_norm, gate: None, up, down, activation: a.activation })
    }

    fn attention(&self, index: usize, [q, k, v, o]: [Linear; 4], qk_norms: Option<(Norm, Norm)>) -> Attention {
        let a = self.a;
        let (query_heads, kv_heads, head_dim, layer) = (a.query_heads, a.kv_heads, a.head_dim, a.layers[index]);
        Attention { q, k, v, o, qk_norms, query_heads, kv_heads, head_dim, layer }
    }
}
