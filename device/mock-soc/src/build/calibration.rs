//! How far the logits go, measured: ids drawn by a fixed generator, each sequence continued greedily.

use crate::network::{Caches, Decoder, Rope, Rotation, Step, Window};

/// Sequences, ids drawn for each, and ids that follow greedily.
const SEQUENCES: u64 = 8;
const DRAWN: usize = 24;
const GREEDY: usize = 24;
/// What was measured is widened by this share of its span on either side.
const MARGIN: f32 = 0.15;

/// The interval of each of so many shards.
pub(super) fn ranges(decoder: &Decoder, embedding: &[f32], frequencies: &[f64], shards: usize) -> Vec<[f32; 2]> {
    let vocabulary = decoder.dimensions.vocabulary;
    let mut ranges = vec![[f32::INFINITY, f32::NEG_INFINITY]; shards];
    for seed in 0..SEQUENCES {
        let mut text = Text::begin(decoder, embedding, frequencies);
        let mut drawn = draw(seed, vocabulary);
        let mut greedy = 0;
        for position in 0..DRAWN + GREEDY {
            let id = if position < DRAWN { drawn() } else { greedy };
            let logits = text.next(position, id);
            note(&mut ranges, &logits);
            greedy = greatest(&logits);
        }
    }
    ranges.into_iter().map(|[low, high]| [low - MARGIN * (high - low), high + MARGIN * (high - low)]).collect()
}

fn note(ranges: &mut [[f32; 2]], logits: &[f32]) {
    let width = logits.len() / ranges.len();
    for (range, shard) in ranges.iter_mut().zip(logits.chunks_exact(width)) {
        *range = shard.iter().fold(*range, |[low, high], value| [low.min(*value), high.max(*value)]);
    }
}

fn greatest(row: &[f32]) -> usize {
    let greater = |best: usize, (at, value): (usize, &f32)| if *value > row[best] { at } else { best };
    row.iter().enumerate().fold(0, greater)
}

/// Ids by SplitMix64 (Steele, Lea and Flood 2014).
fn draw(seed: u64, vocabulary: usize) -> impl FnMut() -> usize {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % vocabulary as u64) as usize
    }
}

/// A text that grows by a token at a time, through caches that hold all of it.
struct Text<'a> {
    decoder: &'a Decoder,
    embedding: &'a [f32],
    frequencies: &'a [f64],
    caches: Caches,
    ids: Vec<[i32; 2]>,
}

impl<'a> Text<'a> {
    const LENGTH: usize = DRAWN + GREEDY;

    fn begin(decoder: &'a Decoder, embedding: &'a [f32], frequencies: &'a [f64]) -> Self {
        let ids: Vec<_> = (0..decoder.dimensions.layers as i32).map(|layer| [2 * layer, 2 * layer + 1]).collect();
        let mut caches = Caches::default();
        for id in ids.iter().flatten() {
            // Nothing is bound to it yet.
            let _ = caches.bind(*id, decoder.dimensions.key_width(), Self::LENGTH);
        }
        Self { decoder, embedding, frequencies, caches, ids }
    }

    /// Logits after a token.
    fn next(&mut self, position: usize, id: usize) -> Vec<f32> {
        let dimensions = &self.decoder.dimensions;
        let hidden = dimensions.hidden;
        let head: Vec<f32> =
            (1..=Self::LENGTH).rev().map(|age| if age > position + 1 { -100.0 } else { 0.0 }).collect();
        let step = Step {
            embeddings: self.embedding[id * hidden..(id + 1) * hidden].to_vec(),
            bias: head.repeat(dimensions.query_heads),
            rope: self.rope(position),
        };
        let window =
            Window { read_offset: (position + 1) % Self::LENGTH, length: Self::LENGTH, rows: 1, reversed: false };
        let residual = self.decoder.run(&step, Some((&mut self.caches, window, &self.ids)));
        self.decoder.logits(&residual.expect("every cache is bound"))
    }

    fn rope(&self, position: usize) -> Rope {
        let sign = match self.decoder.rotation {
            Rotation::SignInTable => -1.0,
            Rotation::SignInGraph => 1.0,
        };
        let head = |of: fn(f64) -> f64, first: f64| -> Vec<f32> {
            let half = |sign: f64| self.frequencies.iter().map(move |step| (of(position as f64 * step) * sign) as f32);
            half(first).chain(half(1.0)).collect()
        };
        let (cos, sin) = (head(f64::cos, 1.0), head(f64::sin, sign));
        let (queries, keys) = (self.decoder.dimensions.query_heads, self.decoder.dimensions.kv_heads);
        Rope {
            query_cos: cos.repeat(queries),
            query_sin: sin.repeat(queries),
            key_cos: cos.repeat(keys),
            key_sin: sin.repeat(keys),
        }
    }
}
