//! The engine against itself: in float64, and fed in chunks.

use std::collections::BTreeMap;

use fidelity_trace::{Site, in_parallel};

use super::{
    bars::{CHUNK_BAR, NOISE_BAR},
    report::{self, CheckOutcome, ChunkedPart, NoisePart, SiteDistance, WorstRow},
    rows::{Distances, Whole},
};
use crate::{CheckpointError, Decoder, RopeScaling, Wiring};

/// One token, a number that divides nothing, and more than most kernels take at a time.
const CHUNKS: [usize; 3] = [1, 7, 32];

pub(super) struct Own {
    pub(super) noise: NoisePart,
    pub(super) chunks: Vec<ChunkedPart>,
    /// By prompt and position.
    pub(super) logits_noise: Vec<Vec<f64>>,
}

/// What one prompt gave.
struct Measured {
    noise: Distances,
    /// By size of chunk; `None` where chunks compute something else by design.
    chunks: [Option<Distances>; CHUNKS.len()],
}

pub(super) fn measure(
    decoder: &Decoder,
    wiring: &Wiring,
    prompts: &[(String, Vec<u32>)],
    jobs: usize,
    count: &(dyn Fn() + Sync),
) -> Result<Own, CheckpointError> {
    let float64 = decoder.to_float64();
    let measured = in_parallel(prompts.len(), jobs, |index| {
        let (id, token_ids) = &prompts[index];
        let measured = measure_prompt(decoder, &float64, wiring, token_ids);
        count();
        measured.map_err(CheckpointError::computing(format!("prompt `{id}`")))
    })?;
    let noise = by_site(measured.iter().map(|prompt| Some(&prompt.noise)), |_, _, _| NOISE_BAR);
    let (outcome, reason) = report::of_sites(&noise);
    let chunks = CHUNKS.iter().enumerate().map(|(index, tokens)| chunked(*tokens, index, &measured, &noise));
    let chunks = chunks.collect();
    Ok(Own {
        chunks,
        logits_noise: measured.iter().map(|it| it.noise.get(&Site::Logits).cloned().unwrap_or_default()).collect(),
        noise: NoisePart { outcome, reason, sites: noise },
    })
}

fn measure_prompt(
    decoder: &Decoder,
    float64: &Decoder,
    wiring: &Wiring,
    token_ids: &[u32],
) -> candle_core::Result<Measured> {
    let whole = Whole::compute(decoder, wiring, token_ids)?;
    let noise = whole.against_float64(float64)?;
    let mut chunks = [const { None }; CHUNKS.len()];
    if !angles_depend_on_chunks(decoder, token_ids.len()) {
        for (chunk, length) in chunks.iter_mut().zip(CHUNKS) {
            *chunk = Some(whole.against_chunks(length)?);
        }
    }
    Ok(Measured { noise, chunks })
}

/// Under dynamic RoPE, keys in the cache keep the angles of the shorter sequence they were computed in, as in transformers.
fn angles_depend_on_chunks(decoder: &Decoder, tokens: usize) -> bool {
    let scaling = decoder.architecture().rope.as_ref().map(|rope| &rope.scaling);
    matches!(scaling, Some(RopeScaling::Dynamic { max_positions, .. }) if tokens > *max_positions)
}

fn chunked(tokens: usize, index: usize, measured: &[Measured], noise: &BTreeMap<Site, SiteDistance>) -> ChunkedPart {
    let bar = |prompt: usize, site: &Site, position: usize| {
        let own = measured[prompt].noise.get(site).and_then(|rows| rows.get(position));
        let median = noise.get(site).map_or(0.0, |site| site.median);
        CHUNK_BAR.at(own.map_or(median, |own| own.max(median)))
    };
    let sites = by_site(measured.iter().map(|prompt| prompt.chunks[index].as_ref()), bar);
    let (mut outcome, mut reason) = report::of_sites(&sites);
    let left_out = measured.iter().filter(|prompt| prompt.chunks[index].is_none()).count();
    if left_out > 0 && outcome != CheckOutcome::Fail {
        outcome = if left_out == measured.len() { CheckOutcome::NotApplicable } else { CheckOutcome::Incomplete };
        reason = format!(
            "{left_out} of {} prompts are longer than max_position_embeddings, where dynamic RoPE turns a chunk by its own length",
            measured.len()
        );
    }
    ChunkedPart { tokens, outcome, reason, sites }
}

/// Each site over the rows of all prompts.
fn by_site<'a>(
    prompts: impl Iterator<Item = Option<&'a Distances>>,
    bar: impl Fn(usize, &Site, usize) -> f64,
) -> BTreeMap<Site, SiteDistance> {
    let mut rows: BTreeMap<Site, Vec<WorstRow>> = BTreeMap::new();
    for (prompt, distances) in prompts.enumerate() {
        for (site, distances) in distances.into_iter().flatten() {
            let measured = distances.iter().enumerate().map(|(position, relative_l2)| WorstRow {
                prompt,
                position,
                relative_l2: *relative_l2,
                bar: bar(prompt, site, position),
            });
            rows.entry(*site).or_default().extend(measured);
        }
    }
    rows.into_iter().filter_map(|(site, rows)| Some((site, SiteDistance::of(&rows)?))).collect()
}
