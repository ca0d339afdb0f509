//! Calibration: what activations of the float network range over, in one pass over the calibration set.

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{Device, Result, Tensor};
use fidelity_references::{Chunk, Decoder, Instrument, Part, TOGETHER};
use fidelity_trace::{FirstPosition, Site, hex};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::{
    Plan,
    basis::Basis,
    first_position::{Fed, is_apart, others},
    histogram::Histogram,
    preparation::reads,
    rotation::{normal, uniform},
    values::{TASK, shaped, with_values},
};

/// Seed of drawn calibration values.
const SEED: u64 = 0xCA11B;

/// What a network is calibrated on.
#[derive(Clone, Debug)]
pub struct CalibrationSet {
    /// Where the prompts come from.
    pub origin: String,
    /// Ids by prompt.
    pub prompts: Vec<Vec<u32>>,
    /// What is fed.
    pub distribution: Distribution,
}

/// What calibration feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// The prompts themselves.
    Prompts,
    /// In place of their embeddings, values drawn uniformly between these embeddings' minimum and maximum.
    Uniform,
    /// In place of their embeddings, normal values of these embeddings' mean and deviation.
    Normal,
}

impl CalibrationSet {
    /// At most `most` prompts of it.
    #[must_use]
    pub fn first(mut self, most: Option<usize>) -> Self {
        self.prompts.truncate(most.unwrap_or(usize::MAX));
        self
    }

    /// The set and its distribution, as reports state it.
    #[must_use]
    pub fn describe(&self) -> String {
        let tokens: usize = self.prompts.iter().map(Vec::len).sum();
        let size = format!("{} prompts of {tokens} tokens", self.prompts.len());
        match self.distribution {
            Distribution::Prompts => format!("{}: {size}", self.origin),
            Distribution::Uniform => format!("uniform values in place of the embeddings of {}: {size}", self.origin),
            Distribution::Normal => format!("normal values in place of the embeddings of {}: {size}", self.origin),
        }
    }
}

/// What was seen of a float network.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    ranges: BTreeMap<Site, (f32, f32)>,
    /// Of position 0, where it is apart; it is then in nothing else here.
    first: BTreeMap<Site, (f32, f32)>,
    means: BTreeMap<Site, ChannelSums>,
    histograms: BTreeMap<Site, Histogram>,
}

#[derive(Clone, Debug, Default)]
struct ChannelSums {
    rows: u64,
    /// Sums while calibrating, means after.
    values: Vec<f64>,
}

impl Calibration {
    /// Minimum and maximum of a site, if the calibration saw it.
    #[must_use]
    pub fn range(&self, site: Site) -> Option<(f32, f32)> {
        self.ranges.get(&site).copied()
    }

    /// The same of position 0, where it is calibrated apart.
    pub(crate) fn first_range(&self, site: Site) -> Option<(f32, f32)> {
        self.first.get(&site).copied()
    }

    /// The range that a site's grid spans: minimum and maximum, or two percentiles.
    #[must_use]
    pub fn clipped_range(&self, site: Site, plan: &Plan) -> Option<(f32, f32)> {
        let (min, max) = self.range(site)?;
        let percentiles = plan.clipping.get(&site).zip(self.histograms.get(&site));
        let ends = percentiles.and_then(|((low, high), seen)| seen.percentile(*low).zip(seen.percentile(*high)));
        ends.map_or(Some((min, max)), |(low, high)| Some((low.max(min), high.min(max))))
    }

    /// Mean of every channel of a site that bias correction reads.
    pub(crate) fn channel_means(&self, site: Site) -> Option<&[f64]> {
        self.means.get(&site).map(|means| means.values.as_slice())
    }

