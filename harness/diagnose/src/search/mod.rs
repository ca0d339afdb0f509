//! Which fault explains an arm: predictions of the reference (or of the recipe's emulator) with each fault of the bank,
//! scored against what the arm computed.
//!
//! Coarse to fine: every fault in every block on a few rows, then in single blocks, then better values for the most
//! promising, then the best few on all rows.

mod candidates;
mod decide;
mod ids;
mod predict;
mod score;

use std::{cell::Cell, collections::BTreeMap};

use fidelity_emulator::Emulator;
use fidelity_references::{Checkpoint, RopeScaling, logits_from};
use fidelity_trace::{Fault, FaultValue, Intervention, Network, Places, Scope, Taps, Trace, TraceError, Values};
use fidelity_verdict::{BadSite, Diagnosis};

use candidates::Magnitudes;
use predict::{ArmPrompt, Predictor, Selection};
use score::{Rows, Score};

/// Shares of the cost, in passes over all rows: faults in every block, in single blocks.
const PASSES_EVERYWHERE: f64 = 4.0;
const PASSES_IN_BLOCKS: f64 = 5.0;
/// Fewer rows than this tell nothing.
const LEAST_ROWS: usize = 10;
/// How many are scored on all rows.
const FINALISTS: usize = 4;
/// How many of those that take a number get a better one.
const TUNED: usize = 4;

/// What is to be explained, and by whom.
pub struct Question<'a> {
    /// The checkpoint in float32.
    pub float32: &'a Emulator,
    /// The checkpoint under the arm's recipe, and the recipe's name.
    pub emulated: Option<(&'a Emulator, &'a str)>,
    /// The checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// What the arm computed.
    pub device: &'a Trace,
    /// The scopes to look at; all that the trace holds when empty.
    pub scopes: &'a [Scope],
    /// The first bad site, as comparing the arm with the reference found it.
    pub first_bad_site: Option<BadSite>,
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
    #[error("nothing to diagnose: the trace holds no logits of base, prefill or tbt")]
    NoLogits,
    /// An encoder has no logits.
    #[error("nothing to diagnose: the checkpoint is an encoder, and predictions are scored on logits")]
    Encoder,
}

/// A candidate and how well it explains the rows it was tried on.
#[derive(Clone, Debug)]
struct Tried {
    fault: Intervention,
    score: Score,
}

