//! From weight files to a decoder: which tensor is what, by the names each family gives them.

use std::sync::Arc;

use candle_core::{DType, Tensor};
use fidelity_trace::{BlockSite, Site};

use super::{
    Block, Decoder, EachWeight, Step, WeightKind, WeightTransform, Weights,
    attention::Attention,
    names::{Names, bert_heads},
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
        transform: &dyn Fn(WeightKind, Tensor) -> candle_core::Result<Tensor>,
    ) -> Result<Self> {
        Self::transformed(weights, architecture, &EachWeight(transform))
    }

    pub(crate) fn transformed(
        weights: &mut WeightFiles,
        architecture: &Architecture,
        transform: &dyn WeightTransform,
    ) -> Result<Self> {
        let names = Names::of(architecture, weights);
        let (embedding_norm, final_norm) = (names.embedding_norm(), names.final_norm());
        let mut loader = Loader { weights, transform, a: architecture, names };
        let a = architecture;
        let table = loader.raw(&loader.names.embedding(), &[a.vocabulary, a.hidden])?;
        let embedding = loader.transformed(WeightKind::Embedding, table.clone())?;
        let final_norm = match a.norm_placement {
            NormPlacement::Before => Some(loader.norm(&final_norm, a.hidden, Site::FinalNorm)?),
            NormPlacement::After => None,
        };
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
        let head_bias = match head {
            Some(_) => loader.bias_of(Site::Logits, None)?,
            None => None,
        };
        let head = head.map(|head| packed("the output head", &head, head_bias)).transpose()?;
        let positions = match a.rope {
            Some(_) => None,
            None => Some(loader.raw(&loader.names.positions(), &[a.max_positions, a.hidden])?),
        };
        let positions = positions.map(|rows| loader.transformed(WeightKind::Embedding, rows)).transpose()?;
        let blocks = (0..a.blocks).map(|index| loader.block(index)).collect::<Result<_>>()?;
        let token_type = a.token_types.map(|rows| loader.first_token_type(rows)).transpose()?;
        let embedding_norm =
            a.embedding_norm.then(|| loader.norm(&embedding_norm, a.hidden, Site::Embed)).transpose()?;
        loader.ignore_what_stands_on_it();
        let architecture = a.clone();
        let weights = Weights {
            architecture,
            embedding,
            positions,
            token_type,
            embedding_norm,
            blocks,
            final_norm,
            head,
            order: (0..a.blocks).map(Step::Block).collect(),
            embedding_scale: 1.0,
            logits_from: None,
        };
        Ok(Self { weights: Arc::new(weights), dtype: DType::F32 })
    }
}

fn packed(name: &str, weight: &Tensor, bias: Option<Tensor>) -> Result<Linear> {
    Linear::new(weight, bias).map_err(CheckpointError::computing(name))
}

struct Loader<'a> {
    weights: &'a mut WeightFiles,
    transform: &'a dyn WeightTransform,
    a: &'a Architecture,
    names: Names,
}

