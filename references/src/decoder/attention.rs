//! Multi-head attention with grouped keys and values (Vaswani et al. 2017; Ainslie et al. 2023).

use candle_core::{DType, Device, Result, Tensor};
use fidelity_trace::BlockSite;

use super::{
    Chunk, Feed, Part,
    operations::{Linear, Norm, softmax},
    rope::RopeTable,
    wiring::{BlockWiring, HeadMap, MaskOverHeads, SoftmaxOver},
};
use crate::Layer;

/// What compiled graphs add to the score of a hidden key; only mask faults use it, the reference hides with −∞.
const COMPILED_MASK: f64 = -100.0;

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

impl Attention {
    pub(super) fn to_dtype(&self, dtype: DType) -> Result<Self> {
        Ok(Self {
            q: self.q.to_dtype(dtype)?,
            k: self.k.to_dtype(dtype)?,
            v: self.v.to_dtype(dtype)?,
            o: self.o.to_dtype(dtype)?,
            qk_norms: match &self.qk_norms {
                Some((q, k)) => Some((q.to_dtype(dtype)?, k.to_dtype(dtype)?)),
                None => None,
            },
            ..*self
        })
    }

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
        let (mut q, mut k) = (heads(self.q.apply(x)?, self.query_heads)?, heads(self.k.apply(x)?, self.kv_heads)?);
        if let Some((q_norm, k_norm)) = &self.qk_norms {
            (q, k) = (q_norm.apply(&q)?, k_norm.apply(&k)?);
        }
        if let Some(rope) = rope.filter(|_| self.layer.rope) {
            (q, k) = (rope.apply(&q, wiring.rope)?, rope.apply(&k, wiring.rope)?);
        }
        let q = at(BlockSite::Q, Part::All, q)?;
        let k = at(BlockSite::K, Part::All, k)?;
        let v = at(BlockSite::V, Part::All, heads(self.v.apply(x)?, self.kv_heads)?)?;

        let mut parts = Vec::with_capacity(feeds.len());
        let mut start = 0;
        for (index, feed) in feeds.iter_mut().enumerate() {
            let count = feed.chunk.positions.len();
            let own = |y: &Tensor| y.narrow(0, start, count)?.transpose(0, 1)?.contiguous();
            parts.push(self.attend(block, index, [own(&q)?, own(&k)?, own(&v)?], feed, wiring, at)?);
            start += count;
        }
        let z = at(BlockSite::Z, Part::All, Tensor::cat(&parts, 0)?)?;
        at(BlockSite::AttnOut, Part::All, self.o.apply(&z)?)
    }

    /// The weighted values of one chunk `[position, query head × head_dim]` from its q, k and v `[head, position, head_dim]`.
    fn attend(
        &self,
        block: usize,
        index: usize,
        [q, k, v]: [Tensor; 3],
        feed: &mut Feed<'_>,
        wiring: &BlockWiring,
        at: At<'_>,
    ) -> Result<Tensor> {
        let chunk = feed.chunk;
        let rows = chunk.positions.len();
        let (keys, values, key_positions) = match &mut feed.cache {
            Some(cache) => {
                let (keys, values) = cache.append(block, &k, &v)?;
                (keys, values, [cache.positions(), chunk.positions].concat())
            }
            None => (k, v, chunk.positions.to_vec()),
        };
        let keys = self.for_queries(keys, wiring.heads)?;
        let values = self.for_queries(values, wiring.heads)?;

        let shape = (self.query_heads, rows, key_positions.len());
        let grouped = (keys.dim(0)?, (), self.head_dim);
        let scores = (q.reshape(grouped)?.matmul(&keys.transpose(1, 2)?)? * self.layer.score_scale)?;
        let scores = at(BlockSite::Scores, Part::Chunk(index), scores.reshape(shape)?)?;
        let mask = mask(&chunk, self.layer, &key_positions, wiring.mask, self.query_heads)?;
        let masked = scores.broadcast_add(&mask.to_dtype(scores.dtype())?)?;
        let pattern = at(BlockSite::Pattern, Part::Chunk(index), normalised(&masked, wiring.softmax)?)?;
        let z = pattern.reshape((keys.dim(0)?, (), key_positions.len()))?.matmul(&values)?;
        z.reshape((self.query_heads, rows, self.head_dim))?.transpose(0, 1)?.contiguous()?.reshape((rows, ()))
    }

    /// Keys or values as query heads read them. In the right order the heads of a group are neighbours, and the group is
    /// computed as one matrix without a copy; the wrong order needs one copy per query head.
    fn for_queries(&self, kv: Tensor, map: HeadMap) -> Result<Tensor> {
        match map {
            HeadMap::Repeat => Ok(kv),
            HeadMap::Tile => {
                let heads = (0..self.query_heads).map(|head| (head % self.kv_heads) as u32);
                kv.contiguous()?.index_select(&Tensor::from_iter(heads, &Device::Cpu)?, 0)
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
