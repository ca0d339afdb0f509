//! How far the logits go, measured: ids drawn by a fixed generator, each sequence continued greedily.

use crate::network::{Decoder, Rope, Step};

/// Sequences, ids drawn for each, and ids that follow greedily.
const SEQUENCES: u64 = 6;
const DRAWN: usize = 24;
const GREEDY: usize = 24;
/// What was measured is widened by this share of its span on either side.
const MARGIN: f32 = 0.15;

/// The interval of each of so many shards.
pub(super) fn ranges(decoder: &Decoder, embedding: &[f32], frequencies: &[f64], shards: usize) -> Vec<[f32; 2]> {
    let vocabulary = decoder.dimensions.vocabulary;
    let mut ranges = vec![[f32::INFINITY, f32::NEG_INFINITY]; shards];
    for seed in 0..SEQUENCES {
        let mut ids = drawn(seed, vocabulary);
        let logits = logits(decoder, embedding, frequencies, &ids);
        note(&mut ranges, &logits, vocabulary);
        // Of the continuation only the last row is new; the others were noted before.
        for _ in 0..GREEDY {
            let logits = self::logits(decoder, embedding, frequencies, &ids);
            let last = &logits[logits.len() - vocabulary..];
            note(&mut ranges, last, vocabulary);
            ids.push(greatest(last));
        }
    }
    ranges.into_iter().map(|[low, high]| [low - MARGIN * (high - low), high + MARGIN * (high - low)]).collect()
}

fn note(ranges: &mut [[f32; 2]], logits: &[f32], vocabulary: usize) {
    let width = vocabulary / ranges.len();
    for row in logits.chunks_exact(vocabulary) {
        for (range, shard) in ranges.iter_mut().zip(row.chunks_exact(width)) {
            for value in shard {
                *range = [range[0].min(*value), range[1].max(*value)];
            }
        }
    }
}

fn greatest(row: &[f32]) -> usize {
    let greater = |best: usize, (at, value): (usize, &f32)| if *value > row[best] { at } else { best };
    row.iter().enumerate().fold(0, greater)
}

/// SplitMix64 (Steele, Lea and Flood 2014).
fn drawn(seed: u64, vocabulary: usize) -> Vec<usize> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    (0..DRAWN).map(|_| (next() % vocabulary as u64) as usize).collect()
}

/// Logits of every position of a sequence, computed at once.
fn logits(decoder: &Decoder, embedding: &[f32], frequencies: &[f64], ids: &[usize]) -> Vec<f32> {
    let dimensions = &decoder.dimensions;
    let hidden = dimensions.hidden;
    let embeddings = ids.iter().flat_map(|id| &embedding[id * hidden..(id + 1) * hidden]).copied().collect();
    let (queries, keys) = (dimensions.query_heads, dimensions.kv_heads);
    let sign = match decoder.rotation {
        crate::Rotation::SignInTable => -1.0,
        crate::Rotation::SignInGraph => 1.0,
    };
    let table = |heads: usize, of: fn(f64) -> f64, first: f64| -> Vec<f32> {
        let row = |position: usize| {
            let half = move |sign: f64| frequencies.iter().map(move |step| (of(position as f64 * step) * sign) as f32);
            let head: Vec<f32> = half(first).chain(half(1.0)).collect();
            head.repeat(heads)
        };
        (0..ids.len()).flat_map(row).collect()
    };
    let rope = Rope {
        query_cos: table(queries, f64::cos, 1.0),
        query_sin: table(queries, f64::sin, sign),
        key_cos: table(keys, f64::cos, 1.0),
        key_sin: table(keys, f64::sin, sign),
    };
    let bias = (0..ids.len()).flat_map(|row| {
        let head: Vec<f32> = (0..ids.len()).map(|column| if column > row { -100.0 } else { 0.0 }).collect();
        head.repeat(queries)
    });
    let step = Step { embeddings, bias: bias.collect(), rope };
    decoder.run(&step, None).map(|residual| decoder.logits(&residual)).unwrap_or_default()
}
