//! How far float32 is from float64, measured on every prompt in one teacher-forced pass (an encoder's prompts end there).

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_trace::{Capture, Request, Scope, Site};

use crate::{
    Chunk, Decoder, Feed, Instrument, Part, Wiring,
    taps::{KeyLayout, own_part},
};

/// Scopes whose rows are positions of one sequence, which is what the float64 pass computes.
const OF_ONE_SEQUENCE: [Scope; 3] = [Scope::Base, Scope::Prefill, Scope::Tbt];

/// Prompts computed in one pass: enough that widening the weights costs little, few enough that their logits fit in memory.
pub(crate) const MEASURED_TOGETHER: usize = 4;

/// Fills `noise_floor` and `logits_noise` of captured prompts. `decoder` computes in float64.
pub(crate) fn measure(decoder: &Decoder, requests: &[Request<'_>], captures: &mut [Capture]) -> Result<()> {
    let one_pass = decoder.architecture().angles_are_fixed();
    let sequence = |(request, capture): (&Request<'_>, &Capture)| {
        let fed = capture.scopes.get(&Scope::Tbt).filter(|_| one_pass).map_or(&[][..], |tbt| &tbt.token_ids);
        let token_ids = [request.token_ids, fed].concat();
        let positions: Vec<u32> = (0..token_ids.len() as u32).collect();
        (token_ids, positions)
    };
    let sequences: Vec<_> = requests.iter().zip(&*captures).map(sequence).collect();
    let (mut feeds, mut meters) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
    for (((token_ids, positions), request), capture) in sequences.iter().zip(requests).zip(&*captures) {
        let visibility = decoder.architecture().visibility(token_ids.len());
        let chunk = Chunk { token_ids, positions, visibility };
        let width = request.token_ids.len() + request.new_tokens;
        let layout = KeyLayout { chunk, layers: &decoder.architecture().layers, first_key: 0, width };
        feeds.push(Feed { chunk, cache: None });
        meters.push(Meter { capture, layout, floor: BTreeMap::new(), logits: BTreeMap::new() });
    }
    let mut meters = Meters(meters);
    decoder.forward_together(&mut feeds, &Wiring::default(), &mut meters)?;
    let measured: Vec<_> = meters.0.into_iter().map(|Meter { floor, logits, .. }| (floor, logits)).collect();
    for (capture, (floor, logits)) in captures.iter_mut().zip(measured) {
        capture.noise_floor = floor;
        for (scope, noise) in logits {
            capture.scopes.entry(scope).or_default().logits_noise = Some(noise);
        }
    }
    Ok(())
}

struct Meter<'a> {
    capture: &'a Capture,
    layout: KeyLayout<'a>,
    floor: BTreeMap<Site, f64>,
    logits: BTreeMap<Scope, Vec<f32>>,
}

/// One for each prompt of the pass.
struct Meters<'a>(Vec<Meter<'a>>);

impl Instrument for Meters<'_> {
    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let mut start = 0;
        for (index, meter) in self.0.iter_mut().enumerate() {
            let rows = meter.layout.chunk.positions.len();
            if meter.capture.wants(site)
                && let Some(own) = own_part(&tensor, part, index, start, rows)?
            {
                let exact = meter.layout.rows_first(site, &own)?.flatten_from(1)?.to_vec2::<f64>()?;
                OF_ONE_SEQUENCE.into_iter().for_each(|scope| meter.compare(scope, site, &exact));
            }
            start += rows;
        }
        Ok(tensor)
    }
}

impl Meter<'_> {
    fn compare(&mut self, scope: Scope, site: Site, exact: &[Vec<f64>]) {
        let Some(captured) = self.capture.scopes.get(&scope) else { return };
        let Some(tensor) = captured.sites.get(&site) else { return };
        let mut largest = Vec::with_capacity(tensor.rows());
        for index in 0..tensor.rows() {
            let place = if site.is_per_prompt() { index } else { captured.positions[index] as usize };
            let Some(exact) = exact.get(place) else { return };
            let (relative, max_abs) = distance(exact, tensor.row(index));
            let floor = self.floor.entry(site).or_insert(0.0);
            *floor = floor.max(relative);
            largest.push(max_abs as f32);
        }
        if site == Site::Logits {
            self.logits.insert(scope, largest);
        }
    }
}

/// (‖rounded − exact‖ / ‖exact‖, max |rounded − exact|). A row that is off where the exact one is zero, or not finite on either
/// side, has no right digit: 1, and NaN, which no tie is granted on.
fn distance(exact: &[f64], rounded: &[f32]) -> (f64, f64) {
    let (mut error, mut energy, mut largest) = (0.0, 0.0, 0.0_f64);
    for (exact, rounded) in exact.iter().zip(rounded) {
        let difference = f64::from(*rounded) - exact;
        error += difference * difference;
        energy += exact * exact;
        largest = largest.max(difference.abs());
    }
    match (error / energy).sqrt() {
        _ if error == 0.0 => (0.0, 0.0),
        relative if relative.is_finite() => (relative, largest),
        _ if error.is_finite() && energy.is_finite() => (1.0, largest),
        _ => (1.0, f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_or_off_zero_has_no_right_digit() {
        assert_eq!(distance(&[3.0, 4.0], &[3.0, 4.5]), (0.1, 0.5));
        assert_eq!(distance(&[0.0, 0.0], &[0.0, 0.0]), (0.0, 0.0));
        assert_eq!(distance(&[0.0, 0.0], &[0.0, 0.5]), (1.0, 0.5));
        for (exact, rounded) in [(1.0, f32::NAN), (f64::NAN, 1.0), (1.0, f32::INFINITY), (f64::NAN, f32::NAN)] {
            let (relative, largest) = distance(&[exact, 1.0], &[rounded, 1.0]);
            assert!((relative - 1.0).abs() < f64::EPSILON && largest.is_nan(), "{exact} {rounded}");
        }
    }
}
