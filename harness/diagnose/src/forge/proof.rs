//! What a forged checkpoint computes, held against what its source computes, in float64 from the float32 weights of both.

use std::collections::BTreeMap;

use candle_core::{D, DType, Result, Tensor};
use fidelity_references::{Checkpoint, Chunk, Decoder, Instrument, Part, Visibility, Wiring};
use fidelity_trace::{BlockSite, BosConvention, Site};
use fidelity_verdict::SiteProof;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{ForgeError, draft::Relation};

/// How many times float32's own error at a site is taken for rounding. The forged weights are rounded to float32 once; float32
/// rounds once an operation.
const MARGIN: f64 = 8.0;
/// What float32's own error is taken for at least: its step next to 1.
const LEAST_NOISE: f64 = f32::EPSILON as f64;
/// A tolerance beyond this proves nothing.
const LARGEST_TOLERANCE: f64 = 1e-3;
/// What copies and zeros may be off in float64, which sums in another order.
const OF_COPIES: f64 = 1e-10;

const TEXTS: [&str; 2] = [
    "Once upon a time there was a little girl who lived in a house near the forest.",
    "The capital of France is Paris, and 2 + 2 = 4.",
];
/// Tokens of a prompt at most.
const LONGEST: usize = 24;
/// Of tokens that are drawn.
const SEED: u64 = 20;

/// Token ids to compute, all below `vocabulary`: texts where there is a tokenizer, and ids drawn from all there are.
pub(super) fn prompts(source: &Checkpoint, vocabulary: usize) -> Vec<Vec<u32>> {
    let a = source.architecture();
    let longest = LONGEST.min(a.longest_sequence());
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let drawn = |length: usize, random: &mut ChaCha8Rng| -> Vec<u32> {
        let id = |random: &mut ChaCha8Rng| (random.next_u64() % vocabulary as u64) as u32;
        a.bos.into_iter().chain((0..length).map(|_| id(random))).collect()
    };
    let texts = TEXTS.iter().filter_map(|text| source.encode(text, BosConvention::Tokenizer).ok());
    let all = texts.chain([drawn(LONGEST, &mut random), drawn(LONGEST / 2, &mut random), vec![vocabulary as u32 - 1]]);
    let known = |ids: &Vec<u32>| ids.iter().all(|id| (*id as usize) < vocabulary);
    all.map(|mut ids| {
        ids.truncate(longest);
        ids
    })
    .filter(known)
    .collect()
}

/// What a network computes on prompts, by site: rows of all prompts in float64, and how far float32 is from them.
pub(super) struct Computed {
    sites: BTreeMap<Site, Vec<Vec<f64>>>,
    /// The worst row's relative L2; of no use where nothing is rounded.
    noise: BTreeMap<Site, f64>,
}

impl Computed {
    /// By a decoder of float32, which is not run in that where `exact` says that nothing will be asked of its noise. Of the block of
    /// `first_heads`, so many channels of z are kept and the rest are zero.
    pub(super) fn by(
        decoder: &Decoder,
        prompts: &[Vec<u32>],
        exact: bool,
        first_heads: Option<(u32, usize)>,
    ) -> std::result::Result<Self, ForgeError> {
        let sites = seen(&decoder.to_float64(), prompts, first_heads).map_err(ForgeError::Compute)?;
        let mut noise = BTreeMap::new();
        if !exact {
            let single = seen(decoder, prompts, first_heads).map_err(ForgeError::Compute)?;
            noise.extend(sites.iter().map(|(site, rows)| (*site, worst(rows, &single[site]))));
        }
        Ok(Self { sites, noise })
    }
}

fn seen(
    decoder: &Decoder,
    prompts: &[Vec<u32>],
    first_heads: Option<(u32, usize)>,
) -> Result<BTreeMap<Site, Vec<Vec<f64>>>> {
    let mut rows = Rows { kept: BTreeMap::new(), first_heads };
    for token_ids in prompts {
        let positions: Vec<u32> = (0..token_ids.len() as u32).collect();
        let chunk = Chunk { token_ids, positions: &positions, visibility: Visibility::Causal };
        decoder.forward(&chunk, None, &Wiring::default(), &mut rows)?;
    }
    Ok(rows.kept)
}

/// Keeps the residual stream, the last norm and the logits.
struct Rows {
    kept: BTreeMap<Site, Vec<Vec<f64>>>,
    first_heads: Option<(u32, usize)>,
}

