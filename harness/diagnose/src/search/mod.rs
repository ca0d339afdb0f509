//! Which fault explains an arm: predictions of the reference (or of the recipe's emulator) with each fault of the bank,
//! scored against what the arm computed.
//!
//! Coarse to fine: every fault in every block on a few rows, then in single blocks, then better values for the most
//! promising, then the best few on all rows.

mod candidates;
mod decide;
mod explain;
mod ids;
mod predict;
mod probes;
mod score;
mod shards;

use std::collections::BTreeMap;

use fidelity_emulator::Emulator;
use fidelity_references::Checkpoint;
use fidelity_trace::{BosConvention, Fault, Intervention, Network, Places, Scope, Taps, Trace, TraceError};
use fidelity_verdict::{BadSite, Diagnosis};

use candidates::{Concerns, Facts};
pub(crate) use predict::{ArmPrompt, rows_of};
use predict::{Predictor, Selection};
pub use probes::Rerun;
use score::Score;
pub(crate) use score::{Rows, apart};

/// Shares of the cost, in passes over all rows: faults in every block, in single blocks.
const PASSES_EVERYWHERE: f64 = 4.0;
const PASSES_IN_BLOCKS: f64 = 5.0;
/// Fewer rows than this tell nothing.
const LEAST_ROWS: usize = 10;
/// How many are scored on all rows.
const FINALISTS: usize = 3;
/// How many of those that take a number get a better one, if they are no worse than the best by this factor.
const TUNED: usize = 3;
const WORTH_TUNING: f64 = 30.0;
/// Steps in one direction at one ratio.
const MOVES: usize = 4;
/// How many of those in single blocks are scored again on more rows.
const IN_BLOCKS_AGAIN: usize = 6;
/// More rows than this tell no more.
const MOST_ROWS: usize = 96;
/// So many faults in single blocks are tried in any case.
const FEW_CANDIDATES: usize = 800;
/// Steps that are looked at, at least.
const STEPS: usize = 2;
/// NMSE below which nothing is wrong.
const NOTHING: f64 = 1e-10;

/// What is to be explained, and by whom.
pub struct Question<'a> {
    /// The checkpoint in float32.
    pub float32: &'a Emulator,
    /// What is known of the arm's arithmetic.
    pub numerics: Numerics<'a>,
    /// The checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// The ids that prompts should have, by their id, where that is known apart from their texts.
    pub right_ids: &'a BTreeMap<String, Vec<u32>>,
    /// How BOS is put before a text.
    pub bos: BosConvention,
    /// The first bad site, as comparing the arm with the reference found it.
    pub first_bad_site: Option<BadSite>,
}

/// What an arm computes in, as far as that is known: what is believed to be rounding depends on it.
#[derive(Clone, Copy)]
pub enum Numerics<'a> {
    /// Nothing is known: up to 8 bits may be meant.
    Unknown,
    /// Float32 throughout.
    Float32,
    /// A recipe: the checkpoint under it, and its name.
    Recipe(&'a Emulator, &'a str),
}

/// Why nothing can be said of a cause.
#[derive(Debug, thiserror::Error)]
pub enum DiagnoseError {
    /// The arm's trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A prediction cannot be computed.
    #[error("while predicting what a fault would do: {0}")]
    Compute(String),
    /// There is nothing to explain.
    #[error("nothing to diagnose: the trace holds no logits of base, prefill or tbt; record one of these scopes")]
    NoLogits,
    /// An encoder has no logits.
    #[error(
        "nothing to diagnose: the checkpoint is an encoder, and predictions are scored on logits; `fidelity run` names its first bad site"
    )]
    Encoder,
}

/// A candidate and how well it explains the rows it was tried on.
#[derive(Clone, Debug)]
struct Tried {
    fault: Intervention,
    score: Score,
}

