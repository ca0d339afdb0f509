//! Running the scopes of a few prompts in lockstep. The reference and the emulator feed tokens the same way.
//!
//! Steps of several prompts share one pass over the weights, which is what a step waits for. Each prompt has its own cache,
//! and attention sees one prompt at a time.

use candle_core::{Result, Tensor};
use fidelity_trace::{Capture, Network, Request, Rows, Scope, Site, SubjectError};

use crate::{
    Cache, Chunk, Decoder, Feed, Instrument, Part, TapCollector, Visibility, Wiring,
    error::without_backtrace,
    refed::Refed,
    taps::{KeyLayout, TappedChunk},
};

/// Prompts computed in lockstep: enough that weights are read seldom, few enough that captures fit in memory.
pub const TOGETHER: usize = 16;

/// Runs the requested scopes of every request into the capture beside it. `numerics` sees every site before the taps do.
/// All requests ask for the same scopes and as many new tokens.
///
/// # Errors
/// The computation fails: out of memory, or a fault of ours.
pub fn run_scopes(
    decoder: &Decoder,
    wiring: &Wiring,
    numerics: &mut dyn Instrument,
    requests: &[Request<'_>],
    captures: &mut [Capture],
) -> std::result::Result<(), SubjectError> {
    let Some(refed) = Refed::by(wiring, decoder.architecture()) else {
        return run_as_asked(decoder, wiring, numerics, requests, captures);
    };
    let fed: Vec<Vec<u32>> = requests.iter().map(|request| refed.token_ids(request)).collect();
    let changed = requests.iter().zip(&fed).map(|(request, token_ids)| Request { token_ids, ..*request });
    let changed: Vec<Request<'_>> = changed.collect();
    run_as_asked(decoder, wiring, numerics, &changed, captures)?;
    requests.iter().zip(captures).for_each(|(request, capture)| refed.relabel(request, capture));
    Ok(())
}

fn run_as_asked(
    decoder: &Decoder,
    wiring: &Wiring,
    numerics: &mut dyn Instrument,
    requests: &[Request<'_>],
    captures: &mut [Capture],
) -> std::result::Result<(), SubjectError> {
    let Some(first) = requests.first() else { return Ok(()) };
    let wants = |scope| first.scopes.contains(&scope);
    let at =
        |scope| move |error: candle_core::Error| SubjectError { scope, message: without_backtrace(error).to_string() };
    let lanes = requests.iter().zip(captures).map(|(request, capture)| Lane::new(decoder, request, capture));
    let lanes = lanes.collect::<Result<Vec<_>>>().map_err(at(Scope::Prefill))?;
    let mut run = Run { decoder, wiring, numerics, lanes };

    let prompt_scope = if wants(Scope::Prefill) { Scope::Prefill } else { Scope::Base };
    let tapped = wants(Scope::Prefill) || wants(Scope::Base);
    run.prefill(tapped.then_some(prompt_scope)).map_err(at(prompt_scope))?;
    if wants(Scope::Base) && wants(Scope::Prefill) {
        // From an empty cache, one chunk through the cache is the same arithmetic as no cache: a test holds them equal bit for bit.
        run.lanes.iter_mut().for_each(|lane| lane.capture.alias(Scope::Prefill, Scope::Base));
    }
    if first.new_tokens == 0 || run.is_encoder() {
        return Ok(());
    }
    if wants(Scope::Tbt) || wants(Scope::TbtFree) {
        run.forced(wants(Scope::Tbt)).map_err(at(Scope::Tbt))?;
        run.free(wants(Scope::Tbt), wants(Scope::TbtFree)).map_err(at(Scope::TbtFree))?;
    }
    if wants(Scope::TbtSelf) {
        run.self_only().map_err(at(Scope::TbtSelf))?;
    }
    Ok(())
}

/// One prompt on its way.
struct Lane<'a> {
    request: &'a Request<'a>,
    capture: &'a mut Capture,
    cache: Cache,
    /// The ids the arm itself chooses, while what it was fed is what it chose.
    own: Vec<u32>,
}

impl<'a> Lane<'a> {
    fn new(decoder: &Decoder, request: &'a Request<'a>, capture: &'a mut Capture) -> Result<Self> {
        let cache = Cache::new(decoder, request.token_ids.len() + request.new_tokens)?;
        Ok(Self { request, capture, cache, own: Vec::new() })
    }

    /// The ids fed in `tbt`, if they are given. The last generated id is never fed, so it costs no step.
    fn given(&self) -> Option<&'a [u32]> {
        self.request.continuation.map(|ids| &ids[..ids.len().saturating_sub(1)])
    }

    /// The ids fed in `tbt`.
    fn fed(&self) -> &[u32] {
        self.given().unwrap_or(&self.own[..self.own.len().saturating_sub(1)])
    }

    fn width(&self) -> usize {
        self.request.token_ids.len() + self.request.new_tokens
    }
}

