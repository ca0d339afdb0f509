//! The one decoder: reference, emulator and counterfactuals all run it. What varies is data: the [`Architecture`], the
//! [`Instrument`] that sees every site, the [`Wiring`] that injected faults change.

mod attention;
mod cache;
mod operations;
mod rope;
mod wiring;

pub use cache::Cache;
pub use wiring::Wiring;

use candle_core::{DType, Device, Result, Tensor};
use fidelity_trace::{BlockSite, Site};

use crate::{Architecture, CheckpointError, Layer, WeightFiles};
use attention::Attention;
use operations::{Linear, Norm, swiglu};
use rope::RopeTable;

/// Called once at every site, in data-flow order. Returns the tensor itself, or another one that takes its place.
///
/// Tensors are shaped as [`BlockSite`] says, but for `scores` and `pattern`, which are `[query head, position, key]` here,
/// scores before the mask.
pub trait Instrument {
    /// Observes or replaces the tensor at `site`.
    ///
    /// # Errors
    /// An error ends the forward pass.
    fn at(&mut self, site: Site, tensor: Tensor) -> Result<Tensor>;
}

/// What a weight is for, which decides how a recipe quantises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightKind {
    /// Rows of token embeddings, `[vocabulary, hidden]`.
    Embedding,
    /// A projection inside a block, `[out, in]`.
    Linear,
    /// The output head, `[vocabulary, hidden]`.
    Head,
    /// The scale of a norm.
    Norm,
    /// The bias of a projection.
    Bias,
}

/// Which earlier keys a position may attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Itself and everything before.
    Causal,
    /// Only itself.
    SelfOnly,
}

impl Visibility {
    /// Whether a position sees a key in a block of this kind.
    pub(crate) fn sees(self, layer: Layer, position: u32, key: u32) -> bool {
        match self {
            Self::Causal => layer.sees(position, key),
            Self::SelfOnly => key == position,
        }
    }
}

/// Tokens fed at once.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The tokens, never empty, each below the vocabulary.
    pub token_ids: &'a [u32],
    /// Position of each in the sequence, ascending.
    pub positions: &'a [u32],
    /// What each may attend to.
    pub visibility: Visibility,
}

/// A checkpoint ready to compute.
pub struct Decoder {
    architecture: Architecture,
    embedding: Tensor,
    blocks: Vec<Block>,
    final_norm: Norm,
    head: Linear,
}

struct Block {
    attn_norm: Norm,
    attention: Attention,
    mlp_norm: Norm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Decoder {
    /// Reads every tensor of the architecture from `weights`; `transform` sees each on the way.
    ///
    /// # Errors
    /// A tensor is missing or does not fit.
    pub fn load(
        weights: &mut WeightFiles,
        architecture: &Architecture,
        transform: &dyn Fn(WeightKind, Tensor) -> Result<Tensor>,
    ) -> std::result::Result<Self, CheckpointError> {
        let mut loader = Loader { weights, transform };
        let a = architecture;
        let table = loader.raw("model.embed_tokens.weight", &[a.vocabulary, a.hidden])?;
        let embedding = loader.transformed(WeightKind::Embedding, table.clone())?;
        let head = if a.tied_head {
            // A tied file may still hold the head; transformers ignores that copy.
            loader.weights.ignore("lm_head.weight");
            table
        } else {
            loader.raw("lm_head.weight", &[a.vocabulary, a.hidden])?
        };
        let head = Linear::new(loader.transformed(WeightKind::Head, head)?, None);
        let blocks =
            (0..a.blocks).map(|index| Block::load(&mut loader, a, index)).collect::<std::result::Result<_, _>>()?;
        let final_norm = loader.norm("model.norm.weight", a.hidden, a)?;
        Ok(Self { architecture: a.clone(), embedding, blocks, final_norm, head })
    }

    /// The same decoder computing in float64 from the same float32 weights.
    ///
    /// # Errors
    /// Out of memory.
    pub fn to_float64(&self) -> Result<Self> {
        let blocks = self.blocks.iter().map(|block| block.to_dtype(DType::F64));
        Ok(Self {
            architecture: self.architecture.clone(),
            embedding: self.embedding.to_dtype(DType::F64)?,
            blocks: blocks.collect::<Result<_>>()?,
            final_norm: self.final_norm.to_dtype(DType::F64)?,
            head: self.head.to_dtype(DType::F64)?,
        })
    }

    /// The architecture.
    #[must_use]
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The dtype computed in.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.embedding.dtype()
    }

    /// Computes a chunk, after what is in the cache if there is one, and returns logits `[position, vocabulary]`.
    ///
    /// # Errors
    /// The cache is full, the instrument fails, or memory runs out.
    pub fn forward(
        &self,
        chunk: &Chunk<'_>,
        mut cache: Option<&mut Cache>,
        wiring: &Wiring,
        instrument: &mut dyn Instrument,
    ) -> Result<Tensor> {
        let ids = Tensor::new(chunk.token_ids, &Device::Cpu)?;
        let mut residual = instrument.at(Site::Embed, self.embedding.index_select(&ids, 0)?)?;
        let rope = RopeTable::new(&self.architecture.rope, chunk.positions, self.dtype())?;
        for index in 0..self.blocks.len() {
            residual = self.through_block(index, residual, chunk, &rope, cache.as_deref_mut(), wiring, instrument)?;
        }
        if let Some(cache) = cache {
            cache.advance(chunk.positions);
        }
        let normed = instrument.at(Site::FinalNorm, self.final_norm.apply(&residual)?)?;
        instrument.at(Site::Logits, self.head.apply(&normed)?)
    }

