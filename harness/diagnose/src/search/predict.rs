//! What an arm would have computed with a fault.

use std::{cell::Cell, collections::BTreeMap};

use fidelity_emulator::{Emulator, EmulatorError};
use fidelity_references::{RopeScaling, logits_from};
use fidelity_trace::{
    BlockSite, Capture, Fault, Intervention, Request, Scope, Site, Status, Subject, SubjectError, Taps, Tensor, Trace,
};

use super::{
    DiagnoseError, Question,
    candidates::{Concerns, concerns, looks_ahead},
    score::{Rows, Score},
};

/// One prompt of the arm.
pub(crate) struct ArmPrompt {
    pub(crate) id: String,
    pub(crate) text: Option<String>,
    pub(crate) token_ids: Vec<u32>,
    /// What was fed after it, one token a step.
    pub(crate) steps: Vec<u32>,
    pub(crate) logits: Rows,
}

/// Which rows a prediction is made for: of each prompt of `prompts`, so many tokens and steps.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Index into the arm's prompts, tokens of the prompt, steps after it.
    pub(crate) parts: Vec<(usize, usize, usize)>,
}

impl Selection {
    pub(crate) fn all(prompts: &[ArmPrompt]) -> Self {
        let whole = |(at, prompt): (usize, &ArmPrompt)| (at, prompt.token_ids.len(), prompt.steps.len());
        Self { parts: prompts.iter().enumerate().map(whole).collect() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|(_, tokens, steps)| tokens + steps).sum()
    }
}

/// Reads of each prompt that was computed the logits of the scopes that are fed like the reference.
pub(crate) fn read(device: &Trace, scopes: &[Scope], vocabulary: usize) -> Result<Vec<ArmPrompt>, DiagnoseError> {
    let mut prompts = Vec::new();
    for (index, record) in device.manifest().prompts.iter().enumerate() {
        let known = record.token_ids.iter().all(|id| (*id as usize) < vocabulary);
        if record.status != Status::Ok || record.repeat > 0 || record.token_ids.is_empty() || !known {
            continue;
        }
        let stored = device.prompt(index)?;
        let mut logits = Rows::new();
        let mut steps = Vec::new();
        for (scope, captured) in stored.scopes {
            let wanted = scopes.is_empty() || scopes.contains(&scope);
            if !matches!(scope, Scope::Base | Scope::Prefill | Scope::Tbt) || !wanted {
                continue;
            }
            let prompt = record.token_ids.len();
            if scope == Scope::Tbt {
                let fed: BTreeMap<u32, u32> =
                    captured.positions.iter().copied().zip(captured.token_ids.iter().copied()).collect();
                // Steps after a gap depend on tokens that are not known.
                let consecutive = fed.into_iter().zip(prompt..).take_while(|((at, _), place)| *at as usize == *place);
                steps = consecutive.map(|((_, id), _)| id).take_while(|id| (*id as usize) < vocabulary).collect();
            }
            let Some(values) = captured.sites.get(&Site::Logits) else { continue };
            let asked = |row: usize, position: u32| match scope {
                Scope::Tbt => (position as usize) < prompt + steps.len(),
                _ => record.token_ids.get(position as usize) == captured.token_ids.get(row),
            };
            let rows = captured.positions.iter().enumerate().filter(|(row, position)| asked(*row, **position));
            logits.insert(scope, rows.map(|(row, position)| (*position, values.row(row).to_vec())).collect());
        }
        prompts.push(ArmPrompt {
            id: record.id.clone(),
            text: record.text.clone(),
            token_ids: record.token_ids.clone(),
            steps,
            logits,
        });
    }
    Ok(prompts)
}

/// Whether what a fault does depends on how tokens come in chunks, so that steps must be steps.
fn needs_steps(intervention: &Intervention) -> bool {
    let by_chunk = matches!(intervention.fault, Fault::RopeTableTiledTwice | Fault::BosMissing | Fault::BosDoubled);
    by_chunk || looks_ahead(intervention) || concerns(intervention) == Concerns::Steps
}

