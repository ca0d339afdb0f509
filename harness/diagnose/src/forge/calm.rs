//! Channels of even magnitude, in the same function: the inverse of an outlier.
//!
//! The network as it is then is computed on calibration prompts in float32. At every place between which factors move, each
//! channel's largest magnitude is brought to within √2 of their geometric mean, by a power of two, so that no weight is rounded.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_emulator::with_values;
use fidelity_references::{Architecture, Checkpoint, Decoder, Instrument, MlpKind, NormKind, Part, TOGETHER};
use fidelity_trace::{BlockSite, Site};

use super::{
    Draft, ForgeError, Transformation, refused,
    rescale::{Factors, Pair, rescaled},
    write,
};

/// No factor is beyond 2 to the power of this, or minus this.
const LARGEST: f64 = 32.0;

/// Ids of prompts to measure on.
pub(super) struct Calm(pub(super) Vec<Vec<u32>>);

impl Transformation for Calm {
    fn apply(&self, mut draft: Draft) -> std::result::Result<Draft, ForgeError> {
        let a = draft.architecture.clone();
        if a.norm != NormKind::Rms {
            return Err(refused(self, "it has LayerNorm, whose checkpoints are not rescaled"));
        }
        let known = |ids: &&Vec<u32>| !ids.is_empty() && ids.iter().all(|id| (*id as usize) < a.vocabulary);
        let prompts: Vec<Vec<u32>> = self.0.iter().filter(known).cloned().collect();
        if prompts.is_empty() {
            return Err(refused(self, "no calibration prompt has ids that it knows; give --calibration"));
        }
        let seen = {
            let (_temporary, folder) = write::aside(&draft.out)?;
            draft.write(&folder)?;
            let decoder = Checkpoint::open(&folder, "calmed")?.decoder(&|_, tensor| Ok(tensor))?;
            largest(&decoder, &prompts).map_err(ForgeError::Compute)?
        };
        let mut factors = Vec::new();
        let mut worst: BTreeMap<&'static str, (f64, f64)> = BTreeMap::new();
        for (site, channels) in &seen {
            let Some((pair, block)) = moved_at(&a, *site) else { continue };
            let channels = if pair == Pair::Values { by_kv_head(&a, channels) } else { channels.clone() };
            let by_channel = evening(&channels);
            let after: Vec<f64> = channels.iter().zip(&by_channel).map(|(largest, factor)| largest * factor).collect();
            let (was, is) = worst.entry(site.kind()).or_insert((1.0, 1.0));
            (*was, *is) = (was.max(above_median(&channels)), is.max(above_median(&after)));
            factors.push(Factors { pair, block, by_channel });
        }
        let measured = format!("channels were measured on {} calibration prompts", prompts.len());
        let sites = worst.iter().map(|(kind, (was, is))| {
            format!("{kind}: the largest channel is {is:.1} × the median one where it is farthest, and was {was:.1} ×")
        });
        draft.notes.extend([measured].into_iter().chain(sites));
        if a.tied_head {
            draft
                .notes
                .push("final_norm is left as it is: the head that reads it is the embedding (--untie before)".into());
        }
        Ok(rescaled(draft, factors))
    }

    fn name(&self) -> String {
        "--calm".into()
    }
}

/// Between which weights a site's channels can be scaled.
fn moved_at(a: &Architecture, site: Site) -> Option<(Pair, usize)> {
    match site {
        Site::FinalNorm if !a.tied_head => Some((Pair::FinalNorm, 0)),
        Site::Block(block, BlockSite::AttnNorm) => Some((Pair::AttnNorm, block as usize)),
        Site::Block(block, BlockSite::MlpNorm) => Some((Pair::MlpNorm, block as usize)),
        Site::Block(block, BlockSite::Z) => Some((Pair::Values, block as usize)),
        Site::Block(block, BlockSite::Act) if a.mlp_kind == MlpKind::Gated => Some((Pair::Products, block as usize)),
        _ => None,
    }
}

/// Of each kv channel the largest of the query heads that share it.
fn by_kv_head(a: &Architecture, channels: &[f64]) -> Vec<f64> {
    let group = a.query_heads / a.kv_heads.max(1);
    let of = |channel: usize| {
        let (head, dimension) = (channel / a.head_dim, channel % a.head_dim);
        (0..group).map(|query| channels[(head * group + query) * a.head_dim + dimension]).fold(0.0, f64::max)
    };
    (0..a.kv_heads * a.head_dim).map(of).collect()
}

/// Powers of two that bring magnitudes next to their geometric mean; 1 where a channel is always 0.
fn evening(largest: &[f64]) -> Vec<f64> {
    let logarithms: Vec<f64> = largest.iter().filter(|value| **value > 0.0).map(|value| value.log2()).collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64;
    let factor = |value: &f64| match *value > 0.0 {
        true => (mean - value.log2()).round().clamp(-LARGEST, LARGEST).exp2(),
        false => 1.0,
    };
    largest.iter().map(factor).collect()
}

/// The largest over the median.
fn above_median(largest: &[f64]) -> f64 {
    let mut sorted = largest.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    if median > 0.0 { sorted.last().map_or(1.0, |largest| largest / median) } else { 1.0 }
}

/// Each channel's largest magnitude at every site that can be scaled.
fn largest(decoder: &Decoder, prompts: &[Vec<u32>]) -> Result<BTreeMap<Site, Vec<f64>>> {
    let longest = decoder.architecture().longest_sequence();
    let mut seen = Seen(BTreeMap::new());
    for group in prompts.chunks(TOGETHER) {
        decoder.observe(group.iter().map(|ids| &ids[..ids.len().min(longest)]), &mut seen)?;
    }
    Ok(seen.0)
}

struct Seen(BTreeMap<Site, Vec<f64>>);

impl Instrument for Seen {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        use BlockSite::{Act, AttnNorm, MlpNorm, Z};
        if !matches!(site, Site::FinalNorm | Site::Block(_, AttnNorm | MlpNorm | Z | Act)) {
            return Ok(tensor);
        }
        let width = tensor.dims().last().copied().unwrap_or(1).max(1);
        with_values(&tensor, |values| {
            let channels = self.0.entry(site).or_insert_with(|| vec![0.0; width]);
            for row in values.chunks_exact(width) {
                channels
                    .iter_mut()
                    .zip(row)
                    .for_each(|(largest, value)| *largest = largest.max(f64::from(value.abs())));
            }
            Ok(())
        })?;
        Ok(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_become_even_by_powers_of_two() {
        let largest = [1.0, 64.0, 0.0, 3.0, 1e-3];
        let factors = evening(&largest);
        let mean = (largest.iter().filter(|value| **value > 0.0).map(|value| value.log2()).sum::<f64>() / 4.0).exp2();
        for (largest, factor) in largest.iter().zip(&factors).filter(|(largest, _)| **largest > 0.0) {
            let off = largest * factor / mean;
            assert!((0.7..=1.42).contains(&off), "{off}");
            assert!(factor.log2().fract().abs() < 1e-12, "{factor}");
        }
        assert!((factors[2] - 1.0).abs() < 1e-12 && evening(&[]).is_empty());
        assert!((above_median(&[1.0, 2.0, 8.0]) - 4.0).abs() < 1e-12);
    }
}