/// Looks for the fault that explains the arm. `on_progress` is told what is being done.
///
/// # Errors
/// The trace cannot be read or holds nothing to explain, or memory runs out.
pub fn diagnose(question: &Question<'_>, on_progress: &dyn Fn(&str)) -> Result<Diagnosis, DiagnoseError> {
    let a = question.checkpoint.architecture();
    if a.network() == Network::Encoder {
        return Err(DiagnoseError::Encoder);
    }
    let prompts = predict::read(question.device, question.scopes, a.vocabulary)?;
    if prompts.iter().all(|prompt| prompt.logits.values().all(BTreeMap::is_empty)) {
        return Err(DiagnoseError::NoLogits);
    }
    let steps_always = a.rope.as_ref().is_some_and(|rope| matches!(rope.scaling, RopeScaling::Dynamic { .. }));
    let predictor = |emulator| Predictor { emulator, prompts: &prompts, steps_always, rows: Cell::new(0) };
    let search = Search {
        question,
        prompts: &prompts,
        all: Selection {
            parts: (0..prompts.len()).map(|at| (at, prompts[at].token_ids.len(), prompts[at].steps.len())).collect(),
        },
        float32: predictor(question.float32),
        emulated: question.emulated.map(|(emulator, recipe)| (predictor(emulator), recipe)),
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

/// What the search found, to be decided on.
struct Found<'a> {
    predictor: &'a Predictor<'a>,
    /// The recipe, where its emulator predicts.
    recipe: Option<&'a str>,
    clean: Score,
    /// How far the recipe alone is from the reference.
    recipe_costs: Option<f64>,
    /// Scored on all rows, best first.
    finalists: Vec<Tried>,
    passes: f64,
}

impl<'a> Search<'a> {
    fn run(&'a self, on_progress: &dyn Fn(&str)) -> Result<Diagnosis, DiagnoseError> {
        if let Some(diagnosis) = ids::diagnose(self.question, self.prompts)? {
            return Ok(diagnosis);
        }
        on_progress("comparing the arm with what nothing wrong would give");
        let (predictor, recipe, clean, recipe_costs) = self.clean()?;
        let mut tried = Vec::new();
        // Nothing is left to explain where the arm is as close as float32 to itself.
        if clean.residual() > 1e-10 {
            let coarse = self.coarse(PASSES_EVERYWHERE);
            tried = self.screen(predictor, &coarse, on_progress)?;
        }
        on_progress("scoring the best explanations on all rows");
        let mut finalists = Vec::new();
        for candidate in best_by_name(&tried, FINALISTS) {
            let score = predictor.score(&[candidate.fault], &self.all)?;
            finalists.push(Tried { fault: candidate.fault, score });
        }
        finalists.sort_by(|a, b| a.score.residual().total_cmp(&b.score.residual()));
        let rows = self.float32.rows.get() + self.emulated.as_ref().map_or(0, |(it, _)| it.rows.get());
        let passes = rows as f64 / self.all.rows().max(1) as f64;
        decide::decide(self, &Found { predictor, recipe, clean, recipe_costs, finalists, passes })
    }

    /// Who predicts: the emulator of the recipe, if it is nearer to the arm than the reference is.
    #[allow(clippy::type_complexity)]
    fn clean(&'a self) -> Result<(&'a Predictor<'a>, Option<&'a str>, Score, Option<f64>), DiagnoseError> {
        let reference = self.float32.predict(&[], &self.all)?;
        let mut clean = Score::default();
        for (prompt, rows) in &reference {
            clean.add(*prompt, &self.prompts[*prompt].logits, rows);
        }
        let Some((emulated, recipe)) = &self.emulated else { return Ok((&self.float32, None, clean, None)) };
        let predicted = emulated.predict(&[], &self.all)?;
        let costs = score::apart(&reference, &predicted);
        let mut with_recipe = Score::default();
        for (prompt, rows) in &predicted {
            with_recipe.add(*prompt, &self.prompts[*prompt].logits, rows);
        }
        Ok((emulated, Some(recipe), with_recipe, Some(costs)))
    }

    /// Few rows: those of one or two prompts, from the beginning, and their first steps.
    fn coarse(&self, passes: f64) -> Budget {
        Budget { rows: (passes * self.all.rows() as f64) as usize }
    }

    fn screen(
        &self,
        predictor: &Predictor<'_>,
        budget: &Budget,
        on_progress: &dyn Fn(&str),
    ) -> Result<Vec<Tried>, DiagnoseError> {
        let a = self.question.checkpoint.architecture();
        let magnitudes = self.magnitudes()?;
        let candidates = candidates::everywhere(a, &magnitudes);
        let few = self.selection(budget.rows / candidates.len().max(1));
        on_progress(&format!("trying {} faults in every block", candidates.len()));
        let mut tried = self.of_shards(predictor, &few)?;
        for fault in candidates {
            tried.push(Tried { fault, score: predictor.score(&[fault], &few)? });
        }
        self.tune(predictor, &mut tried, &few)?;
        let tuned: Vec<Intervention> = best_by_name(&tried, 12).iter().map(|it| it.fault).collect();
        let blocks: Vec<u32> = if a.blocks > 1 { (0..a.blocks as u32).collect() } else { Vec::new() };
        let candidates: Vec<Intervention> =
            blocks.into_iter().flat_map(|block| candidates::in_block(a, block, &magnitudes, &tuned)).collect();
        on_progress(&format!("trying {} faults in single blocks", candidates.len()));
        let rows = (PASSES_IN_BLOCKS * self.all.rows() as f64) as usize / candidates.len().max(1);
        let few_in_blocks = self.selection(rows.min(few.rows()));
        let mut in_blocks = Vec::new();
        for fault in candidates {
            in_blocks.push(Tried { fault, score: predictor.score(&[fault], &few_in_blocks)? });
        }
        if few_in_blocks.rows() != few.rows() {
            // The two kinds are compared on the same rows.
            let best = best_by_name(&in_blocks, 8);
            in_blocks = Vec::new();
            for candidate in best {
                in_blocks.push(Tried { score: predictor.score(&[candidate.fault], &few)?, ..candidate });
            }
        }
        self.tune(predictor, &mut in_blocks, &few)?;
        tried.extend(in_blocks);
        Ok(tried)
    }

    /// Better numbers for the best of those that take one.
    fn tune(&self, predictor: &Predictor<'_>, tried: &mut Vec<Tried>, few: &Selection) -> Result<(), DiagnoseError> {
        let takes_number = |it: &Tried| matches!(it.fault.value, Some(FaultValue::Number(_) | FaultValue::Clip { .. }));
        let numeric: Vec<Tried> = tried.iter().filter(|it| takes_number(it)).cloned().collect();
        for mut best in best_by_name(&numeric, TUNED) {
            if !matches!(best.fault.fault.values(), Values::Number { whole: false, .. } | Values::Clip) {
                continue;
            }
            for ratio in [1.5, 1.2, 1.09, 1.04, 1.02, 1.01] {
                for fault in candidates::nearby(&best.fault, ratio) {
                    let score = predictor.score(&[fault], few)?;
                    if score.residual() < best.score.residual() {
                        best = Tried { fault, score };
                    }
                }
            }
            tried.push(best);
        }
        Ok(())
    }

    /// Faults of how shards of logits are joined: nothing but the clean logits is needed.
    fn of_shards(&self, predictor: &Predictor<'_>, few: &Selection) -> Result<Vec<Tried>, DiagnoseError> {
        let vocabulary = self.question.checkpoint.architecture().vocabulary;
        let clean = predictor.predict(&[], few)?;
        let joined = |row: &Vec<f32>, from: &[Option<u32>]| -> Vec<f32> {
            from.iter().map(|id| id.and_then(|id| row.get(id as usize).copied()).unwrap_or(0.0)).collect()
        };
        let tried = candidates::of_shards().into_iter().map(|fault| {
            let from = logits_from(&fault, vocabulary);
            let mut score = Score::default();
            for (prompt, scopes) in &clean {
                let rows = scopes.iter().map(|(scope, rows)| {
                    (*scope, rows.iter().map(|(position, row)| (*position, joined(row, &from))).collect())
                });
                score.add(*prompt, &self.prompts[*prompt].logits, &rows.collect::<Rows>());
            }
            Tried { fault, score }
        });
        Ok(tried.collect())
    }

    fn magnitudes(&self) -> Result<Magnitudes, DiagnoseError> {
        let few = self.selection(4 * LEAST_ROWS);
        let captured = self.float32.captured(&[], &few, &Taps::All)?;
        let sites = captured.values().flat_map(BTreeMap::values).flatten();
        Ok(candidates::magnitudes(sites.flat_map(|(site, rows)| rows.values().map(|row| (*site, row.as_slice())))))
    }

    /// About so many rows: the beginnings of one prompt or two with a few steps, whole prompts where the arm has their last row
    /// alone.
    fn selection(&self, rows: usize) -> Selection {
        let rows = rows.max(LEAST_ROWS);
        let mut order: Vec<usize> = (0..self.prompts.len()).collect();
        let has_rows = |at: &usize| self.prompts[*at].logits.values().any(|rows| !rows.is_empty());
        order.retain(has_rows);
        order.sort_by_key(|at| self.prompts[*at].token_ids.len());
        let window = self.question.checkpoint.architecture().layers.iter().filter_map(|layer| layer.window).max();
        let mut parts = Vec::new();
        let mut left = rows;
        for at in order.into_iter().take(if rows >= 4 * LEAST_ROWS { 2 } else { 1 }) {
            let prompt = &self.prompts[at];
            let first = prompt.logits.iter().filter(|(scope, _)| **scope != Scope::Tbt);
            let first = first.filter_map(|(_, rows)| rows.keys().next()).min();
            let share = left / 2;
            let steps = prompt.steps.len().min((left / 3).max(2));
            let needed = first.map_or(usize::MAX, |first| *first as usize + 1);
            let beyond = window.map_or(0, |window| window as usize + 4);
            // Steps come after the whole prompt.
            let tokens = match steps {
                0 => share.max(needed).max(beyond).max(LEAST_ROWS).min(prompt.token_ids.len()),
                _ => prompt.token_ids.len(),
            };
            left = left.saturating_sub(tokens + steps);
            parts.push((at, tokens, steps));
        }
        Selection { parts }
    }
}

/// How many rows may be computed.
struct Budget {
    rows: usize,
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