impl Instrument for Rows {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        let kept = match site {
            Site::Embed | Site::FinalNorm | Site::Logits => true,
            Site::Block(_, inner) => matches!(inner, BlockSite::ResidMid | BlockSite::ResidPost),
            Site::Pooled => false,
        };
        if let (Some((block, width)), Site::Block(at, BlockSite::Z)) = (self.first_heads, site)
            && at == block
        {
            let channels = tensor.dim(D::Minus1)?;
            return tensor.narrow(D::Minus1, 0, width)?.pad_with_zeros(D::Minus1, 0, channels - width);
        }
        if kept {
            self.kept.entry(site).or_default().extend(tensor.to_dtype(DType::F64)?.to_vec2::<f64>()?);
        }
        Ok(tensor)
    }
}

/// Every site at which the two are related, in data-flow order.
pub(super) fn compared(source: &Computed, forged: &Computed, relation: &Relation) -> Vec<SiteProof> {
    let proofs = source.sites.iter().filter_map(|(site, rows)| {
        let place = match *site {
            Site::Block(block, inner) => {
                let place = relation.blocks.iter().position(|kept| *kept == block as usize)?;
                Site::Block(place as u32, inner)
            }
            other => other,
        };
        let expected: Vec<_> = rows.iter().map(|row| relation.expected(*site, row)).collect::<Option<_>>()?;
        let found = forged.sites.get(&place).map_or(&[][..], Vec::as_slice);
        let noise = |of: &Computed, site: &Site| of.noise.get(site).copied();
        let (of_source, of_forged) = (noise(source, site), noise(forged, &place));
        Some(SiteProof {
            site: place,
            source_site: *site,
            relative_l2: worst(&expected, found),
            tolerance: tolerance(relation.copied, [of_source, of_forged]),
            source_noise: of_source,
            forged_noise: of_forged,
        })
    });
    let mut proofs: Vec<_> = proofs.collect();
    proofs.sort_by_key(|proof| proof.site);
    proofs
}

fn tolerance(copied: bool, noise: [Option<f64>; 2]) -> f64 {
    if copied { OF_COPIES } else { MARGIN * noise.into_iter().flatten().fold(LEAST_NOISE, f64::max) }
}

/// Why the sites do not prove the relation, if they do not.
pub(super) fn refuted(sites: &[SiteProof]) -> Option<ForgeError> {
    if !sites.iter().any(|proof| proof.site == Site::Logits) {
        return Some(ForgeError::NothingCompared);
    }
    // NaN is neither within a tolerance nor a tolerance.
    let unproven = |proof: &&SiteProof| {
        let proven = proof.relative_l2 <= proof.tolerance && proof.tolerance <= LARGEST_TOLERANCE;
        !proven
    };
    let proof = sites.iter().find(unproven)?;
    let SiteProof { site, relative_l2, tolerance, .. } = *proof;
    Some(ForgeError::NotProven { site, relative_l2, tolerance, largest: LARGEST_TOLERANCE })
}

/// The largest ‖found − expected‖ / ‖expected‖ of a row: 1 where a row is missing or off where zero is expected, NaN where one is
/// not finite.
fn worst(expected: &[Vec<f64>], found: &[Vec<f64>]) -> f64 {
    if expected.len() != found.len() {
        return 1.0;
    }
    let rows = expected.iter().zip(found).map(|(expected, found)| distance(expected, found));
    rows.fold(0.0, |worst: f64, row| if row.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(row) })
}

fn distance(expected: &[f64], found: &[f64]) -> f64 {
    if expected.len() != found.len() {
        return 1.0;
    }
    let pairs = expected.iter().zip(found);
    let error = pairs.map(|(expected, found)| (found - expected).powi(2)).sum::<f64>().sqrt();
    let norm = expected.iter().map(|value| value.powi(2)).sum::<f64>().sqrt();
    match error {
        0.0 => 0.0,
        _ if norm == 0.0 => 1.0,
        _ => error / norm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_not_finite_is_never_near() {
        let rows = |values: &[f64]| vec![values.to_vec()];
        let is = |found: f64, expected: f64| (found - expected).abs() < 1e-15;
        assert!(is(worst(&rows(&[3.0, 4.0]), &rows(&[3.0, 4.0])), 0.0));
        assert!(is(worst(&rows(&[3.0, 4.0]), &rows(&[3.0, 4.5])), 0.1));
        assert!(is(worst(&rows(&[0.0, 0.0]), &rows(&[0.0, 1e-30])), 1.0));
        assert!(is(worst(&rows(&[1.0]), &[]), 1.0));
        assert!(is(worst(&rows(&[1.0, 2.0]), &rows(&[1.0])), 1.0));
        let both = [vec![1.0, f64::NAN], vec![1.0, 1.0]];
        assert!(worst(&both, &[vec![1.0, 1.0], vec![1.0, 1.0]]).is_nan());
    }
}
