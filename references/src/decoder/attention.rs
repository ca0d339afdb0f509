//! Multi-head attention with grouped keys and values (Vaswani et al. 2017; Ainslie et al. 2023).

use candle_core::{DType, Device, Result, Tensor};
use fidelity_trace::BlockSite;

use super::{
    Chunk, Feed, Part, kernels, neighbours,
    operations::{Linear, Norm, softmax},
    rope::RopeTables,
    wiring::{BlockWiring, HeadMap, MaskOverHeads, Remembered, SoftmaxOver},
};
use crate::Layer;

/// What compiled graphs add to the score of a hidden key; only mask faults use it, the reference hides with −∞.
const COMPILED_MASK: f64 = -100.0;

/// Scores held at once, over all chunks that attend together, one after another: 64 MiB of them.
const SCORES_AT_ONCE: usize = 1 << 24;

#[derive(Clone)]
pub(super) struct Attention {
    pub(super) q: Linear,
    pub(super) k: Linear,
    pub(super) v: Linear,
    pub(super) o: Linear,
    /// Norm of a head's queries.
    pub(super) q_norm: Option<Norm>,
    /// Norm of a head's keys.
    pub(super) k_norm: Option<Norm>,
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
    fn of(block: usize, feed: &mut Feed<'a>, keys: Tensor, values: Tensor, remembered: Remembered) -> Result<Self> {
        let chunk = feed.chunk;
        let Some(cache) = &mut feed.cache else {
            return Ok(Self { chunk, keys, values, key_positions: chunk.positions.to_vec() });
        };
        let (keys, values) = cache.append(block, &keys, &values)?;
        let memory = Self { chunk, keys, values, key_positions: [cache.positions(), chunk.positions].concat() };
        let before = cache.positions().len();
        if before == 0 { Ok(memory) } else { memory.wrongly(remembered, cache.prompt().min(before)) }
    }

    /// What a fault of the cache leaves of it; the first `prompt` entries are the prompt's.
    fn wrongly(self, remembered: Remembered, prompt: usize) -> Result<Self> {
        let (entries, own) = (self.key_positions.len(), self.chunk.positions.len());
        match remembered {
            Remembered::All => Ok(self),
            Remembered::OtherLayout { keys, values, by_channel, entries: width } => {
                let layout = OtherLayout { history: if width < 0 { prompt } else { entries - own }, by_channel, width };
                let turned = |kv: &Tensor, turn: bool| if turn { layout.misread(kv) } else { Ok(kv.clone()) };
                let (keys, values) = (turned(&self.keys, keys)?, turned(&self.values, values)?);
                Ok(Self { keys, values, ..self })
            }
            Remembered::Other(other) => {
                let [of_keys, of_values] = other.read(prompt, entries, own);
                // Behind the last entry stands an empty one, which is seen as the chunk's own are.
                let read = |kv: &Tensor, from: &[Option<usize>]| {
                    let from = from.iter().map(|entry| entry.unwrap_or(entries) as u32);
                    kv.pad_with_zeros(0, 0, 1)?.index_select(&Tensor::from_iter(from, &Device::Cpu)?, 0)
                };
                let first_own = self.chunk.positions[0];
                let position = |entry: &Option<usize>| entry.map_or(first_own, |entry| self.key_positions[entry]);
                let key_positions = of_keys.iter().map(position).collect();
                let (keys, values) = (read(&self.keys, &of_keys)?, read(&self.values, &of_values)?);
                Ok(Self { chunk: self.chunk, keys, values, key_positions })
            }
        }
    }

    /// Row by row, whether each key is seen.
    fn seen(&self, layer: Layer) -> Vec<bool> {
        let Chunk { positions, visibility, .. } = self.chunk;
        let pairs = positions.iter().flat_map(|position| self.key_positions.iter().map(move |key| (*position, *key)));
        pairs.map(|(position, key)| visibility.sees(layer, position, key)).collect()
    }
}

/// Entries `[entry, head, channel]` of which the first `history` are written in that order and read in another.
struct OtherLayout {
    history: usize,
    /// Read `[head, channel, entry]`, else `[head, entry, channel]`.
    by_channel: bool,
    /// As one of so many entries; fewer than there are stand for as many.
    width: i64,
}

impl OtherLayout {
    fn misread(&self, kv: &Tensor) -> Result<Tensor> {
        let (entries, heads, channels) = kv.dims3()?;
        let width = usize::try_from(self.width).unwrap_or(0).max(self.history);
        let memory = kv.narrow(0, 0, self.history)?.pad_with_zeros(0, 0, width - self.history)?.contiguous()?;
        let read = match self.by_channel {
            false => memory.reshape((heads, width, channels))?.transpose(0, 1)?,
            true => memory.reshape((heads, channels, width))?.permute((2, 0, 1))?,
        };
        let rest = kv.narrow(0, self.history, entries - self.history)?;
        Tensor::cat(&[read.narrow(0, 0, self.history)?.contiguous()?, rest], 0)
    }
}