/// A chunk of one lane about to be computed.
struct Turn {
    lane: usize,
    token_ids: Vec<u32>,
    positions: Vec<u32>,
}

struct Run<'a, 'n> {
    decoder: &'a Decoder,
    wiring: &'a Wiring,
    numerics: &'n mut dyn Instrument,
    lanes: Vec<Lane<'a>>,
}

/// One instrument after another.
struct Chain<'a, 'b> {
    first: &'a mut dyn Instrument,
    then: Option<TapCollector<'b>>,
}

impl Instrument for Chain<'_, '_> {
    fn feeding(&mut self, chunks: &[Chunk<'_>]) {
        self.first.feeding(chunks);
    }

    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let tensor = self.first.at(site, part, tensor)?;
        if let Some(taps) = self.then.as_mut().filter(|taps| taps.wants(site)) {
            taps.at(site, part, self.first.tapped(site, &tensor)?)?;
        }
        Ok(tensor)
    }
}

impl Run<'_, '_> {
    /// Feeds every prompt; each lane then knows the id it continues with.
    fn prefill(&mut self, scope: Option<Scope>) -> Result<()> {
        let turns = self.lanes.iter().enumerate().map(|(lane, state)| {
            let token_ids = state.request.token_ids.to_vec();
            Turn { lane, positions: (0..token_ids.len() as u32).collect(), token_ids }
        });
        let turns: Vec<_> = turns.collect();
        let next = self.feed(&turns, Visibility::Causal, !self.is_encoder(), scope)?;
        self.lanes.iter_mut().zip(next).for_each(|(lane, id)| lane.own.push(id));
        Ok(())
    }

    /// Feeds the given ids step by step, and rewinds each cache to where the arm would have chosen otherwise.
    fn forced(&mut self, wanted: bool) -> Result<()> {
        let steps = self.lanes.iter().filter_map(Lane::given).map(<[u32]>::len).max().unwrap_or(0);
        for step in 0..if wanted { steps } else { 0 } {
            let given = |lane: &Lane<'_>| lane.given().and_then(|ids| ids.get(step)).copied();
            let turns = self.steps(given);
            let next = self.feed(&turns, Visibility::Causal, true, Some(Scope::Tbt))?;
            for (turn, next) in turns.iter().zip(next) {
                let own = &mut self.lanes[turn.lane].own;
                // While the arm chooses what it is forced to, forced steps are its free steps too.
                if own.len() == step + 1 && own.last() == turn.token_ids.last() {
                    own.push(next);
                }
            }
        }
        for lane in &mut self.lanes {
            lane.cache.truncate(lane.request.token_ids.len() + lane.own.len() - 1);
        }
        Ok(())
    }

    /// Lets each lane go on with the ids it chooses. Lanes without given ids fill `tbt` on the way.
    fn free(&mut self, wants_tbt: bool, wants_free: bool) -> Result<()> {
        let eos = &self.decoder.architecture().eos;
        let given = self.lanes.iter().any(|lane| lane.request.continuation.is_some());
        if given && !wants_free {
            return Ok(());
        }
        let scope = (wants_tbt && !given).then_some(Scope::Tbt);
        loop {
            let turns = self.steps(|lane| {
                let ended = lane.own.len() >= lane.request.new_tokens || lane.own.iter().any(|id| eos.contains(id));
                lane.own.last().copied().filter(|_| !ended)
            });
            if turns.is_empty() {
                break;
            }
            let next = self.feed(&turns, Visibility::Causal, true, scope)?;
            turns.iter().zip(next).for_each(|(turn, id)| self.lanes[turn.lane].own.push(id));
        }
        for lane in &mut self.lanes {
            let end = lane.own.iter().position(|id| eos.contains(id)).map_or(lane.own.len(), |last| last + 1);
            lane.own.truncate(end.min(lane.request.new_tokens));
            lane.capture.generated = Some(lane.own.clone());
        }
        Ok(())
    }

