//! How far float32 is from float64, measured on every prompt in one teacher-forced pass (an encoder's prompts end there).

use std::collections::BTreeMap;

use candle_core::{DType, Result, Tensor};
use fidelity_trace::{Capture, Request, Scope, Site};

use crate::{Chunk, Decoder, Instrument, Part, RopeScaling, Wiring, taps::KeyLayout};

/// Scopes whose rows are positions of one sequence, which is what the float64 pass computes.
const OF_ONE_SEQUENCE: [Scope; 3] = [Scope::Base, Scope::Prefill, Scope::Tbt];

/// Fills `noise_floor` and `logits_noise` of a captured prompt. `decoder` computes in float64.
pub(crate) fn measure(decoder: &Decoder, request: &Request<'_>, capture: &mut Capture) -> Result<()> {
    // Under dynamic RoPE the angles of a step depend on how far it reaches: one pass over all would compute other ones.
    let scaling = decoder.architecture().rope.as_ref().map(|rope| &rope.scaling);
    let one_table = !matches!(scaling, Some(RopeScaling::Dynamic { .. }));
    let fed = capture.scopes.get(&Scope::Tbt).filter(|_| one_table).map_or(&[][..], |tbt| &tbt.token_ids);
    let token_ids = [request.token_ids, fed].concat();
    let positions: Vec<u32> = (0..token_ids.len() as u32).collect();
    let visibility = decoder.architecture().visibility(token_ids.len());
    let chunk = Chunk { token_ids: &token_ids, positions: &positions, visibility };
    let width = request.token_ids.len() + request.new_tokens;
    let layers = &decoder.architecture().layers;
    let layout = KeyLayout { chunk, layers, first_key: 0, width };
    let mut meter = Meter { capture, layout, floor: BTreeMap::new(), logits: BTreeMap::new() };
    decoder.forward(&chunk, None, &Wiring::default(), &mut meter)?;
    let Meter { floor, logits, .. } = meter;
    capture.noise_floor = floor;
    for (scope, noise) in logits {
        capture.scopes.entry(scope).or_default().logits_noise = Some(noise);
    }
    Ok(())
}

struct Meter<'a> {
    capture: &'a Capture,
    layout: KeyLayout<'a>,
    floor: BTreeMap<Site, f64>,
    logits: BTreeMap<Scope, Vec<f32>>,
}

impl Instrument for Meter<'_> {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        if self.capture.wants(site) {
            let rows = self.layout.rows_first(site, &tensor)?.to_dtype(DType::F64)?;
            let exact = rows.flatten_from(1)?.to_vec2::<f64>()?;
            for scope in OF_ONE_SEQUENCE {
                self.compare(scope, site, &exact);
            }
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

/// (‖rounded − exact‖ / ‖exact‖, max |rounded − exact|); the former is 0 for a zero row.
fn distance(exact: &[f64], rounded: &[f32]) -> (f64, f64) {
    let (mut error, mut energy, mut largest) = (0.0, 0.0, 0.0_f64);
    for (exact, rounded) in exact.iter().zip(rounded) {
        let difference = f64::from(*rounded) - exact;
        error += difference * difference;
        energy += exact * exact;
        largest = largest.max(difference.abs());
    }
    (if energy > 0.0 { (error / energy).sqrt() } else { 0.0 }, largest)
}