impl Attention {
    pub(super) fn apply(
        &self,
        block: usize,
        x: &Tensor,
        feeds: &mut [Feed<'_>],
        rope: &mut RopeTables<'_>,
        wiring: &BlockWiring,
        at: At<'_>,
    ) -> Result<Tensor> {
        let rows = x.dim(0)?;
        let heads = |y: Tensor, heads| y.reshape((rows, heads, self.head_dim));
        let [q, k, v] = Linear::together([&self.q, &self.k, &self.v], x)?;
        let (mut q, mut k) = (heads(q, self.query_heads)?, heads(k, self.kv_heads)?);
        if let Some(norm) = &self.q_norm {
            q = norm.apply(&q)?;
        }
        if let Some(norm) = &self.k_norm {
            k = norm.apply(&k)?;
        }
        if self.layer.rope {
            for (x, rotation, heads) in
                [(&mut q, &wiring.q_rotation, self.query_heads), (&mut k, &wiring.k_rotation, self.kv_heads)]
            {
                if let Some(table) = rope.table(rotation, heads)? {
                    *x = table.apply(x, rotation)?;
                }
            }
        }
        let q = at(BlockSite::Q, Part::All, q)?;
        let k = at(BlockSite::K, Part::All, k)?;
        let v = at(BlockSite::V, Part::All, heads(v, self.kv_heads)?)?;

        let mut memories = Vec::with_capacity(feeds.len());
        let mut start = 0;
        for feed in feeds.iter_mut() {
            let own = |y: &Tensor| y.narrow(0, start, feed.chunk.positions.len())?.contiguous();
            memories.push(Memory::of(block, feed, own(&k)?, own(&v)?, wiring.memory)?);
            start += feed.chunk.positions.len();
        }
        let (mut parts, mut first, mut start) = (Vec::new(), 0, 0);
        let scores = |memory: &Memory<'_>| self.query_heads * memory.chunk.positions.len() * memory.key_positions.len();
        let sizes: Vec<usize> = memories.iter().map(scores).collect();
        for group in neighbours(&sizes, SCORES_AT_ONCE) {
            let group = &memories[group];
            let rows = group.iter().map(|memory| memory.chunk.positions.len()).sum();
            parts.push(self.attend(&q.narrow(0, start, rows)?, group, first, wiring, at)?);
            (first, start) = (first + group.len(), start + rows);
        }
        let z = at(BlockSite::Z, Part::All, Tensor::cat(&parts, 0)?)?;
        at(BlockSite::AttnOut, Part::All, self.o.apply(&z)?)
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
            let pattern = match wiring.first_row_is_nan && memory.chunk.positions.first() == Some(&0) {
                true => first_row_nan(&pattern)?,
                false => pattern,
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
            let keys = self.for_queries(&memory.keys, wiring.heads[0])?;
            let scores = own.reshape((keys.dim(0)?, (), self.head_dim))?.matmul(&keys.transpose(1, 2)?)?;
            (scores * self.layer.score_scale)?.reshape((self.query_heads, rows, count))
        };
        memories.iter().map(of).collect()
    }

    fn plain_pattern(&self, scores: &Tensor, memory: &Memory<'_>, wiring: &BlockWiring) -> Result<Tensor> {
        let mask = mask(memory, self.layer, wiring.mask, self.query_heads)?;
        normalised(&scores.broadcast_add(&mask.to_dtype(scores.dtype())?)?, wiring.softmax)
    }

    fn plain_weighted(&self, patterns: &[Tensor], values: &[Tensor], wiring: &BlockWiring) -> Result<Tensor> {
        let of = |(pattern, values): (&Tensor, &Tensor)| {
            let (_, rows, keys) = pattern.dims3()?;
            let values = self.for_queries(values, wiring.heads[1])?;
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
        SoftmaxOver::Heads => softmax(&scores.transpose(0, 2)?.contiguous()?)?.transpose(0, 2)?.contiguous(),
        SoftmaxOver::HeadsAndKeys => {
            let (heads, rows, keys) = scores.dims3()?;
            let rows_first = scores.transpose(0, 1)?.contiguous()?.reshape((rows, heads * keys))?;
            softmax(&rows_first)?.reshape((rows, heads, keys))?.transpose(0, 1)?.contiguous()
        }
    }
}

/// A pattern `[query head, row, key]` whose first row is no number.
fn first_row_nan(pattern: &Tensor) -> Result<Tensor> {
    let (heads, rows, keys) = pattern.dims3()?;
    let nan = Tensor::full(f32::NAN, (heads, 1, keys), &Device::Cpu)?.to_dtype(pattern.dtype())?;
    Tensor::cat(&[nan, pattern.narrow(1, 1, rows - 1)?], 1)
}

/// What is added to the scores `[query head, row, key]`, in float64.
fn mask(memory: &Memory<'_>, layer: Layer, over: MaskOverHeads, heads: usize) -> Result<Tensor> {
    let Memory { chunk, key_positions, .. } = memory;
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
        MaskOverHeads::KeysRepeated => {
            let seen = |position: u32, key: u32| chunk.visibility.sees(layer, position, key);
            let value = |(head, position): (usize, u32)| {
                let key = move |key: usize| key_positions[(head * keys + key) / heads];
                (0..keys).map(move |at| if seen(position, key(at)) { 0.0 } else { COMPILED_MASK })
            };
            let places = (0..heads).flat_map(|head| chunk.positions.iter().map(move |position| (head, *position)));
            (places.flat_map(value).collect(), (heads, rows, keys))
        }
        MaskOverHeads::Missing => (vec![0.0; rows * keys], (1, rows, keys)),
        MaskOverHeads::FromFirstKey => {
            // As if the first row were the token of the first key.
            let first = key_positions.first().copied().unwrap_or(0);
            ((0..rows as u32).flat_map(|index| row(first + index, COMPILED_MASK)).collect(), (1, rows, keys))
        }
    };
    Tensor::from_vec(values, shape, &Device::Cpu)
}
