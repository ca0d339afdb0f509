//! The one decoder: reference, emulator and counterfactuals all run it. What varies is data: the [`Architecture`], the
//! [`Instrument`] that sees every site, the [`Wiring`] that injected faults change.

mod attention;
mod cache;
mod encoder;
mod faults;
mod kernels;
mod load;
mod names;
mod operations;
mod rope;
mod share;
mod weight;
mod wiring;

pub use cache::Cache;
pub use faults::logits_from;
pub(crate) use kernels::Values;
pub(crate) use names::bert_heads;
pub(crate) use weight::EachWeight;
pub use weight::{WeightKind, WeightTransform};
pub use wiring::Wiring;

use std::{ops::Range, sync::Arc};

use candle_core::{DType, Device, Result, Tensor, bail};
use fidelity_trace::{BlockSite, Scope, Site};

use crate::{Activation, Architecture, Layer, NormPlacement};
use attention::Attention;
use operations::{Linear, Norm, add};
use rope::RopeTables;
use wiring::BlockWiring;

/// Values of logits computed in one go, 64 MiB of them; more would hold the logits of every prompt a second time beside their capture.
const LOGITS_AT_ONCE: usize = 1 << 24;

/// Called at every site, in data-flow order. Returns the tensor itself, or another one that takes its place.
///
/// Tensors are shaped as [`BlockSite`] says, the rows of all chunks one after another ([`Part::All`]); but `scores` and
/// `pattern` come chunk by chunk ([`Part::Chunk`]) as `[query head, position, key]`, scores before the mask, and so do `pooled`
/// as `[1, hidden]` and logits too large to be held at once.
pub trait Instrument: Send {
    /// Observes or replaces the tensor at `site`.
    ///
    /// # Errors
    /// An error ends the forward pass.
    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor>;

    /// Called before a forward pass: the scope its rows are captured in, `None` where they are in no capture.
    fn begin(&mut self, _scope: Option<Scope>) {}

    /// Called at the start of a forward pass: the chunks whose rows its tensors hold, one after another.
    fn feeding(&mut self, _chunks: &[Chunk<'_>]) {}

    /// What taps see in the place of a tensor that [`Instrument::at`] returned: where weights were transformed, the tensor in the
    /// checkpoint's own basis.
    ///
    /// # Errors
    /// An error ends the forward pass.
    fn tapped(&self, _site: Site, tensor: &Tensor) -> Result<Tensor> {
        Ok(tensor.clone())
    }
}

/// Which of the chunks computed together a tensor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    All,
    /// The chunk of this index.
    Chunk(usize),
}

/// Which keys a position may attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Itself and everything before.
    Causal,
    /// Only itself.
    SelfOnly,
    /// Every position below `tokens`, earlier or later: an encoder. Positions from there on are padding, as graphs of fixed
    /// length need it; their rows mean nothing.
    Both {
        /// How many tokens the sequence has, without padding.
        tokens: u32,
    },
}