/// Looks for the fault that explains what an arm computed in these scopes, or in all that its trace holds where none are given.
/// While none does, an arm that can be run again is. `on_progress` is told what is being done.
///
/// # Errors
/// The trace cannot be read or holds nothing to explain, or memory runs out.
pub fn diagnose(
    question: &Question<'_>,
    device: &Trace,
    scopes: &[Scope],
    rerun: Option<&Rerun<'_>>,
    on_progress: &dyn Fn(&str),
) -> Result<Diagnosis, DiagnoseError> {
    let a = question.checkpoint.architecture();
    if a.network() == Network::Encoder {
        return Err(DiagnoseError::Encoder);
    }
    let prompts = predict::read(device, scopes, a.vocabulary)?;
    match rerun {
        Some(rerun) => probes::until_decided(question, prompts, rerun, on_progress),
        None => explain_rows(question, &prompts, on_progress),
    }
}

/// The same for rows that are in memory.
pub(crate) fn explain_rows(
    question: &Question<'_>,
    prompts: &[ArmPrompt],
    on_progress: &dyn Fn(&str),
) -> Result<Diagnosis, DiagnoseError> {
    if prompts.iter().all(|prompt| prompt.logits.values().all(BTreeMap::is_empty)) {
        return Err(DiagnoseError::NoLogits);
    }
    let predictor = |emulator| Predictor::new(question, emulator, prompts);
    let search = Search {
        question,
        prompts,
        all: Selection::all(prompts),
        float32: predictor(question.float32),
        emulated: match question.numerics {
            Numerics::Recipe(emulator, recipe) => Some((predictor(emulator), recipe)),
            Numerics::Unknown | Numerics::Float32 => None,
        },
    };
    search.run(on_progress)
}

struct Search<'a> {
    question: &'a Question<'a>,
    prompts: &'a [ArmPrompt],
    /// All rows.
    all: Selection,
    float32: Predictor<'a>,
    emulated: Option<(Predictor<'a>, &'a str)>,
}

/// How well nothing wrong explains the arm, and who predicts.
struct Clean<'a> {
    predictor: &'a Predictor<'a>,
    /// The recipe, where its emulator predicts.
    recipe: Option<&'a str>,
    score: Score,
    /// How far what the arm is known to compute in is from the reference.
    recipe_costs: Option<f64>,
}

/// What the search found, to be decided on.
struct Found<'a> {
    clean: Clean<'a>,
    /// Scored on all rows, best first.
    finalists: Vec<Tried>,
    /// The largest magnitude that the reference computes on a few rows.
    most: f64,
    passes: f64,
}

impl<'a> Search<'a> {
    fn run(&'a self, on_progress: &dyn Fn(&str)) -> Result<Diagnosis, DiagnoseError> {
        on_progress("comparing the arm with what nothing wrong would give");
        let clean = self.clean()?;
        let found = self.found(clean, on_progress)?;
        if let Some(difference) = ids::difference(self.question, self.prompts)? {
            return Ok(decide::by_ids(self, &found, difference));
        }
        decide::decide(self, &found)
    }

