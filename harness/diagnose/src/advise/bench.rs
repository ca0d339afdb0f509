//! Trials: a recipe emulated on the search prompts and compared with the reference as `run` compares.

use std::{cell::Cell, collections::BTreeMap};

use fidelity_compare::{Header, NotComputed, PromptComparison, PromptSettings, compare_prompt, conclude};
use fidelity_emulator::{Calibrated, Emulator, Plan, Recipe};
use fidelity_references::Reference;
use fidelity_trace::{
    Capture, FirstPosition, PromptRecord, PromptTrace, Request, Scope, ScopeTrace, Site, Status, Subject, Taps, Tensor,
    in_parallel,
};
use fidelity_verdict::{ArmIdentity, Arms, PromptResult, Thresholds, Trial, Verdict};

use super::{AdviseError, Advising};

/// The search prompts, and what the reference computes of them.
pub(super) struct Bench<'a> {
    pub(super) asked: &'a Advising<'a>,
    reference: Vec<PromptTrace>,
    thresholds: Thresholds,
    done: Cell<usize>,
    expected: Cell<usize>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(asked: &'a Advising<'a>) -> Result<Self, AdviseError> {
        let reference = Reference::without_noise(asked.float32.clone());
        let reference = computed(&reference, asked.search)?;
        let thresholds = Thresholds::compiled_in();
        Ok(Self { asked, reference, thresholds, done: Cell::new(0), expected: Cell::new(0) })
    }

    /// Calibrates for a recipe.
    pub(super) fn calibrated(&self, text: &str, first: Option<FirstPosition>) -> Result<Calibrated<'a>, AdviseError> {
        let (_, plan) = self.planned(text)?;
        let Advising { checkpoint, float32, set, .. } = *self.asked;
        Ok(Calibrated::new(checkpoint, &plan, float32, set, first)?)
    }

    pub(super) fn planned(&self, text: &str) -> Result<(Recipe, Plan), AdviseError> {
        let name = &self.asked.recipe.name;
        let recipe = Recipe::parse(text, name, &format!("{name}.alls with advised lines"))?;
        let plan = recipe.plan(self.asked.checkpoint.architecture(), self.asked.names)?;
        Ok((recipe, plan))
    }

    /// Emulates a script on the search prompts. Where position 0 is a float prefix its rows, which are exact, do not count.
    pub(super) fn trial(&self, on: &Calibrated<'_>, text: &str, without_first: bool) -> Result<Trial, AdviseError> {
        let (recipe, plan) = self.planned(text)?;
        let emulator = on.emulator(&recipe, &plan)?;
        let mut found = computed(&emulator, self.asked.search)?;
        let mut reference = None;
        if without_first {
            found.iter_mut().for_each(drop_first);
            let mut rest = self.reference.clone();
            rest.iter_mut().for_each(drop_first);
            reference = Some(rest);
        }
        let verdict = self.judged(&emulator, reference.as_ref().unwrap_or(&self.reference), &found);
        self.done.set(self.done.get() + 1);
        (self.asked.on_trial)(self.done.get(), self.expected.get());
        Ok(trial_of(&verdict))
    }

    /// How many more trials are to come.
    pub(super) fn expect(&self, more: usize) {
        self.expected.set(self.done.get() + more);
    }

    pub(super) const fn trials(&self) -> usize {
        self.done.get()
    }

    fn judged(&self, emulator: &Emulator, reference: &[PromptTrace], found: &[PromptTrace]) -> Verdict {
        let network = self.asked.checkpoint.architecture().network();
        let (noise_floor, step) = (BTreeMap::new(), emulator.logits_step());
        let settings = PromptSettings { noise_floor: &noise_floor, logits_step: step.as_deref(), network };
        let compared = in_parallel(found.len(), self.asked.jobs, |index| {
            Ok::<_, std::convert::Infallible>(compare_prompt(&reference[index], &found[index], None, &settings))
        });
        let comparisons: Vec<PromptComparison> = compared.unwrap_or_else(|never| match never {});
        let identity = |arm, step: Option<Vec<f64>>| ArmIdentity { arm, deviations: Vec::new(), logits_step: step };
        let judge = Reference::without_noise(self.asked.float32.clone());
        let header = Header {
            checkpoint: self.asked.checkpoint.identity().clone(),
            arms: Arms { reference: identity(judge.arm(), None), device: identity(emulator.arm(), step.clone()) },
            network,
            thresholds: self.thresholds.clone(),
            expect: Vec::new(),
            notes: Vec::new(),
            noise_floor: BTreeMap::new(),
            prompts: self.asked.search.iter().map(prompt_result).collect(),
            outside_range: Vec::new(),
            reference_not_computed: NotComputed::default(),
            device_not_computed: NotComputed::default(),
            generated: None,
        };
        conclude(header, comparisons)
    }
}