impl Visibility {
    /// Whether a position sees a key in a block of this kind.
    pub(crate) fn sees(self, layer: Layer, position: u32, key: u32) -> bool {
        match self {
            Self::Causal => layer.sees(position, key),
            Self::SelfOnly => key == position,
            Self::Both { tokens } => key < tokens,
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

/// A chunk and the cache it goes into, if it goes into one.
pub struct Feed<'a> {
    /// The tokens.
    pub chunk: Chunk<'a>,
    /// What was fed before them.
    pub cache: Option<&'a mut Cache>,
}

impl Feed<'_> {
    /// Of a chunk after others in its cache, how many tokens the first of them had.
    fn after_prompt_of(&self) -> Option<u32> {
        let cache = self.cache.as_ref().filter(|cache| !cache.positions().is_empty())?;
        Some(cache.prompt() as u32)
    }
}

/// A checkpoint ready to compute. A clone shares its weights.
#[derive(Clone)]
pub struct Decoder {
    weights: Arc<Weights>,
    dtype: DType,
}

/// Everything read from the weight files, in float32.
#[derive(Clone)]
struct Weights {
    architecture: Architecture,
    /// `[vocabulary, hidden]`; absent where the head's weights are the same, which are then kept once.
    embedding: Option<Tensor>,
    /// Learned positions, `[position, hidden]`, where there is no RoPE.
    positions: Option<Tensor>,
    /// What every token has for being of the first segment, `[hidden]`, where there are token types.
    token_type: Option<Tensor>,
    embedding_norm: Option<Norm>,
    blocks: Vec<Block>,
    /// Absent where norms stand after the sums.
    final_norm: Option<Norm>,
    /// Absent in an encoder.
    head: Option<Linear>,
    /// The blocks as they are computed one after another; each once and in order, unless a fault says otherwise.
    order: Vec<Step>,
    /// What embeddings of tokens are multiplied by.
    embedding_scale: f64,
    /// Where a value of logits comes from, `None` for a 0; absent where each comes from its own place.
    logits_from: Option<Vec<Option<u32>>>,
}

/// One step of a forward pass.
#[derive(Clone, Copy)]
enum Step {
    /// A block, seen at its own sites.
    Block(usize),
    /// A block that no instrument sees.
    Unseen(usize),
    /// Nothing, at the sites of this block.
    Nothing(usize),
}

impl Weights {
    /// Embeddings of tokens, `[token, hidden]`.
    fn embed(&self, token_ids: &[u32]) -> Result<Tensor> {
        match (&self.embedding, &self.head) {
            (Some(table), _) => table.index_select(&Tensor::new(token_ids, &Device::Cpu)?, 0),
            (None, Some(head)) => head.rows(token_ids),
            (None, None) => bail!("neither a table of embeddings nor a head that holds it"),
        }
    }
}

#[derive(Clone)]
struct Block {
    /// Before attention or after its sum, as the architecture places norms.
    attn_norm: Norm,
    attention: Attention,
    /// Before the MLP or after its sum.
    mlp_norm: Norm,
    /// Absent in a plain MLP.
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    activation: Activation,
}

impl Decoder {
    /// The same decoder computing in float64 from the same float32 weights, which both share.
    #[must_use]
    pub fn to_float64(&self) -> Self {
        Self { weights: self.weights.clone(), dtype: DType::F64 }
    }

    /// The same decoder computing these blocks alone, in this order and at their own sites, then final norm and head.
    #[must_use]
    pub fn through(&self, blocks: &[usize]) -> Self {
        let mut weights = (*self.weights).clone();
        weights.order = blocks.iter().map(|index| Step::Block(*index)).collect();
        Self { weights: Arc::new(weights), dtype: self.dtype }
    }

    /// The architecture.
    #[must_use]
    pub fn architecture(&self) -> &Architecture {
        &self.weights.architecture
    }

    /// The dtype computed in.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Computes a chunk, after what is in the cache if there is one, and returns logits `[position, vocabulary]`; of an
    /// encoder, the last hidden state `[position, hidden]`.
    ///
    /// # Errors
    /// The cache is full, the chunk is not for this kind of network, the instrument fails, or memory runs out.
    pub fn forward(
        &self,
        chunk: &Chunk<'_>,
        cache: Option<&mut Cache>,
        wiring: &Wiring,
        instrument: &mut dyn Instrument,
    ) -> Result<Tensor> {
        on_worker(|| {
            let mut instrument = wiring.before(instrument);
            let last = self.last_hidden(&mut [Feed { chunk: *chunk, cache }], wiring, &mut instrument)?;
            match &self.weights.head {
                Some(head) => instrument.at(Site::Logits, Part::All, self.logits(head, &last)?),
                None => Ok(last),
            }
        })
    }

    /// Computes chunks of independent sequences in one pass over the weights, and returns the logits `[vocabulary]` of the last
    /// row of each; nothing of an encoder.
    ///
    /// # Errors
    /// As those of [`Decoder::forward`].
    pub fn forward_together(
        &self,
        feeds: &mut [Feed<'_>],
        wiring: &Wiring,
        instrument: &mut dyn Instrument,
    ) -> Result<Vec<Vec<f32>>> {
        on_worker(|| self.last_logits(feeds, wiring, instrument))
    }

    /// Shows every site of whole prompts, computed together, to an instrument.
    ///
    /// # Errors
    /// As those of [`Decoder::forward`].
    pub fn observe<'p>(
        &self,
        prompts: impl IntoIterator<Item = &'p [u32]>,
        instrument: &mut dyn Instrument,
    ) -> Result<()> {
        let of = |token_ids: &'p [u32]| (token_ids, (0..token_ids.len() as u32).collect::<Vec<u32>>());
        let sequences: Vec<_> = prompts.into_iter().map(of).collect();
        let feeds = sequences.iter().map(|(token_ids, positions)| {
            let visibility = self.weights.architecture.visibility(token_ids.len());
            Feed { chunk: Chunk { token_ids, positions, visibility }, cache: None }
        });
        self.forward_together(&mut feeds.collect::<Vec<_>>(), &Wiring::default(), instrument).map(drop)
    }