    /// SHA-256 over sites and ranges.
    #[must_use]
    pub fn sha256(&self) -> String {
        let mut hasher = Sha256::new();
        for (site, (min, max)) in &self.ranges {
            hasher.update(format!("{site} {:08x} {:08x};", min.to_bits(), max.to_bits()));
        }
        for (site, (min, max)) in &self.first {
            hasher.update(format!("first {site} {:08x} {:08x};", min.to_bits(), max.to_bits()));
        }
        hex(&hasher.finalize())
    }
}

/// Runs the set through a checkpoint's float32 network once, as many prompts together as the reference runs, and keeps what
/// `plan` needs.
///
/// # Errors
/// Out of memory.
pub fn calibrate(decoder: &Decoder, set: &CalibrationSet, plan: &Plan) -> Result<Calibration> {
    calibrate_prepared(decoder, set, plan, &Basis::default(), None)
}

/// The same for a network whose weights were prepared, in its own basis, with position 0 apart if asked for.
pub(crate) fn calibrate_prepared(
    decoder: &Decoder,
    set: &CalibrationSet,
    plan: &Plan,
    basis: &Basis,
    first: Option<FirstPosition>,
) -> Result<Calibration> {
    let means_of = plan.bias_corrected.iter().filter_map(|site| reads(*site)).collect();
    let random = ChaCha8Rng::seed_from_u64(SEED);
    let (calibration, fed) = (Calibration::default(), Fed::default());
    let mut seen = Seen { calibration, plan, means_of, set, random, basis, first, fed };
    for prompts in set.prompts.chunks(TOGETHER) {
        decoder.observe(prompts.iter().map(Vec::as_slice), &mut seen)?;
    }
    for means in seen.calibration.means.values_mut() {
        means.values.iter_mut().for_each(|sum| *sum /= means.rows.max(1) as f64);
    }
    Ok(seen.calibration)
}

struct Seen<'a> {
    calibration: Calibration,
    plan: &'a Plan,
    means_of: BTreeSet<Site>,
    set: &'a CalibrationSet,
    random: ChaCha8Rng,
    basis: &'a Basis,
    first: Option<FirstPosition>,
    fed: Fed,
}

impl Instrument for Seen<'_> {
    fn feeding(&mut self, chunks: &[Chunk<'_>]) {
        self.fed = Fed::new(chunks);
    }

    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let tensor = if site == Site::Embed { self.drawn(tensor)? } else { tensor };
        let apart = self.first.is_some_and(|way| is_apart(way, site));
        let spans = if apart { self.fed.spans(site, part, tensor.dims()) } else { Vec::new() };
        with_values(&tensor, |values| {
            for span in &spans {
                widen(&mut self.calibration.first, site, &values[span.values.clone()]);
            }
            for values in others(values, &spans) {
                widen(&mut self.calibration.ranges, site, values);
                if self.plan.clipping.contains_key(&site) {
                    self.calibration.histograms.entry(site).or_default().add(values);
                }
                if self.means_of.contains(&site) {
                    let rows = tensor.dims()[0];
                    let width = tensor.elem_count() / rows.max(1);
                    self.calibration.means.entry(site).or_default().add(values, width);
                }
            }
            Ok(())
        })?;
        Ok(tensor)
    }
}

fn widen(ranges: &mut BTreeMap<Site, (f32, f32)>, site: Site, values: &[f32]) {
    let (min, max) = range(values);
    let seen = ranges.entry(site).or_insert((min, max));
    *seen = (lesser(seen.0, min), greater(seen.1, max));
}