    /// Runs `tbt_self`. No row sees another, so all are one chunk, unless a fault makes rows of a chunk depend on each other.
    fn self_only(&mut self) -> Result<()> {
        let longest = self.lanes.iter().map(|lane| lane.fed().len()).max().unwrap_or(0);
        let at_once = if self.wiring.rows_are_independent() { longest.max(1) } else { 1 };
        for from in (0..longest).step_by(at_once) {
            let turns = self.lanes.iter().enumerate().filter_map(|(lane, state)| {
                let token_ids: Vec<u32> = state.fed().iter().skip(from).take(at_once).copied().collect();
                let start = (state.request.token_ids.len() + from) as u32;
                let positions = (start..).take(token_ids.len()).collect();
                (!token_ids.is_empty()).then_some(Turn { lane, token_ids, positions })
            });
            let turns: Vec<_> = turns.collect();
            self.feed(&turns, Visibility::SelfOnly, false, Some(Scope::TbtSelf))?;
        }
        Ok(())
    }

    /// One token for every lane that has one.
    fn steps(&self, token: impl Fn(&Lane<'_>) -> Option<u32>) -> Vec<Turn> {
        let turns = self.lanes.iter().enumerate().filter_map(|(lane, state)| {
            let position = state.cache.positions().len() as u32;
            Some(Turn { lane, token_ids: vec![token(state)?], positions: vec![position] })
        });
        turns.collect()
    }

    fn is_encoder(&self) -> bool {
        self.decoder.architecture().network() == Network::Encoder
    }

    /// Computes turns (of lanes in ascending order) together and returns the id each lane would choose next, none of an encoder.
    /// An encoder sees both ways, whatever `visibility` says.
    fn feed(&mut self, turns: &[Turn], visibility: Visibility, cached: bool, scope: Option<Scope>) -> Result<Vec<u32>> {
        let encoder = self.is_encoder();
        let architecture = self.decoder.architecture();
        let layers = &architecture.layers;
        let (mut feeds, mut chunks) = (Vec::with_capacity(turns.len()), Vec::new());
        let mut lanes = self.lanes.iter_mut().enumerate();
        for turn in turns {
            let (_, lane) = lanes.find(|(index, _)| *index == turn.lane).expect("lanes ascend");
            let visibility = if encoder { architecture.visibility(turn.token_ids.len()) } else { visibility };
            let chunk = Chunk { token_ids: &turn.token_ids, positions: &turn.positions, visibility };
            let width = lane.width();
            let Lane { capture, cache, .. } = lane;
            let first_key = *cache.positions().first().filter(|_| cached).unwrap_or(&turn.positions[0]);
            if let Some(scope) = scope {
                capture.rows(scope, Rows { positions: chunk.positions, token_ids: chunk.token_ids });
                chunks.push(TappedChunk { capture, layout: KeyLayout { chunk, layers, first_key, width } });
            }
            feeds.push(Feed { chunk, cache: cached.then_some(cache) });
        }
        let then = scope.map(|scope| TapCollector { scope, chunks });
        self.numerics.begin(scope);
        let mut chain = Chain { first: self.numerics, then };
        let last = self.decoder.forward_together(&mut feeds, self.wiring, &mut chain)?;
        Ok(last.iter().map(|row| greedy(row)).collect())
    }
}

/// The id with the highest logit of a row; the lowest id on equality. NaN is never the highest.
pub(crate) fn greedy(row: &[f32]) -> u32 {
    // A highest value per lane, then of the lanes: registers full of comparisons instead of one that waits for the last.
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (lanes, rest) = row.as_chunks::<64>();
    let mut highest = [f32::NEG_INFINITY; 64];
    for lane in lanes {
        highest.iter_mut().zip(lane).for_each(|(highest, value)| *highest = larger(*highest, *value));
    }
    let highest = highest.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, larger);
    row.iter().position(|value| *value >= highest).unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::greedy;

    #[test]
    fn the_lowest_of_the_highest_ids_is_chosen_and_never_one_without_a_number() {
        let mut row = vec![-1.0; 200];
        assert_eq!(greedy(&row), 0);
        (row[70], row[130], row[199]) = (2.0, 2.0, f32::NAN);
        assert_eq!(greedy(&row), 70);
        row[198] = 3.0;
        assert_eq!(greedy(&row), 198);
        assert_eq!(greedy(&[f32::NAN, f32::NEG_INFINITY]), 1);
        assert_eq!(greedy(&[f32::NAN; 70]), 0);
    }
}