    fn last_logits(
        &self,
        feeds: &mut [Feed<'_>],
        wiring: &Wiring,
        instrument: &mut dyn Instrument,
    ) -> Result<Vec<Vec<f32>>> {
        let mut instrument = wiring.before(instrument);
        let last = self.last_hidden(feeds, wiring, &mut instrument)?;
        let Some(head) = &self.weights.head else { return Ok(Vec::new()) };
        let values = |row: Tensor| row.to_dtype(DType::F32)?.to_vec1::<f32>();
        let counts: Vec<usize> = feeds.iter().map(|feed| feed.chunk.positions.len()).collect();
        let at_once = LOGITS_AT_ONCE / self.weights.architecture.vocabulary.max(1);
        if last.dim(0)? <= at_once {
            let logits = instrument.at(Site::Logits, Part::All, self.logits(head, &last)?)?;
            let ends = counts.iter().scan(0, |end, count| {
                *end += count;
                Some(*end)
            });
            return ends.map(|end| values(logits.get(end - 1)?)).collect();
        }
        let (mut ends, mut start) = (Vec::with_capacity(counts.len()), 0);
        for group in neighbours(&counts, at_once) {
            let rows = counts[group.clone()].iter().sum();
            let logits = self.logits(head, &last.narrow(0, start, rows)?)?;
            start += rows;
            let mut first = 0;
            for chunk in group {
                let own = instrument.at(Site::Logits, Part::Chunk(chunk), logits.narrow(0, first, counts[chunk])?)?;
                ends.push(values(own.get(counts[chunk] - 1)?)?);
                first += counts[chunk];
            }
        }
        Ok(ends)
    }

    fn logits(&self, head: &Linear, last: &Tensor) -> Result<Tensor> {
        let logits = head.apply(last)?;
        let Some(from) = &self.weights.logits_from else { return Ok(logits) };
        let ids = Tensor::from_iter(from.iter().map(|id| id.unwrap_or(0)), &Device::Cpu)?;
        let kept = Tensor::from_iter(from.iter().map(|id| f64::from(u8::from(id.is_some()))), &Device::Cpu)?;
        logits.index_select(&ids, 1)?.broadcast_mul(&kept.to_dtype(logits.dtype())?)
    }

    /// Everything up to the final norm, `[row, hidden]`, and what an encoder pools it into.
    fn last_hidden(&self, feeds: &mut [Feed<'_>], wiring: &Wiring, instrument: &mut dyn Instrument) -> Result<Tensor> {
        self.check_feeds(feeds)?;
        instrument.feeding(&feeds.iter().map(|feed| feed.chunk).collect::<Vec<_>>());
        let every = |of: fn(&Feed<'_>) -> Vec<u32>| feeds.iter().flat_map(of).collect::<Vec<u32>>();
        let weights = &*self.weights;
        let mut residual = weights.embed(&every(|feed| feed.chunk.token_ids.to_vec()))?.to_dtype(self.dtype)?;
        if weights.embedding_scale.to_bits() != 1.0_f64.to_bits() {
            residual = (residual * weights.embedding_scale)?;
        }
        if let Some(first_segment) = &weights.token_type {
            residual = residual.broadcast_add(&first_segment.to_dtype(self.dtype)?)?;
        }
        if let Some(positions) = &weights.positions {
            let last = self.weights.architecture.max_positions.saturating_sub(1) as i64;
            let rows = feeds.iter().flat_map(|feed| {
                let place = |position: &u32| wiring.learned_place(*position, feed.after_prompt_of());
                feed.chunk.positions.iter().map(move |position| place(position).clamp(0, last) as u32)
            });
            let rows = Tensor::from_iter(rows, &Device::Cpu)?;
            let rows = positions.index_select(&rows, 0)?;
            residual = add(&residual, &rows.to_dtype(self.dtype)?)?;
        }
        if let Some(norm) = &weights.embedding_norm {
            residual = norm.apply(&residual)?;
        }
        let mut residual = instrument.at(Site::Embed, Part::All, residual)?;
        // Tables borrow positions alone, feeds are borrowed again for their caches.
        let mut rope = self.rope_tables(feeds);
        for (slot, step) in weights.order.iter().enumerate() {
            residual = self.step(*step, slot, residual, feeds, &mut rope, wiring, instrument)?;
        }
        for Feed { chunk, cache } in feeds.iter_mut() {
            if let Some(cache) = cache {
                cache.advance(chunk.positions);
            }
        }
        let last = match &weights.final_norm {
            Some(norm) => norm.apply(&residual)?,
            None => residual,
        };
        let last = instrument.at(Site::FinalNorm, Part::All, last)?;
        self.pool(&last, feeds, instrument)?;
        Ok(last)
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
        let chunk =
            Chunk { token_ids: &[], positions, visibility: self.weights.architecture.visibility(positions.len()) };
        let feeds = &mut [Feed { chunk, cache: None }];
        let mut rope = self.rope_tables(feeds);
        self.step(Step::Block(index), index, input, feeds, &mut rope, &Wiring::default(), instrument)
    }

    fn rope_tables<'a>(&'a self, feeds: &[Feed<'a>]) -> RopeTables<'a> {
        RopeTables::new(self.weights.architecture.rope.as_ref(), feeds, self.dtype)
    }

    /// How many entries of a cache a token takes, over all blocks as they are computed.
    fn cached_steps(&self) -> usize {
        self.weights.order.len()
    }

    #[allow(clippy::too_many_arguments)]
    fn step(
        &self,
        step: Step,
        slot: usize,
        input: Tensor,
        feeds: &mut [Feed<'_>],
        rope: &mut RopeTables<'_>,
        wiring: &Wiring,
        instrument: &mut dyn Instrument,
    ) -> Result<Tensor> {
        let (index, unseen) = match step {
            Step::Block(index) => (index, false),
            Step::Unseen(index) => (index, true),
            Step::Nothing(site) => {
                let mut at = |name, tensor| instrument.at(Site::Block(site as u32, name), Part::All, tensor);
                let middle = at(BlockSite::ResidMid, input)?;
                return at(BlockSite::ResidPost, middle);
            }
        };
        let mut nobody = Nobody;
        let instrument = if unseen { &mut nobody } else { instrument };
        let wiring = wiring.block(index as u32, rope.rope());
        self.through_block(index, slot, input, feeds, rope, &wiring, instrument)
    }

    #[allow(clippy::too_many_arguments)]
    fn through_block(
        &self,
        index: usize,
        slot: usize,
        input: Tensor,
        feeds: &mut [Feed<'_>],
        rope: &mut RopeTables<'_>,
        wiring: &BlockWiring,
        instrument: &mut dyn Instrument,
    ) -> Result<Tensor> {
        let block = &self.weights.blocks[index];
        let placement = self.weights.architecture.norm_placement;
        let mut site = |site, part, tensor| instrument.at(Site::Block(index as u32, site), part, tensor);
        let (attended, norm) = match placement {
            NormPlacement::Before => {
                (site(BlockSite::AttnNorm, Part::All, block.attn_norm.apply(&input)?)?, &block.mlp_norm)
            }
            NormPlacement::After => (input.clone(), &block.attn_norm),
        };
        let added = block.attention.apply(slot, &attended, feeds, rope, wiring, &mut site)?;
        let mut at = |name, tensor| site(name, Part::All, tensor);
        let middle = at(BlockSite::ResidMid, add(&input, &added)?)?;
        let normed = at(BlockSite::MlpNorm, norm.apply(&middle)?)?;
        let act = match &block.gate {
            Some(gate) => {
                let [gate, up] = Linear::together([gate, &block.up], &normed)?;
                let gate = at(BlockSite::Gate, gate)?;
                block.activation.gated(&gate, &at(BlockSite::Up, up)?)?
            }
            None => block.activation.apply(&at(BlockSite::Up, block.up.apply(&normed)?)?)?,
        };
        let act = at(BlockSite::Act, act)?;
        let added = at(BlockSite::MlpOut, block.down.apply(&act)?)?;
        match placement {
            NormPlacement::Before => at(BlockSite::ResidPost, add(&middle, &added)?),
            NormPlacement::After => {
                let sum = at(BlockSite::ResidSum, add(&normed, &added)?)?;
                at(BlockSite::ResidPost, block.mlp_norm.apply(&sum)?)
            }
        }
    }
}

/// Ranges of neighbours whose sizes sum up to no more than `most`; what is larger stands alone.
fn neighbours(sizes: &[usize], most: usize) -> Vec<Range<usize>> {
    let (mut groups, mut start, mut sum) = (Vec::new(), 0, 0);
    for (index, size) in sizes.iter().enumerate() {
        if index > start && sum + size > most {
            groups.push(start..index);
            (start, sum) = (index, 0);
        }
        sum += size;
    }
    groups.push(start..sizes.len());
    groups
}

/// Calls `pass` on a thread of the pool, which then shares each of its hundred products with the others instead of waiting for them.
fn on_worker<T: Send>(pass: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| pass())
}

/// Sees nothing.
struct Nobody;

impl Instrument for Nobody {
    fn at(&mut self, _: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        Ok(tensor)
    }
}
