//! Experiments that tell kinds of fault apart without a prediction of each: each compares the arm with itself, or one row with the
//! reference. Their rows are not scored: they repeat rows that are.

use std::collections::BTreeMap;

use fidelity_trace::Scope;
use fidelity_verdict::Diagnosis;

use super::{Session, fed};
use crate::search::{
    ArmPrompt, DiagnoseError, Rows,
    predict::Selection,
    score::{apart, closeness},
};

/// NMSE of rows that are the same down to float32.
const SAME: f64 = 1e-9;
/// So much nearer than the rest is right beside it.
const RIGHT: f64 = 0.1;

impl Session<'_> {
    /// What the experiments say, and whether the arm computes the same again; where it does not, no fault of a graph explains it.
    pub(super) fn check(
        &mut self,
        prompts: &[ArmPrompt],
        diagnosis: &Diagnosis,
        on_progress: &dyn Fn(&str),
    ) -> Result<(Vec<String>, bool), DiagnoseError> {
        let shortest = prompts.iter().filter(|prompt| prompt.token_ids.len() > 2).min_by_key(|it| it.token_ids.len());
        let Some(prompt) = shortest else { return Ok((Vec::new(), true)) };
        on_progress("running the arm again: the same prompt, one token, one token changed, half of it");
        let mut said = Vec::new();
        let again = self.repeat(prompt, &mut said)?;
        let repeats = again.as_ref().is_none_or(|again| moved(&prompt.logits, again, usize::MAX).0 == 0);
        if !repeats {
            return Ok((said, false));
        }
        self.one_token(prompt, diagnosis, &mut said)?;
        self.poke(prompt, &mut said)?;
        self.prefix(prompt, &mut said)?;
        self.alone(prompt, diagnosis, &mut said)?;
        Ok((said, true))
    }

    fn tell(&mut self, kind: &str, (tokens, steps): (usize, usize), found: String, said: &mut Vec<String>) {
        said.push(found.clone());
        self.note(kind, tokens, steps, found);
    }

    fn repeat(&mut self, prompt: &ArmPrompt, said: &mut Vec<String>) -> Result<Option<Rows>, DiagnoseError> {
        let Some(again) = self.run(&prompt.token_ids, &prompt.steps)? else { return Ok(None) };
        let (changed, rows) = moved(&prompt.logits, &again, usize::MAX);
        let found = match changed {
            0 => format!("run again, the arm computes the same in all of {rows} rows"),
            _ => format!(
                "run again, the arm computes something else in {changed} of {rows} rows: what it computes depends on what ran before or on chance, which no fault of a graph explains, or it is not the arm of the trace"
            ),
        };
        self.tell("repeat", (prompt.token_ids.len(), prompt.steps.len()), found, said);
        Ok(Some(again))
    }

    fn one_token(
        &mut self,
        prompt: &ArmPrompt,
        diagnosis: &Diagnosis,
        said: &mut Vec<String>,
    ) -> Result<(), DiagnoseError> {
        let token_ids = vec![prompt.token_ids[0]];
        let Some(computed) = self.run(&token_ids, &[])? else { return Ok(()) };
        let one = [ArmPrompt { id: String::new(), text: None, token_ids, steps: Vec::new(), logits: Rows::new() }];
        let right = self.predictor(&one).predict(&[], &Selection::all(&one))?;
        let (own, all) = (apart(&BTreeMap::from([(0, computed)]), &right), diagnosis.clean.residual);
        let means = match own < RIGHT * all {
            true => "queries, keys, masks, positions or the cache are to blame, which one token does not need",
            false => "not queries, keys, masks or positions, which one token does not need",
        };
        let found =
            format!("a prompt of one token is off by {own:.1e} of a row's variance, all rows by {all:.1e}: {means}");
        self.tell("one_token", (1, 0), found, said);
        Ok(())
    }

    /// Which earlier rows see the last token.
    fn poke(&mut self, prompt: &ArmPrompt, said: &mut Vec<String>) -> Result<(), DiagnoseError> {
        let last = prompt.token_ids.len() - 1;
        let other = prompt.token_ids.iter().rev().find(|id| **id != prompt.token_ids[last]);
        let (Some(other), true) = (other, holds_before(&prompt.logits, last)) else { return Ok(()) };
        let poked = [&prompt.token_ids[..last], &[*other]].concat();
        let Some(computed) = self.run(&poked, &[])? else { return Ok(()) };
        let found = match moved(&prompt.logits, &computed, last) {
            (0, rows) => format!("another last token moves none of {rows} earlier rows: they do not see it"),
            (changed, rows) => {
                format!("another last token moves {changed} of {rows} earlier rows: they see what comes after them")
            }
        };
        self.tell("poke", (poked.len(), 0), found, said);
        Ok(())
    }

    /// Whether a row depends on how much comes after it in its chunk.
    fn prefix(&mut self, prompt: &ArmPrompt, said: &mut Vec<String>) -> Result<(), DiagnoseError> {
        let half = prompt.token_ids.len() / 2;
        if !holds_before(&prompt.logits, half) {
            return Ok(());
        }
        let Some(computed) = self.run(&prompt.token_ids[..half], &[])? else { return Ok(()) };
        let found = match moved(&prompt.logits, &computed, half) {
            (0, rows) => format!("the first half of a prompt alone gives the same {rows} rows"),
            (changed, rows) => {
                format!(
                    "the first half of a prompt alone gives other values in {changed} of {rows} rows: how long a chunk is matters"
                )
            }
        };
        self.tell("prefix", (half, 0), found, said);
        Ok(())
    }

    /// Steps that see themselves alone, where steps are wrong and prompts are not.
    fn alone(
        &mut self,
        prompt: &ArmPrompt,
        diagnosis: &Diagnosis,
        said: &mut Vec<String>,
    ) -> Result<(), DiagnoseError> {
        let Some(history) = diagnosis.scopes.get(&Scope::Tbt) else { return Ok(()) };
        let of_prompts = diagnosis.scopes.iter().filter(|(scope, _)| scope.is_of_prompts());
        let prompts_are_right = of_prompts.map(|(_, nmse)| nmse).all(|nmse| *nmse < RIGHT * history);
        if !prompts_are_right || !self.rerun.scopes.contains(&Scope::TbtSelf) {
            return Ok(());
        }
        let Some(computed) = self.run_scopes(&prompt.token_ids, &prompt.steps, &[Scope::TbtSelf])? else {
            return Ok(());
        };
        let emulator = self.predictor(&[]).emulator;
        let right = fed(emulator, &prompt.token_ids, &prompt.steps, &[Scope::TbtSelf])?;
        let own = apart(&BTreeMap::from([(0, computed)]), &BTreeMap::from([(0, right)]));
        let means = match own < RIGHT * history {
            true => "what steps remember is wrong, or where they look for it, and not what they compute",
            false => "not (alone) what steps remember",
        };
        let found = format!(
            "steps that see themselves alone are off by {own:.1e} of a row's variance, with their history by {history:.1e}: {means}"
        );
        self.tell("self_only", (prompt.token_ids.len(), prompt.steps.len()), found, said);
        Ok(())
    }
}

/// How many rows before `end` differ, of how many that both have.
fn moved(one: &Rows, other: &Rows, end: usize) -> (usize, usize) {
    let (mut changed, mut rows) = (0, 0);
    for (scope, own) in one {
        for (position, row) in own.iter().filter(|(position, _)| (**position as usize) < end) {
            let Some(its) = other.get(scope).and_then(|rows| rows.get(position)) else { continue };
            rows += 1;
            changed += usize::from(row != its && closeness(row, its).is_none_or(|(nmse, _)| nmse > SAME));
        }
    }
    (changed, rows)
}

/// Whether a row of the prompt before `end` is held.
fn holds_before(rows: &Rows, end: usize) -> bool {
    let of_prompts = rows.iter().filter(|(scope, _)| scope.is_of_prompts());
    of_prompts.flat_map(|(_, rows)| rows.keys()).any(|position| (*position as usize) < end)
}
