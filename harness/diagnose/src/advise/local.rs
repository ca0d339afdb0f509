//! Signal over error by site: what a site's own quantiser adds, and what has come together there.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_emulator::{Emulator, Plan, with_values};
use fidelity_references::{Chunk, Decoder, Instrument, Part};
use fidelity_trace::{BlockSite, PromptRecord, Site};
use fidelity_verdict::SiteSqnr;

/// Every site of an emulator on prompts, one prompt at a time: all of its float32 values are held meanwhile.
pub(super) fn local(
    float32: &Decoder,
    emulator: &Emulator,
    plan: &Plan,
    prompts: &[PromptRecord],
) -> Result<BTreeMap<Site, SiteSqnr>> {
    let mut rows: BTreeMap<Site, [Vec<f64>; 2]> = BTreeMap::new();
    for prompt in prompts {
        let mut kept = Kept::default();
        float32.observe([prompt.token_ids.as_slice()], &mut kept)?;
        let mut beside = Beside { quantiser: emulator.instrument(), exact: kept.0, rows: &mut rows };
        emulator.decoder().observe([prompt.token_ids.as_slice()], &mut beside)?;
    }
    let of_site = |(site, [local, cumulative]): (Site, [Vec<f64>; 2])| {
        let bits = match site {
            Site::Embed => Some(plan.embedding_bits),
            site => plan.activations.get(&site).copied(),
        };
        (site, SiteSqnr { bits, local_db: median(local), cumulative_db: median(cumulative) })
    };
    Ok(rows.into_iter().map(of_site).collect())
}

#[derive(Default)]
struct Kept(BTreeMap<Site, Tensor>);

impl Instrument for Kept {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        self.0.insert(site, tensor.clone());
        Ok(tensor)
    }
}

/// The quantiser, with every row measured before and behind it.
struct Beside<'a, Q> {
    quantiser: Q,
    exact: BTreeMap<Site, Tensor>,
    rows: &'a mut BTreeMap<Site, [Vec<f64>; 2]>,
}

impl<Q: Instrument> Instrument for Beside<'_, Q> {
    fn feeding(&mut self, chunks: &[Chunk<'_>]) {
        self.quantiser.feeding(chunks);
    }

    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let after = self.quantiser.at(site, part, tensor.clone())?;
        let [local, cumulative] = self.rows.entry(site).or_default();
        measure(site, &tensor, &after, local)?;
        if let Some(exact) = self.exact.remove(&site) {
            measure(site, &exact, &self.quantiser.tapped(site, &after)?, cumulative)?;
        }
        Ok(after)
    }
}

/// 10 log₁₀(‖x‖² / ‖y − x‖²) of each row that is not all zero; infinite where nothing is off.
fn measure(site: Site, expected: &Tensor, found: &Tensor, rows: &mut Vec<f64>) -> Result<()> {
    let width = match site {
        Site::Block(_, BlockSite::Scores | BlockSite::Pattern) => expected.dims().last().copied().unwrap_or(1),
        _ => expected.elem_count() / expected.dims().first().copied().unwrap_or(1).max(1),
    };
    with_values(expected, |expected| {
        with_values(found, |found| {
            for (expected, found) in expected.chunks(width.max(1)).zip(found.chunks(width.max(1))) {
                let (mut signal, mut error) = (0.0_f64, 0.0_f64);
                for (x, y) in expected.iter().zip(found) {
                    signal += f64::from(*x).powi(2);
                    error += (f64::from(*y) - f64::from(*x)).powi(2);
                }
                if signal > 0.0 {
                    rows.push(10.0 * (signal / error).log10());
                }
            }
            Ok(())
        })
    })
}

/// Absent of nothing, and where most rows are exact or not finite.
fn median(mut rows: Vec<f64>) -> Option<f64> {
    rows.sort_unstable_by(f64::total_cmp);
    rows.get(rows.len() / 2).copied().filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn rows(site: Site, expected: &[f32], found: &[f32], shape: &[usize]) -> Vec<f64> {
        let tensor = |values: &[f32]| Tensor::from_slice(values, shape, &Device::Cpu).expect("fits");
        let mut rows = Vec::new();
        measure(site, &tensor(expected), &tensor(found), &mut rows).expect("on the CPU");
        rows
    }

    #[test]
    fn rows_by_hand() {
        // 25 over 0.25; nothing off; a row of zeros has no signal.
        let found = rows(Site::Embed, &[3.0, 4.0, 1.0, 1.0, 0.0, 0.0], &[3.0, 4.5, 1.0, 1.0, 0.0, 1.0], &[3, 2]);
        assert!((found[0] - 20.0).abs() < 1e-9 && found[1].is_infinite() && found.len() == 2, "{found:?}");
        // Of two heads, one position and two keys: a row a head.
        let scores = Site::Block(0, BlockSite::Scores);
        assert_eq!(rows(scores, &[1.0, 0.0, 1.0, 0.0], &[1.0, 0.0, 0.9, 0.0], &[2, 1, 2]).len(), 2);
    }

    #[test]
    fn the_median_of_mostly_exact_rows_is_absent() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![f64::INFINITY, 3.0, f64::INFINITY]), None);
        assert_eq!(median(vec![1.0, f64::INFINITY, 3.0]), Some(3.0));
    }
}