/// Whether nothing but right logits is needed to predict it.
pub(crate) const fn is_of_shards(intervention: &Intervention) -> bool {
    matches!(intervention.fault, Fault::HeadMissing | Fault::ShardsSwapped | Fault::VocabPadded)
}

/// Predicts an arm.
pub(crate) struct Predictor<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) prompts: &'a [ArmPrompt],
    /// Angles depend on how far a chunk reaches.
    steps_always: bool,
    /// Rows computed so far.
    pub(crate) rows: Cell<usize>,
}

impl<'a> Predictor<'a> {
    pub(crate) fn new(question: &Question<'_>, emulator: &'a Emulator, prompts: &'a [ArmPrompt]) -> Self {
        let rope = question.checkpoint.architecture().rope.as_ref();
        let steps_always = rope.is_some_and(|rope| matches!(rope.scaling, RopeScaling::Dynamic { .. }));
        Self { emulator, prompts, steps_always, rows: Cell::new(0) }
    }

    /// The logits of the selected rows with these faults, by prompt.
    pub(crate) fn predict(
        &self,
        faults: &[Intervention],
        selection: &Selection,
    ) -> Result<BTreeMap<usize, Rows>, DiagnoseError> {
        let captured = self.captured(faults, selection, &Taps::List(Vec::new()))?;
        let rows = |mut scopes: BTreeMap<Scope, Sites>| {
            let logits = |sites: &mut Sites| sites.remove(&Site::Logits).unwrap_or_default();
            scopes.iter_mut().map(|(scope, sites)| (*scope, logits(sites))).collect::<Rows>()
        };
        Ok(captured.into_iter().map(|(prompt, scopes)| (prompt, rows(scopes))).collect())
    }

    /// How well this fault explains the selected rows.
    pub(crate) fn score(&self, fault: Intervention, selection: &Selection) -> Result<Score, DiagnoseError> {
        if is_of_shards(&fault) {
            return Ok(self.score_joined(&fault, &self.predict(&[], selection)?));
        }
        let mut score = Score::default();
        for (prompt, rows) in self.predict(&[fault], selection)? {
            score.add(prompt, &self.prompts[prompt].logits, &rows);
        }
        Ok(score)
    }

    /// How well right logits whose shards are joined as this fault does explain an arm. What padding holds is not known, so
    /// that it is not compared.
    pub(crate) fn score_joined(&self, fault: &Intervention, right: &BTreeMap<usize, Rows>) -> Score {
        let missing = fault.fault == Fault::HeadMissing;
        let mut score = Score::default();
        for (prompt, scopes) in right {
            let (mut of_arm, mut joined) = (Rows::new(), Rows::new());
            for (scope, rows) in scopes {
                let arm = self.prompts[*prompt].logits.get(scope);
                for (position, row) in rows {
                    let Some(its) = arm.and_then(|rows| rows.get(position)) else { continue };
                    let mut from = logits_from(fault, row.len());
                    if its.len() == row.len() {
                        from.truncate(row.len());
                    }
                    if from.len() != its.len() {
                        continue;
                    }
                    let right = |id: &Option<u32>| id.and_then(|id| row.get(id as usize).copied());
                    let pairs = its.iter().zip(&from).filter(|(_, id)| missing || id.is_some());
                    let (own, other) = pairs.map(|(value, id)| (*value, right(id).unwrap_or(0.0))).unzip();
                    of_arm.entry(*scope).or_default().insert(*position, own);
                    joined.entry(*scope).or_default().insert(*position, other);
                }
            }
            score.add(*prompt, &of_arm, &joined);
        }
        score
    }