    fn found(&'a self, clean: Clean<'a>, on_progress: &dyn Fn(&str)) -> Result<Found<'a>, DiagnoseError> {
        let predictor = clean.predictor;
        let (mut finalists, mut most) = (Vec::new(), 0.0);
        // Nothing is left to explain where the arm is as close as float32 to itself.
        if clean.score.residual() > NOTHING {
            let facts = self.facts(&clean.score)?;
            most = facts.most();
            let tried = self.screen(predictor, &clean, &facts, on_progress)?;
            on_progress("scoring the best explanations on all rows");
            for candidate in best_by_name(&tried, FINALISTS) {
                let score = predictor.score(candidate.fault, &self.all)?;
                finalists.push(Tried { fault: candidate.fault, score });
            }
            // Few rows may not tell two readings of the best name apart.
            if let Some(other) = finalists.first().and_then(|best| second_of_name(&tried, &best.fault)) {
                let score = predictor.score(other, &self.all)?;
                if score.residual() < finalists[0].score.residual() {
                    finalists[0] = Tried { fault: other, score };
                }
            }
            finalists.sort_by(|a, b| a.score.residual().total_cmp(&b.score.residual()));
        }
        let rows = self.float32.rows.get() + self.emulated.as_ref().map_or(0, |(it, _)| it.rows.get());
        let passes = rows as f64 / self.all.rows().max(1) as f64;
        Ok(Found { clean, finalists, most, passes })
    }

    /// Who predicts: the emulator of the recipe, where there is one.
    fn clean(&'a self) -> Result<Clean<'a>, DiagnoseError> {
        let score = |predicted: &BTreeMap<usize, Rows>| {
            let mut score = Score::default();
            predicted.iter().for_each(|(prompt, rows)| score.add(*prompt, &self.prompts[*prompt].logits, rows));
            score
        };
        let reference = self.float32.predict(&[], &self.all)?;
        let Some((emulated, recipe)) = &self.emulated else {
            let recipe_costs = matches!(self.question.numerics, Numerics::Float32).then_some(0.0);
            return Ok(Clean { predictor: &self.float32, recipe: None, score: score(&reference), recipe_costs });
        };
        let predicted = emulated.predict(&[], &self.all)?;
        let recipe_costs = Some(apart(&reference, &predicted));
        Ok(Clean { predictor: emulated, recipe: Some(recipe), score: score(&predicted), recipe_costs })
    }

    fn screen(
        &self,
        predictor: &Predictor<'_>,
        clean: &Clean<'_>,
        facts: &Facts<'_>,
        on_progress: &dyn Fn(&str),
    ) -> Result<Vec<Tried>, DiagnoseError> {
        let kinds = kinds(&clean.score.by_scope(), decide::rounding(clean.recipe_costs));
        let mut all = self.of_shards(predictor, &self.few(usize::MAX, Concerns::All))?;
        for kind in kinds {
            let mut candidates = candidates::everywhere(facts);
            candidates.retain(|candidate| candidates::concerns(candidate) == kind);
            if candidates.is_empty() {
                continue;
            }
            on_progress(&format!("trying {} faults in every block", candidates.len()));
            let few = self.few(self.affordable(PASSES_EVERYWHERE, candidates.len()), kind);
            let mut tried = self.each(predictor, candidates, &few)?;
            let values: Vec<(Intervention, f64)> = tried.iter().map(|it| (it.fault, it.score.residual())).collect();
            let mut candidates = candidates::in_blocks(facts, &values);
            candidates.retain(|candidate| candidates::concerns(candidate) == kind);
            self.nearest_first(&mut candidates);
            let least = self.few(LEAST_ROWS, kind).rows();
            candidates.truncate(self.affordable(PASSES_IN_BLOCKS, least).max(FEW_CANDIDATES));
            on_progress(&format!("trying {} faults in single blocks", candidates.len()));
            let fewer = self.few(self.affordable(PASSES_IN_BLOCKS, candidates.len()).min(few.rows()), kind);
            let mut in_blocks = self.each(predictor, candidates, &fewer)?;
            if fewer.rows() != few.rows() {
                // The two kinds are compared on the same rows.
                let best = best_by_name(&in_blocks, IN_BLOCKS_AGAIN).into_iter().map(|it| it.fault).collect();
                in_blocks = self.each(predictor, best, &few)?;
            }
            tried.extend(in_blocks);
            self.tune(predictor, &mut tried, &few)?;
            all.extend(tried);
        }
        Ok(all)
    }

    /// Those in the first block that is known to be wrong first, then those around it; without taps in the order of what each
    /// fault was worth in every block, as they come.
    fn nearest_first(&self, candidates: &mut [Intervention]) {
        let Some(bad) = self.question.first_bad_site.and_then(|bad| bad.site.block()) else { return };
        candidates.sort_by_key(|candidate| candidate.block.map_or(0, |block| block.abs_diff(bad)));
    }

    fn each(
        &self,
        predictor: &Predictor<'_>,
        faults: Vec<Intervention>,
        few: &Selection,
    ) -> Result<Vec<Tried>, DiagnoseError> {
        // Where a row depends on later tokens of its chunk, the beginning of a prompt is another chunk.
        let whole = Selection {
            parts: few.parts.iter().map(|(at, _, steps)| (*at, self.prompts[*at].token_ids.len(), *steps)).collect(),
        };
        let rows = |fault: &Intervention| if candidates::looks_ahead(fault) { &whole } else { few };
        faults.into_iter().map(|fault| Ok(Tried { score: predictor.score(fault, rows(&fault))?, fault })).collect()
    }

    /// How many rows of each of so many candidates so many passes pay for.
    fn affordable(&self, passes: f64, candidates: usize) -> usize {
        (passes * self.all.rows() as f64) as usize / candidates.max(1)
    }

    /// Better numbers for the best of those that take one.
    fn tune(&self, predictor: &Predictor<'_>, tried: &mut Vec<Tried>, few: &Selection) -> Result<(), DiagnoseError> {
        let numeric: Vec<Tried> =
            tried.iter().filter(|it| !candidates::nearby(&it.fault, 1.5).is_empty()).cloned().collect();
        let worth = |it: &Tried, least: f64| it.score.residual() < WORTH_TUNING * least;
        let least = tried.iter().map(|it| it.score.residual()).fold(f64::INFINITY, f64::min);
        for mut best in best_by_name(&numeric, TUNED).into_iter().filter(|it| worth(it, least)) {
            for ratio in [1.5, 1.15, 1.05, 1.02, 1.007] {
                for _ in 0..MOVES {
                    let mut moved = false;
                    for fault in candidates::nearby(&best.fault, ratio) {
                        let score = predictor.score(fault, few)?;
                        if score.residual() < best.score.residual() {
                            best = Tried { fault, score };
                            moved = true;
                            break;
                        }
                    }
                    if !moved {
                        break;
                    }
                }
            }
            tried.push(best);
        }
        Ok(())
    }

    /// Faults of how shards of logits are joined.
    fn of_shards(&self, predictor: &Predictor<'_>, few: &Selection) -> Result<Vec<Tried>, DiagnoseError> {
        let vocabulary = self.question.checkpoint.architecture().vocabulary;
        let right = predictor.predict(&[], few)?;
        let arm = |prompt: &usize| self.prompts[*prompt].logits.values().flat_map(BTreeMap::values).next();
        let Some(width) = right.keys().find_map(|prompt| arm(prompt).map(Vec::len)) else { return Ok(Vec::new()) };
        let order = |of: usize| shards::order(self.prompts, &right, of);
        let tried = candidates::of_shards(vocabulary, width, &order).into_iter().map(|fault| {
            let score = predictor.score_joined(&fault, &right);
            Tried { fault, score }
        });
        Ok(tried.collect())
    }

    fn facts(&self, clean: &Score) -> Result<Facts<'a>, DiagnoseError> {
        let few = self.few(LEAST_ROWS, Concerns::All);
        let captured = self.float32.captured(&[], &few, &Taps::All)?;
        let sites = captured.values().flat_map(BTreeMap::values).flatten();
        let rows = sites.flat_map(|(site, rows)| rows.values().map(|row| (*site, row.as_slice())));
        Ok(Facts {
            architecture: self.question.checkpoint.architecture(),
            magnitudes: candidates::magnitudes(rows),
            not_finite: clean.not_finite().0 > 0,
            longest: self.all.parts.iter().map(|(_, tokens, steps)| tokens + steps).max().unwrap_or(0),
        })
    }

    /// About so many rows: the beginnings of one prompt or two; where steps are concerned whole prompts with a few of them, and
    /// whole prompts too where the arm has their last row alone.
    fn few(&self, rows: usize, concerns: Concerns) -> Selection {
        let rows = rows.clamp(LEAST_ROWS, MOST_ROWS);
        let held = |at: usize, of_steps: bool| {
            let scopes = self.prompts[at].logits.iter().filter(move |(scope, _)| (**scope == Scope::Tbt) == of_steps);
            scopes.flat_map(|(_, rows)| rows.keys()).min().map(|first| *first as usize)
        };
        let mut order: Vec<usize> = (0..self.prompts.len()).collect();
        let wanted = |at: &usize| held(*at, concerns == Concerns::Steps).is_some();
        if order.iter().any(wanted) {
            order.retain(wanted);
        }
        order.sort_by_key(|at| self.prompts[*at].token_ids.len());
        let window = self.question.checkpoint.architecture().layers.iter().filter_map(|layer| layer.window).max();
        let (mut parts, mut left) = (Vec::new(), rows);
        for at in order.into_iter().take(if rows >= 3 * LEAST_ROWS { 2 } else { 1 }) {
            let prompt = &self.prompts[at];
            let whole = prompt.token_ids.len();
            let first = held(at, false);
            let (tokens, steps) = match (concerns, first) {
                (Concerns::All, Some(first)) => {
                    let beyond = window.map_or(0, |window| window as usize + 3);
                    ((left / 2).max(first + 1).max(beyond).max(LEAST_ROWS).min(whole), 0)
                }
                _ => (whole, prompt.steps.len().min(left.saturating_sub(whole).clamp(STEPS, 4 * STEPS))),
            };
            left = left.saturating_sub(tokens + steps);
            parts.push((at, tokens, steps));
        }
        Selection { parts }
    }
}

