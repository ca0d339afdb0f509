//! `fidelity profile`: what a quantiser meets.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_emulator::with_values;
use fidelity_references::{Checkpoint, Decoder, Instrument, Part, TOGETHER};
use fidelity_trace::{BlockSite, PromptRecord, Site};
use fidelity_verdict::{
    ActivationProfile, AttentionSink, MassiveActivation, NormInput, PROFILE_FORMAT, PROFILE_VERSION,
};

use crate::accumulate::{Accumulator, Place};

/// Massive activations listed at most.
const MOST_MASSIVE: usize = 200;

/// Runs the prompts through the float32 reference, one pass, and sums up what stands at every site. `on_prompts` is called with
/// how many prompts are done.
///
/// # Errors
/// Out of memory.
pub fn profile(
    checkpoint: &Checkpoint,
    decoder: &Decoder,
    prompts: &[PromptRecord],
    on_prompts: &dyn Fn(usize),
) -> Result<ActivationProfile> {
    let mut seen = Seen::default();
    for (group, records) in prompts.chunks(TOGETHER).enumerate() {
        seen.first_prompt = group * TOGETHER;
        seen.lengths = records.iter().map(|prompt| prompt.token_ids.len()).collect();
        decoder.observe(records.iter().map(|prompt| prompt.token_ids.as_slice()), &mut seen)?;
        on_prompts(group * TOGETHER + records.len());
    }
    let mut massive: Vec<MassiveActivation> = seen
        .sites
        .iter()
        .filter(|(site, _)| !matches!(site, Site::Block(_, BlockSite::Scores | BlockSite::Pattern) | Site::Logits))
        .flat_map(|(site, found)| found.massive(*site))
        .collect();
    massive.sort_by(|a, b| b.ratio.total_cmp(&a.ratio).then(a.site.cmp(&b.site)));
    massive.truncate(MOST_MASSIVE);
    Ok(ActivationProfile {
        format: PROFILE_FORMAT.to_owned(),
        version: PROFILE_VERSION,
        checkpoint: checkpoint.identity().clone(),
        prompts: prompts.iter().map(|prompt| prompt.id.clone()).collect(),
        tokens: prompts.iter().map(|prompt| prompt.token_ids.len()).sum(),
        massive,
        sinks: seen.sinks.iter().filter_map(|(block, sink)| sink.finish(*block)).collect(),
        norms: seen.norms(decoder),
        sites: seen.sites.into_iter().map(|(site, found)| (site, found.finish())).collect(),
    })
}

#[derive(Default)]
struct Seen {
    sites: BTreeMap<Site, Accumulator>,
    sinks: BTreeMap<u32, Sink>,
    /// The first of the prompts computed together.
    first_prompt: usize,
    /// Tokens of each of them.
    lengths: Vec<usize>,
}

impl Seen {
    /// Where the rows of a tensor are.
    fn places(&self, part: Part) -> Vec<Place> {
        let of = |(index, length): (usize, &usize)| {
            (0..*length as u32).map(move |position| (index, position)).collect::<Vec<_>>()
        };
        let all = self.lengths.iter().enumerate();
        let own = all.filter(|(index, _)| match part {
            Part::All => true,
            Part::Chunk(only) => *index == only,
        });
        let rows = own.flat_map(of);
        rows.map(|(index, position)| Place { prompt: self.first_prompt + index, position }).collect()
    }

    /// Mean squares of what RMSNorms and LayerNorms of the residual stream read.
    fn norms(&self, decoder: &Decoder) -> Vec<NormInput> {
        let last = decoder.architecture().blocks as u32;
        let read = |site: &Site| match site {
            Site::Embed => true,
            Site::Block(block, BlockSite::ResidMid | BlockSite::ResidPost | BlockSite::ResidSum) => *block < last,
            _ => false,
        };
        let inputs = self.sites.iter().filter(|(site, _)| read(site));
        let of = |(site, found): (&Site, &Accumulator)| {
            let squares = found.mean_squares();
            let p50 = *squares.get(squares.len() / 2)?;
            Some(NormInput { site: *site, min: *squares.first()?, p50, max: *squares.last()? })
        };
        inputs.filter_map(of).collect()
    }
}

impl Instrument for Seen {
    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let places = self.places(part);
        with_values(&tensor, |values| {
            let width = match site {
                Site::Block(_, BlockSite::Scores | BlockSite::Pattern) => tensor.dims().last().copied().unwrap_or(0),
                _ => values.len() / tensor.dims().first().copied().unwrap_or(1).max(1),
            };
            // Scores and patterns have the rows of one head after those of another.
            let place = |row: usize| places[row % places.len().max(1)];
            if !places.is_empty() {
                self.sites.entry(site).or_default().add(values, width, place);
            }
            if let Site::Block(block, BlockSite::Pattern) = site {
                self.sinks.entry(block).or_default().add(values, &places, width);
            }
            Ok(())
        })?;
        Ok(tensor)
    }
}

/// Attention to the first key, by head.
#[derive(Default)]
struct Sink {
    heads: Vec<f64>,
    rows: usize,
}

impl Sink {
    /// Patterns `[head, position, key]` of one prompt from its first position on.
    fn add(&mut self, pattern: &[f32], places: &[Place], keys: usize) {
        let heads = pattern.len() / (places.len() * keys).max(1);
        self.heads.resize(heads.max(self.heads.len()), 0.0);
        for (index, row) in pattern.chunks_exact(keys.max(1)).enumerate() {
            // The first row has no other key.
            if places[index % places.len()].position > 0 {
                self.heads[index / places.len()] += f64::from(row[0]);
            }
        }
        self.rows += places.iter().filter(|place| place.position > 0).count();
    }

    fn finish(&self, block: u32) -> Option<AttentionSink> {
        let shares: Vec<f64> = self.heads.iter().map(|sum| sum / self.rows as f64).collect();
        let (head, head_mean) = shares.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        (self.rows > 0).then_some(AttentionSink { block, mean, head, head_mean })
    }
}
