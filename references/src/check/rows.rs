//! Distances of rows, site by site, from what was captured in one pass over the whole prompt in float32.

use std::collections::BTreeMap;

use candle_core::{DType, Result, Tensor};
use fidelity_trace::{BlockSite, Capture, Rows, Scope, Site, Taps};

use crate::{
    Cache, Chunk, Decoder, Instrument, Part, TapCollector, Visibility, Wiring,
    reference::Untouched,
    taps::{KeyLayout, TappedChunk},
};

/// Values of `scores` and `pattern` above which they are left out: they grow with the square of the prompt.
const MOST_SCORES: usize = 64 << 20;

/// Relative L2 by site and position.
pub(super) type Distances = BTreeMap<Site, Vec<f64>>;

/// One prompt's whole pass in float32, every site kept.
pub(super) struct Whole<'a> {
    decoder: &'a Decoder,
    wiring: &'a Wiring,
    token_ids: &'a [u32],
    positions: Vec<u32>,
    capture: Capture,
}

impl<'a> Whole<'a> {
    pub(super) fn compute(decoder: &'a Decoder, wiring: &'a Wiring, token_ids: &'a [u32]) -> Result<Self> {
        let positions: Vec<u32> = (0..token_ids.len() as u32).collect();
        let chunk = Chunk { token_ids, positions: &positions, visibility: Visibility::Causal };
        let mut capture = Capture::new(sites(decoder, token_ids.len()));
        capture.rows(Scope::Base, Rows { positions: &positions, token_ids });
        let layers = &decoder.architecture().layers;
        let layout = KeyLayout { chunk, layers, first_key: 0, width: token_ids.len() };
        let chunks = vec![TappedChunk { capture: &mut capture, layout }];
        decoder.forward(&chunk, None, wiring, &mut TapCollector { scope: Scope::Base, chunks })?;
        Ok(Self { decoder, wiring, token_ids, positions, capture })
    }

    /// The logits of a whole pass, by position, nothing kept of the other sites.
    pub(super) fn logits_alone(decoder: &Decoder, wiring: &Wiring, token_ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        let positions: Vec<u32> = (0..token_ids.len() as u32).collect();
        let chunk = Chunk { token_ids, positions: &positions, visibility: Visibility::Causal };
        decoder.forward(&chunk, None, wiring, &mut Untouched)?.to_vec2()
    }

    /// How far this pass is from the same in float64.
    pub(super) fn against_float64(&self, float64: &Decoder) -> Result<Distances> {
        let mut distances = Distances::new();
        self.compare(float64, 0, self.token_ids.len(), None, &mut distances)?;
        Ok(distances)
    }

    /// How far this pass is from the same in chunks of `length` tokens through the cache.
    pub(super) fn against_chunks(&self, length: usize) -> Result<Distances> {
        let mut cache = Cache::new(self.decoder, self.token_ids.len())?;
        let mut distances = Distances::new();
        for start in (0..self.token_ids.len()).step_by(length) {
            let end = self.token_ids.len().min(start + length);
            self.compare(self.decoder, start, end, Some(&mut cache), &mut distances)?;
        }
        Ok(distances)
    }

    fn compare(
        &self,
        decoder: &Decoder,
        start: usize,
        end: usize,
        cache: Option<&mut Cache>,
        distances: &mut Distances,
    ) -> Result<()> {
        let (token_ids, positions) = (&self.token_ids[start..end], &self.positions[start..end]);
        let chunk = Chunk { token_ids, positions, visibility: Visibility::Causal };
        let layers = &decoder.architecture().layers;
        let layout = KeyLayout { chunk, layers, first_key: 0, width: self.token_ids.len() };
        let mut against = Against { capture: &self.capture, layout, distances };
        decoder.forward(&chunk, cache, self.wiring, &mut against)?;
        Ok(())
    }
}

/// Every site, but for `scores` and `pattern` of long prompts.
fn sites(decoder: &Decoder, tokens: usize) -> Taps {
    let a = decoder.architecture();
    let scores = tokens.saturating_mul(tokens).saturating_mul(2 * a.blocks * a.query_heads);
    if scores <= MOST_SCORES {
        return Taps::All;
    }
    let kept = BlockSite::ALL.into_iter().filter(|site| !matches!(site, BlockSite::Scores | BlockSite::Pattern));
    let kept = kept.map(BlockSite::name).chain(["embed", "final_norm"]).collect::<Vec<_>>().join(",");
    Taps::parse(&kept).unwrap_or(Taps::Default)
}

/// Measures each row at each captured site.
struct Against<'a> {
    capture: &'a Capture,
    layout: KeyLayout<'a>,
    distances: &'a mut Distances,
}

impl Instrument for Against<'_> {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        let captured = self.capture.scopes.get(&Scope::Base).and_then(|scope| scope.sites.get(&site));
        if let Some(captured) = captured {
            let rows =
                self.layout.rows_first(site, &tensor)?.to_dtype(DType::F64)?.flatten_from(1)?.to_vec2::<f64>()?;
            let measured = self.layout.chunk.positions.iter().zip(&rows);
            let measured = measured.map(|(position, row)| relative_l2(row, captured.row(*position as usize)).0);
            self.distances.entry(site).or_default().extend(measured);
        }
        Ok(tensor)
    }
}

/// (‖found − expected‖ / ‖expected‖, max |found − expected|), NaN when a value is not a number. Where only the expected row is all
/// zeros, the former is infinite.
pub(super) fn relative_l2(expected: &[f64], found: &[f32]) -> (f64, f64) {
    let (mut error, mut energy, mut largest) = (0.0, 0.0, 0.0_f64);
    for (expected, found) in expected.iter().zip(found) {
        let difference = (f64::from(*found) - expected).abs();
        error += difference * difference;
        energy += expected * expected;
        if difference > largest || difference.is_nan() {
            largest = difference;
        }
    }
    let equal = error <= 0.0 && expected.len() == found.len();
    (if equal { 0.0 } else { (error / energy).sqrt() }, largest)
}

#[cfg(test)]
mod tests {
    use super::relative_l2;

    #[test]
    fn distances_by_hand() {
        let (relative, largest) = relative_l2(&[3.0, 4.0], &[3.0, 4.5]);
        assert!((relative - 0.1).abs() < 1e-12 && (largest - 0.5).abs() < 1e-12);
        assert!(relative_l2(&[0.0, 0.0], &[0.0, 0.0]).0.abs() < f64::EPSILON);
        assert!(relative_l2(&[0.0, 0.0], &[0.0, 1e-20]).0.is_infinite());
    }

    #[test]
    fn what_is_not_a_number_is_never_near() {
        for (expected, found) in
            [([f64::NAN, 1.0], [0.0, 1.0]), ([0.0, 1.0], [f32::NAN, 1.0]), ([0.0, 1.0], [f32::INFINITY, 1.0])]
        {
            let (relative, largest) = relative_l2(&expected, &found);
            assert!(!relative.is_finite() && !largest.is_finite(), "{expected:?} {found:?}");
        }
        assert!(
            !relative_l2(&[0.0, f64::NAN, 2.0], &[0.0, f32::NAN, 2.0]).1.is_finite(),
            "a later number does not hide it"
        );
    }
}
