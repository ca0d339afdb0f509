//! What is kept of a run: by prompt, a number a metric.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use fidelity_trace::{ArmKind, Scope, Site, Status, hex};
use fidelity_verdict::{
    Agreement, ArmIdentity, BASELINE_FORMAT, BASELINE_VERSION, Baseline, BlessedArm, BlessedCheckpoint, BlessedPrompt,
    BlessedScope, Metric, Outcome, PromptMean, PromptNumbers, RecipeIdentity, RowResult, ScopeResult, Verdict,
};
use sha2::{Digest, Sha256};

use super::error::GateError;
use crate::{
    bootstrap::{BOOTSTRAP, Contribution, Resamples},
    numbers::{rounded, rounded_near_one},
};

/// A run as a gate sees it.
pub(super) struct RunNumbers {
    pub(super) numbers: Baseline,
    /// Ids of prompts that failed in the arm or the reference.
    pub(super) failed: BTreeSet<String>,
    /// Ids of prompts that were not run.
    pub(super) skipped: BTreeSet<String>,
    /// How many prompts have the tokens of another one.
    pub(super) repeated: usize,
}

/// Numbers by prompt. The unit is a sequence of tokens: prompts that repeat one count once, with all their rows.
pub(super) fn numbers_of(verdict: &Verdict, versions: &BTreeMap<String, String>) -> Result<RunNumbers, GateError> {
    refuse_injected(verdict)?;
    let mut units: Vec<BlessedPrompt> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut of_tokens: BTreeMap<&[u32], usize> = BTreeMap::new();
    let (mut failed, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    let mut unit_of = Vec::with_capacity(verdict.prompts.len());
    for prompt in &verdict.prompts {
        let unit = *of_tokens.entry(&prompt.token_ids).or_insert_with(|| {
            let sha256 = digest(&prompt.token_ids);
            // Two prompts of one id in a foreign trace are two prompts.
            let id = if ids.insert(prompt.id.clone()) {
                prompt.id.clone()
            } else {
                format!("{} {}", prompt.id, &sha256[..12])
            };
            ids.insert(id.clone());
            units.push(BlessedPrompt { id, tokens: prompt.token_ids.len(), sha256 });
            units.len() - 1
        });
        unit_of.push(unit);
        match prompt.status {
            Status::Ok => false,
            Status::Failed => failed.insert(units[unit].id.clone()),
            Status::Skipped => skipped.insert(units[unit].id.clone()),
        };
    }
    let resamples = Resamples::draw(BOOTSTRAP, units.len());
    let deciding = verdict.scopes.iter().filter(|(scope, _)| **scope != Scope::TbtSelf || verdict.scopes.len() == 1);
    let scopes = deciding
        .map(|(scope, result)| Ok((*scope, blessed_scope(*scope, result, &unit_of, &units, &resamples)?)))
        .collect::<Result<_, GateError>>()?;
    let numbers = Baseline {
        format: BASELINE_FORMAT.to_owned(),
        version: BASELINE_VERSION,
        checkpoint: BlessedCheckpoint {
            name: verdict.checkpoint.name.clone(),
            source: verdict.checkpoint.source.clone(),
            revision: verdict.checkpoint.revision.clone(),
            weights_sha256: verdict.checkpoint.weights_sha256.clone(),
        },
        arm: blessed_arm(verdict),
        versions: versions_of(&verdict.arms.device).chain(versions.clone()).collect(),
        verdict: verdict.verdict,
        reason: verdict.reason.clone(),
        degenerate: verdict.generated.as_ref().is_some_and(|generated| generated.degenerate),
        prompts_sha256: digest_of_prompts(&units),
        prompts: units,
        scopes,
    };
    Ok(RunNumbers { numbers, failed, skipped, repeated: verdict.prompts.len() - of_tokens.len() })
}

/// The baseline that a run makes. `versions` are those that its verdict does not hold.
///
/// # Errors
/// A run that is wrong on purpose, inconclusive, or in which a prompt or a row has no number.
pub fn bless(verdict: &Verdict, versions: &BTreeMap<String, String>) -> Result<Baseline, GateError> {
    let baseline = as_baseline(verdict, versions)?;
    match verdict.verdict {
        Outcome::Inconclusive => Err(GateError::NotBlessed(format!("the run is inconclusive: {}", verdict.reason))),
        Outcome::Faithful | Outcome::Degraded | Outcome::Broken => Ok(baseline),
    }
}

/// Where the baseline of a run belongs, fit to be one or not.
///
/// # Errors
/// A run that is wrong on purpose, or a verdict that contradicts itself.
pub fn baseline_path(verdict: &Verdict) -> Result<PathBuf, GateError> {
    Ok(numbers_of(verdict, &BTreeMap::new())?.numbers.path())
}

/// What a run makes to hold another against once: as [`bless`], but an inconclusive run may stand there. Nothing passes against it.
///
/// # Errors
/// A run that is wrong on purpose, or in which a prompt or a row has no number.
pub fn as_baseline(verdict: &Verdict, versions: &BTreeMap<String, String>) -> Result<Baseline, GateError> {
    let run = numbers_of(verdict, versions)?;
    let not_blessed = |reason: String| Err(GateError::NotBlessed(reason));
    if let Some(id) = run.failed.iter().chain(&run.skipped).next() {
        let (count, prompts) = (run.failed.len() + run.skipped.len(), run.numbers.prompts.len());
        return not_blessed(format!("{count} of {prompts} prompts were not computed, the first is `{id}`"));
    }
    for (scope, result) in &verdict.scopes {
        let not_finite = result.rows.iter().filter(|row| !row.finite).count();
        if not_finite > 0 {
            return not_blessed(format!("{not_finite} rows of {scope} hold a NaN or an infinity"));
        }
    }
    if run.numbers.scopes.values().all(|scope| scope.prompts.is_empty()) {
        return not_blessed("no row was compared".to_owned());
    }
    Ok(run.numbers)
}

fn refuse_injected(verdict: &Verdict) -> Result<(), GateError> {
    let reference = &verdict.arms.reference;
    if reference.arm.kind != ArmKind::Reference {
        return Err(GateError::NoReference(reference.arm.kind.to_string()));
    }
    let beside = verdict.attribution.iter().map(|attribution| &attribution.emulator);
    let applied = [reference, &verdict.arms.device].into_iter().chain(beside).flat_map(|arm| &arm.deviations);
    match applied.into_iter().find(|deviation| deviation.kind != "emulation") {
        Some(found) => Err(GateError::Injected { kind: found.kind.clone(), name: found.name.clone() }),
        None => Ok(()),
    }
}

fn blessed_scope(
    scope: Scope,
    result: &ScopeResult,
    unit_of: &[usize],
    units: &[BlessedPrompt],
    resamples: &Resamples,
) -> Result<BlessedScope, GateError> {
    let metrics: &[Metric] = match result.judged_site {
        Site::Logits => &[Metric::Top1, Metric::Pearson, Metric::Kl, Metric::Nmse],
        _ => &[Metric::CentredCosine, Metric::Nmse],
    };
    let mut by_unit: BTreeMap<usize, Vec<&RowResult>> = BTreeMap::new();
    for row in &result.rows {
        let unit =
            unit_of.get(row.prompt).ok_or(GateError::NoPrompt { scope, prompt: row.prompt, prompts: unit_of.len() })?;
        by_unit.entry(*unit).or_default().push(row);
    }
    let prompts: Vec<PromptNumbers> =
        by_unit.iter().map(|(unit, rows)| prompt_numbers(&units[*unit].id, rows, metrics)).collect();
    let mean = |metric: &Metric| {
        let values: Vec<f64> = prompts.iter().filter_map(|prompt| prompt.means.get(metric)).copied().collect();
        Some((*metric, mean_of(&values, resamples)?))
    };
    Ok(BlessedScope { judged_site: result.judged_site, means: metrics.iter().filter_map(mean).collect(), prompts })
}

fn prompt_numbers(id: &str, rows: &[&RowResult], metrics: &[Metric]) -> PromptNumbers {
    let mut numbers = PromptNumbers { id: id.to_owned(), rows: rows.len(), ..PromptNumbers::default() };
    for metric in metrics {
        let defined: Vec<f64> = rows.iter().filter_map(|row| value(*metric, row)).collect();
        if defined.len() < rows.len() {
            numbers.undefined.insert(*metric, rows.len() - defined.len());
        }
        if !defined.is_empty() {
            let mean = defined.iter().sum::<f64>() / defined.len() as f64;
            let kept = if metric.rises() { rounded_near_one(mean) } else { rounded(mean) };
            numbers.means.insert(*metric, kept);
        }
    }
    numbers
}

fn value(metric: Metric, row: &RowResult) -> Option<f64> {
    let found = match metric {
        Metric::Top1 => row.top1.filter(|_| row.finite).map(|found| if found == Agreement::Flip { 0.0 } else { 1.0 }),
        Metric::Pearson => row.pearson,
        Metric::CentredCosine => row.centred_cosine,
        Metric::Kl => row.kl,
        Metric::Nmse => row.nmse,
    };
    found.filter(|value| value.is_finite())
}

/// The mean over prompts, each counted once.
pub(super) fn mean_of(values: &[f64], resamples: &Resamples) -> Option<PromptMean> {
    let contributions: Vec<Contribution> = values.iter().map(|sum| Contribution { sum: *sum, rows: 1.0 }).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (!values.is_empty()).then(|| PromptMean { mean, interval: resamples.interval(&contributions) })
}

fn blessed_arm(verdict: &Verdict) -> BlessedArm {
    let ArmIdentity { arm, deviations, .. } = &verdict.arms.device;
    let beside = verdict.attribution.iter().flat_map(|attribution| &attribution.emulator.deviations);
    let named = |name: &str| deviations.iter().chain(beside.clone()).find(|it| it.name == name);
    let quantisation = named("quantisation");
    let said = |key: &str| {
        quantisation.and_then(|it| it.parameters.get(key)).and_then(|value| value.as_str()).map(str::to_owned)
    };
    let recipe = said("recipe").map(|name| RecipeIdentity { name, sha256: said("recipe_sha256").unwrap_or_default() });
    let way = named("first_position").and_then(|it| it.parameters.get("way")).and_then(|value| value.as_str());
    BlessedArm {
        kind: arm.kind,
        device: if arm.kind == ArmKind::Emulator || arm.name.is_empty() {
            arm.kind.to_string()
        } else {
            arm.name.clone()
        },
        recipe,
        calibration: said("calibration"),
        first_position: way.map(str::to_owned),
        hef_sha256: arm.detail.get("hef_sha256").and_then(|value| value.as_str()).map(str::to_owned),
    }
}

/// What may be another version from run to run; a hash of ranges tells that something did.
fn versions_of(device: &ArmIdentity) -> impl Iterator<Item = (String, String)> + '_ {
    let facts = ["hailort", "firmware", "driver"].map(|key| (key, device.arm.detail.get(key)));
    let ranges = device.deviations.iter().find_map(|it| it.parameters.get("ranges_sha256"));
    let facts = facts.into_iter().chain([("ranges_sha256", ranges)]);
    facts.filter_map(|(key, value)| Some((key.to_owned(), value?.as_str()?.to_owned())))
}

fn digest(token_ids: &[u32]) -> String {
    let mut hasher = Sha256::new();
    token_ids.iter().for_each(|id| hasher.update(id.to_le_bytes()));
    hex(&hasher.finalize())
}

pub(super) fn digest_of_prompts(prompts: &[BlessedPrompt]) -> String {
    let mut hasher = Sha256::new();
    for prompt in prompts {
        hasher.update((prompt.id.len() as u64).to_le_bytes());
        hasher.update(prompt.id.as_bytes());
        hasher.update(prompt.sha256.as_bytes());
    }
    hex(&hasher.finalize())
}
