//! Multi-head attention with grouped keys and values (Vaswani et al. 2017; Ainslie et al. 2023).

use candle_core::{DType, Device, Result, Tensor};
use fidelity_trace::BlockSite;

use super::{
    Chunk, Feed, Part, kernels,
    operations::{Linear, Norm, softmax},
    rope::RopeTable,
    wiring::{BlockWiring, HeadMap, MaskOverHeads, SoftmaxOver},
};
use crate::Layer;

/// What compiled graphs add to the score of a hidden key; only mask faults use it, the reference hides with −∞.
const COMPILED_MASK: f64 = -100.0;

/// Scores held at once, over all chunks that attend together: 64 MiB of them.
const SCORES_AT_ONCE: usize = 1 << 24;

#[derive(Clone)]
pub(super) struct Attention {
    pub(super) q: Linear,
    pub(super) k: Linear,
    pub(super) v: Linear,
    pub(super) o: Linear,
    /// Norms of a head's queries and keys.
    pub(super) qk_norms: Option<(Norm, Norm)>,
    pub(super) query_heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) layer: Layer,
}

/// The instrument inside one block.
type At<'a> = &'a mut dyn FnMut(BlockSite, Part, Tensor) -> Result<Tensor>;

/// What the rows of one chunk may attend to.
struct Memory<'a> {
    chunk: Chunk<'a>,
    /// `[position, kv head, head_dim]`
    keys: Tensor,
    values: Tensor,
    key_positions: Vec<u32>,
}

impl<'a> Memory<'a> {
    /// What was fed before the chunk, and its own keys and values, which enter the cache if there is one.
    fn of(block: usize, feed: &mut Feed<'a>, keys: Tensor, values: Tensor) -> Result<Self> {
        let chunk = feed.chunk;
        let (keys, values, key_positions) = match &mut feed.cache {
            Some(cache) => {
                let (keys, values) = cache.append(block, &keys, &values)?;
                (keys, values, [cache.positions(), chunk.positions].concat())
            }
            None => (keys, values, chunk.positions.to_vec()),
        };
        Ok(Self { chunk, keys, values, key_positions })
    }

    /// Row by row, whether each key is seen.
    fn seen(&self, layer: Layer) -> Vec<bool> {
        let Chunk { positions, visibility, .. } = self.chunk;
        let pairs = positions.iter().flat_map(|position| self.key_positions.iter().map(move |key| (*position, *key)));
        pairs.map(|(position, key)| visibility.sees(layer, position, key)).collect()
    }
}

