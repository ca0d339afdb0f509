//! Running the arm again: first the cheap experiments that tell kinds of fault apart by themselves, then new prompts on which
//! the explanations that are left predict the most different logits, until something is decided or the budget is spent.

mod checks;
mod draw;

use fidelity_trace::{Capture, Intervention, Request, Scope, ScopeCapture, Site, Subject, SubjectError, Taps};
use fidelity_verdict::{Diagnosis, Probe, UNEXPLAINED};

use super::{
    ArmPrompt, DiagnoseError, Numerics, Question, Rows, explain_rows,
    predict::{Predictor, Selection, is_of_shards},
    score,
};

/// New prompts run before the explanations are scored again.
const A_ROUND: usize = 4;
/// Rounds; more prompts of the same kind would say no more.
const ROUNDS: usize = 4;
/// NMSE of two predictions that no row of an arm tells apart.
const NOT_APART: f64 = 1e-9;

/// An arm that can be run again.
pub struct Rerun<'a> {
    /// The arm.
    pub arm: &'a dyn Subject,
    /// Scopes that it computes.
    pub scopes: &'a [Scope],
    /// Tokens of a prompt that one step of the device takes.
    pub prompt_tokens_a_step: usize,
    /// The most tokens that a prompt and the steps after it may have.
    pub capacity: usize,
    /// Steps of the device that may be taken.
    pub budget: usize,
}

/// Diagnoses, and while nothing is decided runs the arm again and diagnoses with what it computed as well.
pub(super) fn until_decided(
    question: &Question<'_>,
    mut prompts: Vec<ArmPrompt>,
    rerun: &Rerun<'_>,
    on_progress: &dyn Fn(&str),
) -> Result<Diagnosis, DiagnoseError> {
    let mut diagnosis = explain_rows(question, &prompts, on_progress)?;
    if diagnosis.name != UNEXPLAINED {
        return Ok(diagnosis);
    }
    let mut session = Session {
        question,
        rerun,
        scopes: scopes(&prompts, rerun),
        left: rerun.budget,
        done: Vec::new(),
        failed: None,
    };
    let (mut evidence, repeats) = session.check(&prompts, &diagnosis, on_progress)?;
    for round in 0..if repeats { ROUNDS } else { 0 } {
        on_progress("choosing the prompts that would decide best");
        let chosen = session.choose(&prompts, &diagnosis, round)?;
        if chosen.is_empty() {
            break;
        }
        for (prompt, separation) in chosen {
            on_progress("running the arm on a new prompt");
            let Some(computed) = session.run(&prompt.token_ids, &prompt.steps)? else { continue };
            let found = format!("explanations left predict rows that are {separation:.1e} of their variance apart");
            session.note("new_prompt", prompt.token_ids.len(), prompt.steps.len(), found);
            prompts.push(ArmPrompt { logits: computed, ..prompt });
        }
        let passes = diagnosis.passes;
        diagnosis = explain_rows(question, &prompts, on_progress)?;
        diagnosis.passes += passes;
        if diagnosis.name != UNEXPLAINED {
            break;
        }
    }
    evidence.extend(session.failed.take());
    evidence.extend(session.summary());
    diagnosis.evidence.append(&mut evidence);
    diagnosis.probes = session.done;
    Ok(diagnosis)
}

/// Scopes of the trace that the arm can compute again.
fn scopes(prompts: &[ArmPrompt], rerun: &Rerun<'_>) -> Vec<Scope> {
    let held = |scope: &Scope| prompts.iter().any(|prompt| prompt.logits.contains_key(scope));
    Scope::ALL.into_iter().filter(|scope| held(scope) && rerun.scopes.contains(scope)).collect()
}

struct Session<'a> {
    question: &'a Question<'a>,
    rerun: &'a Rerun<'a>,
    scopes: Vec<Scope>,
    /// Steps of the device that may still be taken.
    left: usize,
    done: Vec<Probe>,
    /// Why the arm could not be run again.
    failed: Option<String>,
}