impl Loader<'_> {
    fn raw(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.weights.take(name, shape)
    }

    fn transformed(&self, kind: WeightKind, tensor: Tensor) -> Result<Tensor> {
        self.transform.weight(kind, tensor).map_err(CheckpointError::computing(format!("a weight of kind {kind:?}")))
    }

    fn bias_of(&self, site: Site, bias: Option<Tensor>) -> Result<Option<Tensor>> {
        self.transform.bias(site, bias).map_err(CheckpointError::computing(format!("the bias of {site}")))
    }

    fn linear(&mut self, name: &str, out: usize, input: usize, bias: bool, site: Site) -> Result<Linear> {
        let weight = self.raw(&format!("{name}.weight"), &[out, input])?;
        let [linear] = self.finished(name, weight, bias, [site])?;
        Ok(linear)
    }

    /// A matrix stored `[in, out]`, whose output channels are those of these sites, as many each.
    fn conv1d<const N: usize>(
        &mut self,
        name: &str,
        out: usize,
        input: usize,
        sites: [Site; N],
    ) -> Result<[Linear; N]> {
        let weight = self.raw(&format!("{name}.weight"), &[input, out])?;
        let weight = weight.t().and_then(|turned| turned.contiguous()).map_err(CheckpointError::computing(name))?;
        self.finished(name, weight, true, sites)
    }

    fn finished<const N: usize>(
        &mut self,
        name: &str,
        weight: Tensor,
        bias: bool,
        sites: [Site; N],
    ) -> Result<[Linear; N]> {
        let out = weight.dims()[0];
        let bias = bias.then(|| self.raw(&format!("{name}.bias"), &[out])).transpose()?;
        let rows = out / N;
        let part = |(index, site): (usize, &Site)| {
            let own = |tensor: &Tensor| tensor.narrow(0, index * rows, rows).and_then(|part| part.contiguous());
            let own = |tensor| own(tensor).map_err(CheckpointError::computing(name));
            let weight = self.transformed(WeightKind::Linear(*site), own(&weight)?)?;
            packed(name, &weight, self.bias_of(*site, bias.as_ref().map(own).transpose()?)?)
        };
        let linears = sites.iter().enumerate().map(part).collect::<Result<Vec<_>>>()?;
        Ok(linears.try_into().unwrap_or_else(|_| unreachable!("one a site")))
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

    fn norm(&mut self, name: &str, width: usize, site: Site) -> Result<Norm> {
        let old = matches!(self.names, Names::Bert { .. }) && self.weights.contains(&format!("{name}.gamma"));
        let [scale, shift] = if old { ["gamma", "beta"] } else { ["weight", "bias"] };
        let weight = self.raw(&format!("{name}.{scale}"), &[width])?;
        let weight = self.transformed(WeightKind::Norm(site), weight)?;
        let eps = self.a.norm_eps;
        match self.a.norm {
            NormKind::Rms => Ok(Norm::Rms { weight, eps }),
            NormKind::Layer => {
                let bias = self.raw(&format!("{name}.{shift}"), &[width])?;
                Ok(Norm::Layer { weight, bias: self.transformed(WeightKind::Bias(site), bias)?, eps })
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
        let at = |site| Site::Block(index as u32, site);
        let (queries, keys) = (a.query_heads * a.head_dim, a.kv_heads * a.head_dim);
        let mut norm = |part: &str, width, site| {
            let name = name(self, part);
            self.norm(&name, width, at(site))
        };
        let attn_norm = norm("input_layernorm", a.hidden, BlockSite::AttnNorm)?;
        let mlp_norm = norm("post_attention_layernorm", a.hidden, BlockSite::MlpNorm)?;
        let qk_norms = match a.qk_norm {
            true => Some((
                norm("self_attn.q_norm", a.head_dim, BlockSite::Q)?,
                norm("self_attn.k_norm", a.head_dim, BlockSite::K)?,
            )),
            false => None,
        };
        let mut linear = |part: &str, out, input, bias, site| {
            let name = name(self, part);
            self.linear(&name, out, input, bias, at(site))
        };
        let q = linear("self_attn.q_proj", queries, a.hidden, a.biases.qkv, BlockSite::Q)?;
        let k = linear("self_attn.k_proj", keys, a.hidden, a.biases.qkv, BlockSite::K)?;
        let v = linear("self_attn.v_proj", keys, a.hidden, a.biases.qkv, BlockSite::V)?;
        let o = linear("self_attn.o_proj", a.hidden, queries, a.biases.o, BlockSite::AttnOut)?;
        let gate = match a.mlp_kind {
            MlpKind::Gated => Some(linear("mlp.gate_proj", a.mlp, a.hidden, a.biases.mlp, BlockSite::Gate)?),
            MlpKind::Plain => None,
        };
        let up = linear("mlp.up_proj", a.mlp, a.hidden, a.biases.mlp, BlockSite::Up)?;
        let down = linear("mlp.down_proj", a.hidden, a.mlp, a.biases.mlp, BlockSite::MlpOut)?;
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
        let at = |site| Site::Block(index as u32, site);
        let attn_norm = self.norm(&name(self, "ln_1"), a.hidden, at(BlockSite::AttnNorm))?;
        let mlp_norm = self.norm(&name(self, "ln_2"), a.hidden, at(BlockSite::MlpNorm))?;
        let of_fused = [BlockSite::Q, BlockSite::K, BlockSite::V].map(at);
        let [q, k, v] = self.conv1d(&name(self, "attn.c_attn"), 3 * a.hidden, a.hidden, of_fused)?;
        let [o] = self.conv1d(&name(self, "attn.c_proj"), a.hidden, a.hidden, [at(BlockSite::AttnOut)])?;
        let [up] = self.conv1d(&name(self, "mlp.c_fc"), a.mlp, a.hidden, [at(BlockSite::Up)])?;
        let [down] = self.conv1d(&name(self, "mlp.c_proj"), a.hidden, a.mlp, [at(BlockSite::MlpOut)])?;
        let attention = self.attention(index, [q, k, v, o], None);
        Ok(Block { attn_norm, attention, mlp_norm, gate: None, up, down, activation: a.activation })
    }

    fn bert_block(&mut self, index: usize) -> Result<Block> {
        let a = self.a;
        let name = |loader: &Self, part: &str| loader.names.block(index, part);
        let at = |site| Site::Block(index as u32, site);
        let mut linear = |part: &str, out, input, site| {
            let name = name(self, part);
            self.linear(&name, out, input, true, at(site))
        };
        let q = linear("attention.self.query", a.hidden, a.hidden, BlockSite::Q)?;
        let k = linear("attention.self.key", a.hidden, a.hidden, BlockSite::K)?;
        let v = linear("attention.self.value", a.hidden, a.hidden, BlockSite::V)?;
        let o = linear("attention.output.dense", a.hidden, a.hidden, BlockSite::AttnOut)?;
        let up = linear("intermediate.dense", a.mlp, a.hidden, BlockSite::Up)?;
        let down = linear("output.dense", a.hidden, a.mlp, BlockSite::MlpOut)?;
        // After the sums, the first norm writes what the MLP reads, the second what the block returns.
        let attn_norm = self.norm(&name(self, "attention.output.LayerNorm"), a.hidden, at(BlockSite::MlpNorm))?;
        let mlp_norm = self.norm(&name(self, "output.LayerNorm"), a.hidden, at(BlockSite::ResidPost))?;
        let attention = self.attention(index, [q, k, v, o], None);
        Ok(Block { attn_norm, attention, mlp_norm, gate: None, up, down, activation: a.activation })
    }

    fn attention(&self, index: usize, [q, k, v, o]: [Linear; 4], qk_norms: Option<(Norm, Norm)>) -> Attention {
        let a = self.a;
        let (query_heads, kv_heads, head_dim, layer) = (a.query_heads, a.kv_heads, a.head_dim, a.layers[index]);
        let (q_norm, k_norm) = qk_norms.unzip();
        Attention { q, k, v, o, q_norm, k_norm, query_heads, kv_heads, head_dim, layer }
    }
}