    /// Computes one block alone on a given residual stream `[position, hidden]`, without a cache.
    ///
    /// # Errors
    /// The input does not fit or memory runs out.
    pub fn block(
        &self,
        index: usize,
        input: Tensor,
        positions: &[u32],
        instrument: &mut dyn Instrument,
    ) -> Result<Tensor> {
        let rope = RopeTable::new(&self.architecture.rope, positions, self.dtype())?;
        let chunk = Chunk { token_ids: &[], positions, visibility: Visibility::Causal };
        self.through_block(index, input, &chunk, &rope, None, &Wiring::default(), instrument)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call site in the loop and one for a single block; a struct would only rename them"
    )]
    fn through_block(
        &self,
        index: usize,
        input: Tensor,
        chunk: &Chunk<'_>,
        rope: &RopeTable,
        cache: Option<&mut Cache>,
        wiring: &Wiring,
        instrument: &mut dyn Instrument,
    ) -> Result<Tensor> {
        let block = &self.blocks[index];
        let mut at = |site, tensor| instrument.at(Site::Block(index as u32, site), tensor);
        let normed = at(BlockSite::AttnNorm, block.attn_norm.apply(&input)?)?;
        let added = block.attention.apply(index, &normed, chunk, rope, cache, &wiring.block(index as u32), &mut at)?;
        let middle = at(BlockSite::ResidMid, (input + added)?)?;
        let normed = at(BlockSite::MlpNorm, block.mlp_norm.apply(&middle)?)?;
        let gate = at(BlockSite::Gate, block.gate.apply(&normed)?)?;
        let up = at(BlockSite::Up, block.up.apply(&normed)?)?;
        let act = at(BlockSite::Act, swiglu(&gate, &up)?)?;
        let added = at(BlockSite::MlpOut, block.down.apply(&act)?)?;
        at(BlockSite::ResidPost, (middle + added)?)
    }
}

impl Block {
    fn load(loader: &mut Loader<'_>, a: &Architecture, index: usize) -> std::result::Result<Self, CheckpointError> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let mut mlp = |part: &str, out, input| loader.linear(&name(&format!("mlp.{part}")), out, input, a.biases.mlp);
        let gate = mlp("gate_proj", a.mlp, a.hidden)?;
        let up = mlp("up_proj", a.mlp, a.hidden)?;
        let down = mlp("down_proj", a.hidden, a.mlp)?;
        Ok(Self {
            attn_norm: loader.norm(&name("input_layernorm.weight"), a.hidden, a)?,
            attention: Attention::load(loader, a, index, &name("self_attn"))?,
            mlp_norm: loader.norm(&name("post_attention_layernorm.weight"), a.hidden, a)?,
            gate,
            up,
            down,
        })
    }

    fn to_dtype(&self, dtype: DType) -> Result<Self> {
        Ok(Self {
            attn_norm: self.attn_norm.to_dtype(dtype)?,
            attention: self.attention.to_dtype(dtype)?,
            mlp_norm: self.mlp_norm.to_dtype(dtype)?,
            gate: self.gate.to_dtype(dtype)?,
            up: self.up.to_dtype(dtype)?,
            down: self.down.to_dtype(dtype)?,
        })
    }
}

struct Loader<'a> {
    weights: &'a mut WeightFiles,
    transform: &'a dyn Fn(WeightKind, Tensor) -> Result<Tensor>,
}

impl Loader<'_> {
    fn raw(&mut self, name: &str, shape: &[usize]) -> std::result::Result<Tensor, CheckpointError> {
        self.weights.take(name, shape)
    }

    fn transformed(&self, kind: WeightKind, tensor: Tensor) -> std::result::Result<Tensor, CheckpointError> {
        (self.transform)(kind, tensor).map_err(CheckpointError::computing(format!("a weight of kind {kind:?}")))
    }

    fn linear(
        &mut self,
        name: &str,
        out: usize,
        input: usize,
        bias: bool,
    ) -> std::result::Result<Linear, CheckpointError> {
        let weight = self.raw(&format!("{name}.weight"), &[out, input])?;
        let weight = self.transformed(WeightKind::Linear, weight)?;
        let bias = bias.then(|| self.raw(&format!("{name}.bias"), &[out])).transpose()?;
        let bias = bias.map(|bias| self.transformed(WeightKind::Bias, bias)).transpose()?;
        Ok(Linear::new(weight, bias))
    }

    fn norm(&mut self, name: &str, width: usize, a: &Architecture) -> std::result::Result<Norm, CheckpointError> {
        let weight = self.raw(name, &[width])?;
        Ok(Norm::new(self.transformed(WeightKind::Norm, weight)?, a.norm_eps))
    }
}