impl Seen<'_> {
    /// Drawn values in the place of embeddings, where the set asks for them.
    fn drawn(&mut self, embeddings: Tensor) -> Result<Tensor> {
        if self.set.distribution == Distribution::Prompts {
            return Ok(embeddings);
        }
        let own = self.basis.undo(Site::Embed, &embeddings)?;
        let drawn = with_values(&own, |values| {
            let (min, max) = range(values);
            let count = values.len().max(1) as f64;
            let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
            let square = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
            let uniformly = |random: &mut ChaCha8Rng| f64::from(min) + uniform(random) * f64::from(max - min);
            let normally = |random: &mut ChaCha8Rng| mean + normal(random) * square.sqrt();
            let mut draw = || match self.set.distribution {
                Distribution::Uniform => uniformly(&mut self.random),
                Distribution::Prompts | Distribution::Normal => normally(&mut self.random),
            };
            Ok((0..values.len()).map(|_| draw() as f32).collect::<Vec<_>>())
        })?;
        let Some(rotation) = &self.basis.rotation else { return shaped(drawn, &embeddings) };
        let width = embeddings.dims()[1];
        let rotated = drawn.chunks(width).flat_map(|row| {
            let mut wide: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
            rotation.apply(&mut wide);
            wide.into_iter().map(|value| value as f32)
        });
        Tensor::from_vec(rotated.collect(), embeddings.shape(), &Device::Cpu)
    }
}

impl ChannelSums {
    /// Adds rows of `width` channels, in their order whatever the number of cores.
    fn add(&mut self, values: &[f32], width: usize) {
        self.values.resize(width, 0.0);
        self.rows += (values.len() / width.max(1)) as u64;
        self.values.par_chunks_mut(256).enumerate().for_each(|(part, sums)| {
            for row in values.chunks_exact(width) {
                let own = &row[part * 256..part * 256 + sums.len()];
                sums.iter_mut().zip(own).for_each(|(sum, value)| *sum += f64::from(*value));
            }
        });
    }
}

/// NaN if either is: a network that overflows must not look calibrated.
fn lesser(a: f32, b: f32) -> f32 {
    if a <= b || a.is_nan() { a } else { b }
}

fn greater(a: f32, b: f32) -> f32 {
    if a >= b || a.is_nan() { a } else { b }
}

/// Minimum and maximum; NaN where there is one, (0, 0) of nothing.
pub(crate) fn range(values: &[f32]) -> (f32, f32) {
    let both = |a: (f32, f32), b: (f32, f32)| (lesser(a.0, b.0), greater(a.1, b.1));
    let ranges = values.par_chunks(TASK).map(range_of_task);
    ranges.reduce_with(both).unwrap_or((0.0, 0.0))
}

fn range_of_task(values: &[f32]) -> (f32, f32) {
    const LANES: usize = 16;
    let first = values.first().copied().unwrap_or(0.0);
    let (mut lowest, mut highest, mut not_a_number) = ([first; LANES], [first; LANES], [0_u32; LANES]);
    let (lanes, rest) = values.as_chunks::<LANES>();
    for values in lanes {
        for lane in 0..LANES {
            let value = values[lane];
            lowest[lane] = if value < lowest[lane] { value } else { lowest[lane] };
            highest[lane] = if value > highest[lane] { value } else { highest[lane] };
            not_a_number[lane] |= u32::from(value.is_nan());
        }
    }
    let fold = |start: &[f32; LANES], of: fn(f32, f32) -> f32| start.iter().chain(rest).copied().fold(first, of);
    let any_nan = not_a_number.iter().any(|found| *found > 0) || rest.iter().any(|value| value.is_nan());
    if any_nan { (f32::NAN, f32::NAN) } else { (fold(&lowest, lesser), fold(&highest, greater)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_any_length_and_nan_is_never_lost() {
        let mut values: Vec<f32> = (0..40_003).map(|index| ((index * 31) % 1000) as f32 - 200.0).collect();
        assert_eq!(range(&values), (-200.0, 799.0));
        assert_eq!((range(&[]), range(&[3.0])), ((0.0, 0.0), (3.0, 3.0)));
        assert_eq!(range(&[-2.0; 17]), (-2.0, -2.0));
        for index in [0, 5, 40_002] {
            let kept = std::mem::replace(&mut values[index], f32::NAN);
            assert!(range(&values).0.is_nan() && range(&values).1.is_nan(), "{index}");
            values[index] = kept;
        }
    }
}
