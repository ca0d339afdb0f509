//! Running the scopes of one prompt. The reference and the emulator feed tokens the same way.

use candle_core::{Result, Tensor};
use fidelity_trace::{Capture, Request, Rows, Scope, Site, SubjectError};

use crate::{Cache, Chunk, Decoder, Instrument, TapCollector, Visibility, Wiring, taps::KeyLayout};

/// The scopes a decoder on the host can run.
pub const OFFERED: [Scope; 5] = Scope::ALL;

/// Runs the requested scopes. `numerics` sees every site before the taps do.
///
/// # Errors
/// The computation fails: out of memory, or a fault of ours.
pub fn run_scopes(
    decoder: &Decoder,
    wiring: &Wiring,
    numerics: &mut dyn Instrument,
    request: &Request<'_>,
    capture: &mut Capture,
) -> std::result::Result<(), SubjectError> {
    let wants = |scope| request.scopes.contains(&scope);
    let at = |scope| move |error: candle_core::Error| SubjectError { scope, message: error.to_string() };
    let total = request.token_ids.len() + request.new_tokens;
    let mut run = Run { decoder, wiring, numerics, capture, width: total };

    let mut cache = Cache::new(decoder, total).map_err(at(Scope::Prefill))?;
    let prompt_scope = if wants(Scope::Prefill) { Scope::Prefill } else { Scope::Base };
    let tapped = wants(Scope::Prefill) || wants(Scope::Base);
    let first = run.prefill(request.token_ids, &mut cache, tapped.then_some(prompt_scope)).map_err(at(prompt_scope))?;
    if wants(Scope::Base) && wants(Scope::Prefill) {
        // From an empty cache, one chunk through the cache is the same arithmetic as no cache: a test holds them equal bit for bit.
        run.capture.alias(Scope::Prefill, Scope::Base);
    }
    if request.new_tokens == 0 {
        return Ok(());
    }
    let fed = run.decode(request, first, &mut cache).map_err(at(Scope::Tbt))?;
    if wants(Scope::TbtSelf) {
        run.self_only(request.token_ids.len() as u32, &fed).map_err(at(Scope::TbtSelf))?;
    }
    Ok(())
}

struct Run<'a> {
    decoder: &'a Decoder,
    wiring: &'a Wiring,
    numerics: &'a mut dyn Instrument,
    capture: &'a mut Capture,
    width: usize,
}

/// One instrument after another.
struct Chain<'a, 'b> {
    first: &'a mut dyn Instrument,
    then: Option<TapCollector<'b>>,
}

impl Instrument for Chain<'_, '_> {
    fn at(&mut self, site: Site, tensor: Tensor) -> Result<Tensor> {
        let tensor = self.first.at(site, tensor)?;
        match &mut self.then {
            Some(taps) => taps.at(site, tensor),
            None => Ok(tensor),
        }
    }
}

impl Run<'_> {
    /// Feeds the prompt and returns the id it continues with.
    fn prefill(&mut self, token_ids: &[u32], cache: &mut Cache, scope: Option<Scope>) -> Result<u32> {
        let positions: Vec<u32> = (0..token_ids.len() as u32).collect();
        let chunk = Chunk { token_ids, positions: &positions, visibility: Visibility::Causal };
        let logits = self.feed(chunk, Some(cache), scope)?;
        greedy(&logits)
    }

    /// Runs `tbt` and `tbt_free`; returns the ids fed in `tbt`.
    fn decode(&mut self, request: &Request<'_>, first: u32, cache: &mut Cache) -> Result<Vec<u32>> {
        let wants = |scope| request.scopes.contains(&scope);
        let start = cache.positions().len();
        // The last generated id is never fed, so it costs no step.
        let forced = request.continuation.map(|ids| &ids[..ids.len().saturating_sub(1)]);
        let stepping = wants(Scope::Tbt) || wants(Scope::TbtFree);
        let mut own = vec![first];
        if let Some(forced) = forced.filter(|_| wants(Scope::Tbt)) {
            for id in forced {
                let next = self.step(*id, cache, Some(Scope::Tbt))?;
                // While the arm chooses what it is forced to, forced steps are its free steps too.
                if own.last() == Some(id) {
                    own.push(next);
                }
            }
            cache.truncate(start + own.len() - 1);
        }
        let tapped = (forced.is_none() && wants(Scope::Tbt)).then_some(Scope::Tbt);
        let free = forced.is_none() || wants(Scope::TbtFree);
        while free && stepping && own.len() < request.new_tokens && !self.ends(&own) {
            let id = *own.last().expect("starts with the first id");
            own.push(self.step(id, cache, tapped)?);
        }
        let fed = forced.map_or_else(|| own[..own.len() - 1].to_vec(), <[u32]>::to_vec);
        if stepping && free {
            let length =
                own.iter().position(|id| self.decoder.architecture().eos.contains(id)).map_or(own.len(), |end| end + 1);
            own.truncate(length.min(request.new_tokens));
            self.capture.generated = Some(own);
        }
        Ok(fed)
    }

    fn ends(&self, ids: &[u32]) -> bool {
        ids.iter().any(|id| self.decoder.architecture().eos.contains(id))
    }

    fn step(&mut self, id: u32, cache: &mut Cache, scope: Option<Scope>) -> Result<u32> {
        let positions = [cache.positions().len() as u32];
        let chunk = Chunk { token_ids: &[id], positions: &positions, visibility: Visibility::Causal };
        greedy(&self.feed(chunk, Some(cache), scope)?)
    }

    /// Runs `tbt_self`. No row sees another, so all are one chunk, unless a fault makes rows of a chunk depend on each other.
    fn self_only(&mut self, start: u32, fed: &[u32]) -> Result<()> {
        let at_once = if self.wiring.rows_are_independent() { fed.len().max(1) } else { 1 };
        let positions: Vec<u32> = (start..).take(fed.len()).collect();
        for (token_ids, positions) in fed.chunks(at_once).zip(positions.chunks(at_once)) {
            self.feed(Chunk { token_ids, positions, visibility: Visibility::SelfOnly }, None, Some(Scope::TbtSelf))?;
        }
        Ok(())
    }

    fn feed(&mut self, chunk: Chunk<'_>, cache: Option<&mut Cache>, scope: Option<Scope>) -> Result<Tensor> {
        let first_key = cache.as_ref().and_then(|cache| cache.positions().first()).unwrap_or(&chunk.positions[0]);
        let layers = &self.decoder.architecture().layers;
        let layout = KeyLayout { chunk, layers, first_key: *first_key, width: self.width };
        if let Some(scope) = scope {
            self.capture.rows(scope, Rows { positions: chunk.positions, token_ids: chunk.token_ids });
        }
        let then = scope.map(|scope| TapCollector { capture: self.capture, scope, layout });
        let mut chain = Chain { first: self.numerics, then };
        self.decoder.forward(&chunk, cache, self.wiring, &mut chain)
    }
}

/// The id with the highest logit in the last row; the lowest id on equality. NaN is never the highest.
fn greedy(logits: &Tensor) -> Result<u32> {
    let last = logits.get(logits.dim(0)? - 1)?.to_dtype(candle_core::DType::F32)?.to_vec1::<f32>()?;
    let mut best = 0;
    for (id, value) in last.iter().enumerate() {
        if *value > last[best] || last[best].is_nan() {
            best = id;
        }
    }
    Ok(best as u32)
}