fn prompt_result(record: &PromptRecord) -> PromptResult {
    PromptResult {
        id: record.id.clone(),
        text: record.text.clone(),
        token_ids: record.token_ids.clone(),
        status: Status::Ok,
        error: None,
    }
}

/// What a subject computes of whole prompts, at the judged sites.
fn computed(subject: &impl Subject, prompts: &[PromptRecord]) -> Result<Vec<PromptTrace>, AdviseError> {
    let taps = Taps::List(Vec::new()).with(&[Site::FinalNorm, Site::Pooled]);
    let mut traces = Vec::with_capacity(prompts.len());
    for group in prompts.chunks(subject.together().max(1)) {
        let request = |prompt: &'_ PromptRecord| prompt.token_ids.clone();
        let ids: Vec<Vec<u32>> = group.iter().map(request).collect();
        let request = |token_ids| Request { token_ids, scopes: &[Scope::Base], continuation: Some(&[]), new_tokens: 0 };
        let requests: Vec<_> = ids.iter().map(|ids| request(ids.as_slice())).collect();
        let mut captures = vec![Capture::new(taps.clone()); group.len()];
        subject.run(&requests, &mut captures)?;
        traces.extend(captures.into_iter().map(|capture| PromptTrace { scopes: capture.scopes }));
    }
    Ok(traces)
}

/// Leaves out the row of position 0.
fn drop_first(prompt: &mut PromptTrace) {
    for scope in prompt.scopes.values_mut() {
        let ScopeTrace { positions, token_ids, sites, .. } = scope;
        if positions.first() != Some(&0) {
            continue;
        }
        positions.remove(0);
        token_ids.remove(0);
        for (_, Tensor { shape, values }) in sites.iter_mut().filter(|(site, _)| !site.is_per_prompt()) {
            let width: usize = shape.iter().skip(1).product();
            values.drain(..width);
            shape[0] -= 1;
        }
    }
}

/// The numbers of a verdict that a search needs.
fn trial_of(verdict: &Verdict) -> Trial {
    let Some(scope) = verdict.scopes.get(&Scope::Base) else { return Trial::default() };
    let logits = scope.judged_site == Site::Logits;
    let judged = scope.sites.get(&scope.judged_site);
    let sound = judged.filter(|site| site.non_finite_rows == 0);
    let similarity = sound.and_then(|site| if logits { site.pearson } else { site.centred_cosine });
    let rows = scope.rows.iter();
    let similarities = rows.clone().filter_map(|row| {
        let value = if logits { row.pearson } else { row.centred_cosine };
        value.map(|value| (row.prompt, value))
    });
    let agrees = rows.filter_map(|row| {
        row.top1.map(|top1| (row.prompt, f64::from(u8::from(top1 != fidelity_verdict::Agreement::Flip))))
    });
    Trial {
        similarity: similarity.map(|summary| summary.mean),
        standard_error: standard_error(similarities),
        top1: sound.and_then(|site| site.logits.as_ref()?.top1.rate),
        top1_standard_error: standard_error(agrees),
        bytes: 0.0,
    }
}

/// Of a mean over rows whose prompts are independent: that of a ratio of sums over prompts (Cochran 1977, §6.3), √(n/(n−1) Σ(sᵢ − m
/// rᵢ)²) / Σ rᵢ with sᵢ and rᵢ a prompt's sum and number of rows and m the mean.
fn standard_error(rows: impl Iterator<Item = (usize, f64)>) -> Option<f64> {
    let mut prompts: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (prompt, value) in rows {
        let (sum, count) = prompts.entry(prompt).or_default();
        *sum += value;
        *count += 1.0;
    }
    if prompts.len() < 2 {
        return None;
    }
    let count: f64 = prompts.values().map(|(_, count)| count).sum();
    let mean = prompts.values().map(|(sum, _)| sum).sum::<f64>() / count;
    let squares: f64 = prompts.values().map(|(sum, count)| (sum - mean * count).powi(2)).sum();
    let n = prompts.len() as f64;
    Some((n / (n - 1.0) * squares).sqrt() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_prompt_count_together() {
        // Prompts (0, 1) and (1, 1): sums 1 and 2 of 2 rows each, mean 0.75, deviations ∓0.5.
        let rows = [(0, 0.0), (0, 1.0), (1, 1.0), (1, 1.0)];
        let found = standard_error(rows.into_iter()).expect("two prompts");
        assert!((found - (2.0_f64 * 0.5).sqrt() / 4.0).abs() < 1e-12, "{found}");
        assert_eq!(standard_error([(0, 0.5), (0, 0.7)].into_iter()), None);
    }
}