impl Attention {
    pub(super) fn apply(
        &self,
        block: usize,
        x: &Tensor,
        feeds: &mut [Feed<'_>],
        rope: Option<&RopeTable>,
        wiring: &BlockWiring,
        at: At<'_>,
    ) -> Result<Tensor> {
        let rows = x.dim(0)?;
        let heads = |y: Tensor, heads| y.reshape((rows, heads, self.head_dim));
        let [q, k, v] = Linear::together([&self.q, &self.k, &self.v], x)?;
        let (mut q, mut k) = (heads(q, self.query_heads)?, heads(k, self.kv_heads)?);
        if let Some((q_norm, k_norm)) = &self.qk_norms {
            (q, k) = (q_norm.apply(&q)?, k_norm.apply(&k)?);
        }
        if let Some(rope) = rope.filter(|_| self.layer.rope) {
            (q, k) = (rope.apply(&q, wiring.rope)?, rope.apply(&k, wiring.rope)?);
        }
        let q = at(BlockSite::Q, Part::All, q)?;
        let k = at(BlockSite::K, Part::All, k)?;
        let v = at(BlockSite::V, Part::All, heads(v, self.kv_heads)?)?;

        let mut memories = Vec::with_capacity(feeds.len());
        let mut start = 0;
        for feed in feeds.iter_mut() {
            let own = |y: &Tensor| y.narrow(0, start, feed.chunk.positions.len())?.contiguous();
            memories.push(Memory::of(block, feed, own(&k)?, own(&v)?)?);
            start += feed.chunk.positions.len();
        }
        let (mut parts, mut first, mut start) = (Vec::new(), 0, 0);
        for group in self.groups(&memories) {
            let rows = group.iter().map(|memory| memory.chunk.positions.len()).sum();
            parts.push(self.attend(&q.narrow(0, start, rows)?, group, first, wiring, at)?);
            (first, start) = (first + group.len(), start + rows);
        }
        let z = at(BlockSite::Z, Part::All, Tensor::cat(&parts, 0)?)?;
        at(BlockSite::AttnOut, Part::All, self.o.apply(&z)?)
    }

    /// Chunks that attend at once: as many, one after another, as have no more than [`SCORES_AT_ONCE`] scores.
    fn groups<'m, 'a>(&self, memories: &'m [Memory<'a>]) -> Vec<&'m [Memory<'a>]> {
        let (mut groups, mut start, mut scores) = (Vec::new(), 0, 0);
        for (index, memory) in memories.iter().enumerate() {
            let own = self.query_heads * memory.chunk.positions.len() * memory.key_positions.len();
            if index > start && scores + own > SCORES_AT_ONCE {
                groups.push(&memories[start..index]);
                (start, scores) = (index, 0);
            }
            scores += own;
        }
        groups.push(&memories[start..]);
        groups
    }

    /// The weighted values `[row, query head × head_dim]` of a few chunks, of which `first` is the first, from their `q`
    /// `[row, query head, head_dim]`.
    fn attend(
        &self,
        q: &Tensor,
        memories: &[Memory<'_>],
        first: usize,
        wiring: &BlockWiring,
        at: At<'_>,
    ) -> Result<Tensor> {
        // Faults that rewire attention run on the plain operations, as float64 does.
        let plain = q.dtype() != DType::F32 || wiring.rewires_attention();
        let rows: Vec<usize> = memories.iter().map(|memory| memory.chunk.positions.len()).collect();
        let (keys, values): (Vec<Tensor>, Vec<Tensor>) =
            memories.iter().map(|memory| (memory.keys.clone(), memory.values.clone())).unzip();
        let scores = match plain {
            true => self.plain_scores(q, memories, wiring)?,
            false => kernels::scores(self.queries(), q, &keys, &rows, self.layer.score_scale)?,
        };
        let mut patterns = Vec::with_capacity(memories.len());
        for (index, (scores, memory)) in scores.into_iter().zip(memories).enumerate() {
            let scores = at(BlockSite::Scores, Part::Chunk(first + index), scores)?;
            let pattern = match plain {
                true => self.plain_pattern(&scores, memory, wiring)?,
                false => kernels::patterns(&scores, &memory.seen(self.layer))?,
            };
            patterns.push(at(BlockSite::Pattern, Part::Chunk(first + index), pattern)?);
        }
        match plain {
            true => self.plain_weighted(&patterns, &values, wiring),
            false => kernels::weighted(self.queries(), &patterns, &values),
        }
    }

    fn queries(&self) -> kernels::Queries {
        kernels::Queries { heads: self.query_heads, kv_heads: self.kv_heads, head_dim: self.head_dim }
    }

    fn plain_scores(&self, q: &Tensor, memories: &[Memory<'_>], wiring: &BlockWiring) -> Result<Vec<Tensor>> {
        let mut start = 0;
        let of = |memory: &Memory<'_>| {
            let (rows, count) = (memory.chunk.positions.len(), memory.key_positions.len());
            let own = q.narrow(0, start, rows)?.transpose(0, 1)?.contiguous()?;
            start += rows;
            let keys = self.for_queries(&memory.keys, wiring.heads)?;
            let scores = own.reshape((keys.dim(0)?, (), self.head_dim))?.matmul(&keys.transpose(1, 2)?)?;
            (scores * self.layer.score_scale)?.reshape((self.query_heads, rows, count))
        };
        memories.iter().map(of).collect()
    }

    fn plain_pattern(&self, scores: &Tensor, memory: &Memory<'_>, wiring: &BlockWiring) -> Result<Tensor> {
        let mask = mask(&memory.chunk, self.layer, &memory.key_positions, wiring.mask, self.query_heads)?;
        normalised(&scores.broadcast_add(&mask.to_dtype(scores.dtype())?)?, wiring.softmax)
    }

    fn plain_weighted(&self, patterns: &[Tensor], values: &[Tensor], wiring: &BlockWiring) -> Result<Tensor> {
        let of = |(pattern, values): (&Tensor, &Tensor)| {
            let (_, rows, keys) = pattern.dims3()?;
            let values = self.for_queries(values, wiring.heads)?;
            let z = pattern.reshape((values.dim(0)?, (), keys))?.matmul(&values)?;
            z.reshape((self.query_heads, rows, self.head_dim))?.transpose(0, 1)?.contiguous()?.reshape((rows, ()))
        };
        Tensor::cat(&patterns.iter().zip(values).map(of).collect::<Result<Vec<_>>>()?, 0)
    }

    /// Keys or values `[position, kv head, head_dim]` as query heads read them, `[head, position, head_dim]`. In the right order the heads of a group are neighbours, and the group is
    /// computed as one matrix without a copy; the wrong order needs one copy per query head.
    fn for_queries(&self, kv: &Tensor, map: HeadMap) -> Result<Tensor> {
        let kv = kv.transpose(0, 1)?.contiguous()?;
        match map {
            HeadMap::Repeat => Ok(kv),
            HeadMap::Tile => {
                let heads = (0..self.query_heads).map(|head| (head % self.kv_heads) as u32);
                kv.index_select(&Tensor::from_iter(heads, &Device::Cpu)?, 0)
            }
        }
    }
}

fn normalised(scores: &Tensor, over: SoftmaxOver) -> Result<Tensor> {
    match over {
        SoftmaxOver::Keys => softmax(scores),
        SoftmaxOver::HeadsAndKeys => {
            let (heads, rows, keys) = scores.dims3()?;
            let rows_first = scores.transpose(0, 1)?.contiguous()?.reshape((rows, heads * keys))?;
            softmax(&rows_first)?.reshape((rows, heads, keys))?.transpose(0, 1)?.contiguous()
        }
    }
}

/// What is added to the scores `[query head, row, key]`, in float64.
fn mask(chunk: &Chunk<'_>, layer: Layer, key_positions: &[u32], over: MaskOverHeads, heads: usize) -> Result<Tensor> {
    let row = |position: u32, hidden: f64| {
        key_positions.iter().map(move |key| if chunk.visibility.sees(layer, position, *key) { 0.0 } else { hidden })
    };
    let (rows, keys) = (chunk.positions.len(), key_positions.len());
    let (values, shape): (Vec<f64>, _) = match over {
        MaskOverHeads::Tiled => {
            (chunk.positions.iter().flat_map(|position| row(*position, f64::NEG_INFINITY)).collect(), (1, rows, keys))
        }
        MaskOverHeads::Repeated => {
            let repeated = (0..heads * rows).map(|index| chunk.positions[index / heads]);
            (repeated.flat_map(|position| row(position, COMPILED_MASK)).collect(), (heads, rows, keys))
        }
    };
    Tensor::from_vec(values, shape, &Device::Cpu)
}