/// Which kinds of fault can explain an arm whose rows of these scopes are so far off: one that concerns steps alone leaves
/// prompts as they should be, up to `rounding`; any other does not.
fn kinds(scopes: &BTreeMap<Scope, f64>, rounding: f64) -> Vec<Concerns> {
    let prompts = [Scope::Base, Scope::Prefill].iter().filter_map(|scope| scopes.get(scope)).copied();
    let (prompts, steps) = (
        prompts.fold(None, |most: Option<f64>, it| Some(most.map_or(it, |most| most.max(it)))),
        scopes.get(&Scope::Tbt),
    );
    match (prompts.as_ref(), steps) {
        (Some(_), None) => vec![Concerns::All],
        (Some(prompts), Some(steps)) if prompts * 3.0 < *steps && *prompts <= rounding => vec![Concerns::Steps],
        (Some(prompts), Some(steps)) if prompts * 2.0 > *steps => vec![Concerns::All],
        _ => vec![Concerns::All, Concerns::Steps],
    }
}

/// The next best of the same name.
fn second_of_name(tried: &[Tried], best: &Intervention) -> Option<Intervention> {
    let others = tried.iter().filter(|it| it.fault.fault == best.fault && it.fault != *best);
    others.min_by(|a, b| a.score.residual().total_cmp(&b.score.residual())).map(|it| it.fault)
}

/// The best of each name, best first.
fn best_by_name(tried: &[Tried], most: usize) -> Vec<Tried> {
    let mut best: BTreeMap<Fault, &Tried> = BTreeMap::new();
    for candidate in tried {
        let better = |other: &&Tried| simpler(candidate, other);
        if best.get(&candidate.fault.fault).is_none_or(better) {
            best.insert(candidate.fault.fault, candidate);
        }
    }
    let mut best: Vec<Tried> = best.into_values().cloned().collect();
    best.sort_by(|a, b| a.score.residual().total_cmp(&b.score.residual()));
    best.truncate(most);
    best
}

/// Whether the first explains clearly better, or as well with less said: no block before one, no value before one.
fn simpler(one: &Tried, other: &Tried) -> bool {
    let said =
        |it: &Tried| (it.fault.block.is_some() && it.fault.fault.places() == Places::Blocks, it.fault.value.is_some());
    let (a, b) = (one.score.residual(), other.score.residual());
    if said(one) < said(other) {
        a <= b * 1.02 + 1e-12
    } else {
        a < b * 0.98 - 1e-12 || said(one) == said(other) && a < b
    }
}