    /// Every kept site of the selected rows, by prompt.
    pub(crate) fn captured(
        &self,
        faults: &[Intervention],
        selection: &Selection,
        taps: &Taps,
    ) -> Result<BTreeMap<usize, BTreeMap<Scope, Sites>>, DiagnoseError> {
        let emulator = self.emulator.with_faults(faults.to_vec())?;
        let stepwise = self.steps_always || faults.iter().any(needs_steps);
        self.rows.set(self.rows.get() + selection.rows());
        let mut found = BTreeMap::new();
        // Prompts of one length of steps go together.
        let mut by_steps: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (prompt, tokens, steps) in &selection.parts {
            by_steps.entry(*steps).or_default().push((*prompt, *tokens));
        }
        for (steps, parts) in by_steps {
            for parts in parts.chunks(emulator.together().max(1)) {
                let captures = self.run(&emulator, parts, steps, stepwise, taps)?;
                for ((prompt, tokens), capture) in parts.iter().zip(captures) {
                    found.insert(*prompt, by_scope(capture, *tokens));
                }
            }
        }
        Ok(found)
    }

    fn run(
        &self,
        emulator: &Emulator,
        parts: &[(usize, usize)],
        steps: usize,
        stepwise: bool,
        taps: &Taps,
    ) -> Result<Vec<Capture>, DiagnoseError> {
        let of = |prompt: usize| &self.prompts[prompt];
        // What is computed row by row from what came before is the same in one pass over prompt and steps.
        let fed = |(prompt, tokens): &(usize, usize)| match stepwise {
            true => of(*prompt).token_ids[..*tokens].to_vec(),
            false => [&of(*prompt).token_ids[..*tokens], &of(*prompt).steps[..steps]].concat(),
        };
        let token_ids: Vec<Vec<u32>> = parts.iter().map(fed).collect();
        // The last id of a continuation is not fed.
        let continued = |(prompt, _): &(usize, usize)| [&of(*prompt).steps[..steps], &[0]].concat();
        let continuations: Vec<Vec<u32>> = parts.iter().map(continued).collect();
        let (scopes, new_tokens): (&[Scope], usize) = match stepwise && steps > 0 {
            true => (&[Scope::Prefill, Scope::Tbt], steps + 1),
            false => (&[Scope::Prefill], 0),
        };
        let requests = token_ids.iter().zip(&continuations).map(|(token_ids, continuation)| Request {
            token_ids,
            scopes,
            continuation: Some(continuation),
            new_tokens,
        });
        let mut captures: Vec<Capture> = parts.iter().map(|_| Capture::new(taps.clone())).collect();
        emulator.run(&requests.collect::<Vec<_>>(), &mut captures)?;
        Ok(captures)
    }
}

/// Logits of a capture by scope and position.
pub(crate) fn rows_of(capture: Capture, tokens: usize) -> Rows {
    let logits = |(scope, mut sites): (Scope, Sites)| (scope, sites.remove(&Site::Logits).unwrap_or_default());
    by_scope(capture, tokens).into_iter().filter(|(scope, _)| *scope != Scope::Base).map(logits).collect()
}

/// Rows of a site by position.
pub(crate) type Sites = BTreeMap<Site, BTreeMap<u32, Vec<f32>>>;

/// Rows from `tokens` on are those of steps.
fn by_scope(capture: Capture, tokens: usize) -> BTreeMap<Scope, Sites> {
    let mut scopes: BTreeMap<Scope, Sites> = BTreeMap::new();
    for captured in capture.scopes.into_values() {
        for (site, tensor) in captured.sites {
            if matches!(site, Site::Block(_, BlockSite::Scores | BlockSite::Pattern) | Site::Pooled) {
                continue;
            }
            for (row, position) in captured.positions.iter().enumerate().take(tensor.rows()) {
                let scope = if (*position as usize) < tokens { Scope::Prefill } else { Scope::Tbt };
                let values = Tensor::row(&tensor, row).to_vec();
                scopes.entry(scope).or_default().entry(site).or_default().insert(*position, values);
            }
        }
    }
    if let Some(prefill) = scopes.get(&Scope::Prefill).cloned() {
        scopes.insert(Scope::Base, prefill);
    }
    scopes
}

impl From<EmulatorError> for DiagnoseError {
    fn from(error: EmulatorError) -> Self {
        Self::Compute(error.to_string())
    }
}

impl From<SubjectError> for DiagnoseError {
    fn from(error: SubjectError) -> Self {
        Self::Compute(error.to_string())
    }
}