impl Session<'_> {
    fn cost(&self, tokens: usize, steps: usize) -> usize {
        tokens.div_ceil(self.rerun.prompt_tokens_a_step.max(1)) + steps
    }

    fn note(&mut self, kind: &str, tokens: usize, steps: usize, found: String) {
        let device_steps = self.cost(tokens, steps);
        self.done.push(Probe { kind: kind.to_owned(), tokens, steps, device_steps, found });
    }

    fn summary(&self) -> Option<String> {
        let spent: usize = self.done.iter().map(|probe| probe.device_steps).sum();
        let prompts = self.done.iter().filter(|probe| probe.kind == "new_prompt").count();
        (!self.done.is_empty()).then(|| {
            format!(
                "the arm was run again {} times, {spent} steps of the device, {prompts} of them on new prompts",
                self.done.len()
            )
        })
    }

    /// What the arm computes of a prompt and steps after it; `None` where the budget does not pay for it.
    fn run(&mut self, token_ids: &[u32], steps: &[u32]) -> Result<Option<Rows>, DiagnoseError> {
        let scopes = self.scopes.clone();
        self.run_scopes(token_ids, steps, &scopes)
    }

    fn run_scopes(
        &mut self,
        token_ids: &[u32],
        steps: &[u32],
        scopes: &[Scope],
    ) -> Result<Option<Rows>, DiagnoseError> {
        let cost = self.cost(token_ids.len(), steps.len());
        if cost > self.left || token_ids.len() + steps.len() > self.rerun.capacity || scopes.is_empty() {
            return Ok(None);
        }
        self.left -= cost;
        match fed(self.rerun.arm, token_ids, steps, scopes) {
            Ok(rows) => Ok(Some(rows)),
            // What was diagnosed so far is not lost with a device that fails.
            Err(error) => {
                self.left = 0;
                self.failed = Some(format!("run again, the arm failed, and was not run any more: {error}"));
                Ok(None)
            }
        }
    }

    /// Who predicts the arm without a fault.
    fn predictor<'p>(&'p self, prompts: &'p [ArmPrompt]) -> Predictor<'p> {
        let emulator = match self.question.numerics {
            Numerics::Recipe(emulator, _) => emulator,
            Numerics::Unknown | Numerics::Float32 => self.question.float32,
        };
        Predictor::new(self.question, emulator, prompts)
    }

    /// New prompts, those first on which explanations are farthest apart for what they cost, and how far.
    fn choose(
        &self,
        prompts: &[ArmPrompt],
        diagnosis: &Diagnosis,
        round: usize,
    ) -> Result<Vec<(ArmPrompt, f64)>, DiagnoseError> {
        let drawn = draw::prompts(self, prompts, round);
        let Some(apart) = self.separations(&drawn, diagnosis)? else { return Ok(Vec::new()) };
        let cost = |prompt: &ArmPrompt| self.cost(prompt.token_ids.len(), prompt.steps.len());
        let mut ranked: Vec<_> = drawn.into_iter().zip(apart).filter(|(_, apart)| *apart > NOT_APART).collect();
        ranked.sort_by(|(a, a_apart), (b, b_apart)| (b_apart / cost(b) as f64).total_cmp(&(a_apart / cost(a) as f64)));
        let mut left = self.left;
        ranked.retain(|(prompt, _)| {
            let pays = cost(prompt) <= left;
            left -= if pays { cost(prompt) } else { 0 };
            pays
        });
        ranked.truncate(A_ROUND);
        Ok(ranked)
    }

    /// How far, on each prompt, the best explanation predicts from the nearest of another name that any prompt tells from it.
    fn separations(&self, drawn: &[ArmPrompt], diagnosis: &Diagnosis) -> Result<Option<Vec<f64>>, DiagnoseError> {
        let explanations: Vec<Intervention> =
            diagnosis.ranked.iter().filter_map(|it| it.fault.parse().ok()).filter(|it| !is_of_shards(it)).collect();
        let Some((best, others)) = explanations.split_first() else { return Ok(None) };
        let predictor = self.predictor(drawn);
        let all = Selection::all(drawn);
        let own = predictor.predict(&[*best], &all)?;
        let rivals = others.iter().map(|other| vec![*other]).chain([Vec::new()]);
        let mut nearest = vec![f64::INFINITY; drawn.len()];
        for rival in rivals {
            let its = predictor.predict(&rival, &all)?;
            let by_prompt = score::distances(&own, &its).residuals;
            let distances: Vec<f64> = (0..drawn.len()).map(|at| by_prompt.get(&at).copied().unwrap_or(0.0)).collect();
            if distances.iter().any(|distance| *distance > NOT_APART) {
                nearest.iter_mut().zip(distances).for_each(|(nearest, distance)| *nearest = nearest.min(distance));
            }
        }
        Ok(Some(nearest.into_iter().map(|it| if it.is_finite() { it } else { 0.0 }).collect()))
    }
}

/// The logits of a prompt and steps after it, by scope and position.
fn fed(arm: &dyn Subject, token_ids: &[u32], steps: &[u32], scopes: &[Scope]) -> Result<Rows, SubjectError> {
    // The last id of a continuation is not fed.
    let continuation = [steps, &[0]].concat();
    let scopes: Vec<Scope> =
        scopes.iter().copied().filter(|scope| scope.is_of_prompts() || !steps.is_empty()).collect();
    let new_tokens = if steps.is_empty() { 0 } else { continuation.len() };
    let request = Request { token_ids, scopes: &scopes, continuation: Some(&continuation), new_tokens };
    let mut captures = [Capture::new(Taps::List(Vec::new()))];
    arm.run(&[request], &mut captures)?;
    let [capture] = captures;
    let rows = |(scope, mut captured): (Scope, ScopeCapture)| {
        let logits = captured.sites.remove(&Site::Logits)?;
        let rows = captured.positions.iter().enumerate().take(logits.rows());
        Some((scope, rows.map(|(row, position)| (*position, logits.row(row).to_vec())).collect()))
    };
    Ok(capture.scopes.into_iter().filter_map(rows).collect())
}
