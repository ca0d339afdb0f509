//! The one decoder: reference, emulator and counterfactuals all run it. What varies is data: the [`Architecture`], the
//! [`Instrument`] that sees every site, the [`Wiring`] that injected faults change.

mod attention;
mod cache;
mod load;
mod operations;
mod rope;
mod wiring;

pub use cache::Cache;
pub use wiring::Wiring;

use candle_core::{DType, Device, Result, Tensor};
use fidelity_trace::{BlockSite, Site};

use crate::{Activation, Architecture, Layer};
use attention::Attention;
use operations::{Linear, Norm};
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
    /// Learned positions, `[position, hidden]`, where there is no RoPE.
    positions: Option<Tensor>,
    blocks: Vec<Block>,
    final_norm: Norm,
    head: Linear,
}

struct Block {
    attn_norm: Norm,
    attention: Attention,
    mlp_norm: Norm,
    /// Absent in a plain MLP.
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    activation: Activation,
}

impl Decoder {
    /// The same decoder computing in float64 from the same float32 weights.
    ///
    /// # Errors
    /// Out of memory.
    pub fn to_float64(&self) -> Result<Self> {
        let blocks = self.blocks.iter().map(|block| block.to_dtype(DType::F64));
        Ok(Self {
            architecture: self.architecture.clone(),
            embedding: self.embedding.to_dtype(DType::F64)?,
            positions: self.positions.as_ref().map(|rows| rows.to_dtype(DType::F64)).transpose()?,
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
        let rows = |table: &Tensor, indices: &[u32]| table.index_select(&Tensor::new(indices, &Device::Cpu)?, 0);
        let mut residual = rows(&self.embedding, chunk.token_ids)?;
        if let Some(positions) = &self.positions {
            residual = (residual + rows(positions, chunk.positions)?)?;
        }
        let mut residual = instrument.at(Site::Embed, residual)?;
        let rope = self.rope_table(chunk.positions)?;
        for index in 0..self.blocks.len() {
            residual =
                self.through_block(index, residual, chunk, rope.as_ref(), cache.as_deref_mut(), wiring, instrument)?;
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
        let rope = self.rope_table(positions)?;
        let chunk = Chunk { token_ids: &[], positions, visibility: Visibility::Causal };
        self.through_block(index, input, &chunk, rope.as_ref(), None, &Wiring::default(), instrument)
    }

    fn rope_table(&self, positions: &[u32]) -> Result<Option<RopeTable>> {
        self.architecture.rope.as_ref().map(|rope| RopeTable::new(rope, positions, self.dtype())).transpose()
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
        rope: Option<&RopeTable>,
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
        let gate = block.gate.as_ref().map(|gate| at(BlockSite::Gate, gate.apply(&normed)?)).transpose()?;
        let up = at(BlockSite::Up, block.up.apply(&normed)?)?;
        let act = match gate {
            Some(gate) => (block.activation.apply(&gate)? * up)?,
            None => block.activation.apply(&up)?,
        };
        let act = at(BlockSite::Act, act)?;
        let added = at(BlockSite::MlpOut, block.down.apply(&act)?)?;
        at(BlockSite::ResidPost, (middle + added)?)
    }
}

impl Block {
    fn to_dtype(&self, dtype: DType) -> Result<Self> {
        Ok(Self {
            attn_norm: self.attn_norm.to_dtype(dtype)?,
            attention: self.attention.to_dtype(dtype)?,
            mlp_norm: self.mlp_norm.to_dtype(dtype)?,
            gate: self.gate.as_ref().map(|gate| gate.to_dtype(dtype)).transpose()?,
            up: self.up.to_dtype(dtype)?,
            down: self.down.to_dtype(dtype)?,
            activation: self.activation,
        })
    }
}
