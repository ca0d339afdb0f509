//! The KV-cache: allocated once, each step writes its own rows and nothing else.

use candle_core::{Device, Result, Tensor, bail};

use super::Decoder;

/// Keys (after RoPE) and values of everything fed so far.
pub struct Cache {
    /// Per block, keys and values `[capacity, kv head, head_dim]`.
    blocks: Vec<(Tensor, Tensor)>,
    positions: Vec<u32>,
    /// How many tokens were fed first, all at once.
    prompt: usize,
    capacity: usize,
}

impl Cache {
    /// An empty cache for `capacity` tokens.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(decoder: &Decoder, capacity: usize) -> Result<Self> {
        let a = decoder.architecture();
        let zeros = || Tensor::zeros((capacity, a.kv_heads, a.head_dim), decoder.dtype(), &Device::Cpu);
        let blocks = (0..decoder.cached_steps()).map(|_| Ok((zeros()?, zeros()?))).collect::<Result<_>>()?;
        Ok(Self { blocks, positions: Vec::with_capacity(capacity), prompt: 0, capacity })
    }

    /// Positions of the tokens in it.
    #[must_use]
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Forgets all but the first `length` tokens.
    pub fn truncate(&mut self, length: usize) {
        self.positions.truncate(length);
    }

    /// Writes a chunk's keys and values `[T, kv head, head_dim]` and returns all so far, `[S, kv head, head_dim]`.
    pub(super) fn append(&mut self, block: usize, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        let (start, added) = (self.positions.len(), keys.dim(0)?);
        if start + added > self.capacity {
            bail!("the KV-cache holds {} tokens, {} are needed", self.capacity, start + added);
        }
        let (all_keys, all_values) = &self.blocks[block];
        all_keys.slice_set(keys, 0, start)?;
        all_values.slice_set(values, 0, start)?;
        Ok((all_keys.narrow(0, 0, start + added)?, all_values.narrow(0, 0, start + added)?))
    }

    /// How many tokens the first chunk had.
    pub(super) const fn prompt(&self) -> usize {
        self.prompt
    }

    pub(super) fn advance(&mut self, positions: &[u32]) {
        if self.positions.is_empty() {
            self.prompt = positions.len();
        }
        self.positions.extend_from_slice(positions);
    }
}
