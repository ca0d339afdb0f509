//! A run against its baseline: is it worse by a margin?
//!
//! The unit of every test is the prompt: rows of one prompt are not independent, and a test that takes them so calls noise a
//! change several times as often as it says (the simulations below show it). Of each prompt, scope and metric there is one number,
//! the mean over rows, and one difference between run and baseline. Prompts count once each, however long they are.
//!
//! The run passes where it is shown, for every metric of every deciding scope, not to be worse by the margin or more. That is an
//! intersection–union test (Berger 1982): each part at level alpha, no correction, and the whole has level alpha. What is neither
//! shown to be that nor to be worse by more is inconclusive. Nothing here is a pass for want of data.

mod changes;
mod compared;
mod error;
mod holm;
mod mcnemar;
mod numbers_of;
mod power;
mod sign_flip;
#[cfg(test)]
mod simulations;
mod skew;

use std::collections::{BTreeMap, BTreeSet};

use fidelity_trace::Scope;
use fidelity_verdict::{
    Baseline, Change, GATE_FORMAT, GATE_VERSION, Gate, GateConclusion, GateSettings, GateSide, Metric,
    MetricComparison, Movement, Outcome, Verdict,
};

pub use self::{
    changes::replaced,
    error::{Changed, GateError},
    mcnemar::mcnemar,
    numbers_of::{as_baseline, baseline_path, bless},
};
use self::{
    compared::{Pairs, compare},
    numbers_of::{RunNumbers, digest_of_prompts, numbers_of},
};
use crate::{
    bootstrap::{BOOTSTRAP, Resamples},
    numbers::rows,
};

type Comparisons = BTreeMap<Scope, BTreeMap<Metric, MetricComparison>>;

/// Holds a run against a baseline. `versions` are those that the verdict does not hold; `allowed` is what may differ.
///
/// # Errors
/// A run that is wrong on purpose, one of something else that was not allowed, or one with nothing in common with the baseline.
pub fn gate(
    baseline: &Baseline,
    verdict: &Verdict,
    versions: &BTreeMap<String, String>,
    settings: &GateSettings,
    allowed: &[Change],
) -> Result<Gate, GateError> {
    let run = numbers_of(verdict, versions)?;
    if digest_of_prompts(&baseline.prompts) != baseline.prompts_sha256 {
        return Err(GateError::Edited);
    }
    let changes = changes::changes(baseline, &run);
    let (on_purpose, refused): (Vec<Changed>, Vec<Changed>) =
        changes.into_iter().partition(|change| allowed.contains(&change.what));
    if !refused.is_empty() {
        return Err(GateError::Changed(refused));
    }
    let common = common_prompts(baseline, &run);
    let resamples = Resamples::draw(BOOTSTRAP, common.len());
    let mut scopes = Comparisons::new();
    for (scope, metric, pairs) in pairs(baseline, &run.numbers, &common) {
        let margin = settings.margins.get(&metric).copied().unwrap_or(0.0);
        scopes.entry(scope).or_default().insert(metric, compare(metric, &pairs, margin, settings, &resamples));
    }
    if scopes.is_empty() && run.failed.is_empty() {
        return Err(GateError::NothingInCommon);
    }
    name_what_moved(&mut scopes, settings.alpha);
    let harm = harm(baseline, &run.numbers, &common);
    let (conclusion, reason) = conclude(&scopes, harm, baseline, &run, settings);
    let undecided =
        || scopes.values().flat_map(BTreeMap::values).filter(|it| it.conclusion == GateConclusion::Inconclusive);
    let needed = (conclusion == GateConclusion::Inconclusive && undecided().count() > 0)
        .then(|| undecided().map(|it| it.needed).collect::<Option<Vec<u64>>>())
        .flatten()
        .and_then(|needed| needed.into_iter().max());
    let prompts = scopes.values().flat_map(BTreeMap::values).map(|it| it.prompts).min().unwrap_or(0);
    Ok(Gate {
        format: GATE_FORMAT.to_owned(),
        version: GATE_VERSION,
        conclusion,
        reason,
        exit_code: conclusion.exit_code().code(),
        checkpoint: run.numbers.checkpoint.name.clone(),
        notes: notes(baseline, &run, &on_purpose),
        baseline: side(baseline),
        run: side(&run.numbers),
        settings: settings.clone(),
        prompts,
        unseen_share: power::unseen_share(prompts, settings.alpha),
        needed,
        allowed: on_purpose.iter().map(|change| change.what).collect::<BTreeSet<_>>().into_iter().collect(),
        scopes,
    })
}

fn side(of: &Baseline) -> GateSide {
    GateSide { arm: of.arm.clone(), verdict: of.verdict, versions: of.versions.clone() }
}

/// Ids of the prompts that both have with the same tokens.
fn common_prompts(baseline: &Baseline, run: &RunNumbers) -> BTreeSet<String> {
    let known: BTreeMap<&str, &str> =
        baseline.prompts.iter().map(|prompt| (prompt.id.as_str(), prompt.sha256.as_str())).collect();
    let same =
        run.numbers.prompts.iter().filter(|prompt| known.get(prompt.id.as_str()) == Some(&prompt.sha256.as_str()));
    same.map(|prompt| prompt.id.clone()).filter(|id| !run.failed.contains(id) && !run.skipped.contains(id)).collect()
}

/// What is compared: by scope and metric, the numbers of the prompts in which both have one.
fn pairs(baseline: &Baseline, run: &Baseline, common: &BTreeSet<String>) -> Vec<(Scope, Metric, Pairs)> {
    let mut found = Vec::new();
    for (scope, was) in &baseline.scopes {
        let Some(is) = run.scopes.get(scope) else { continue };
        let now: BTreeMap<&str, _> = is.prompts.iter().map(|prompt| (prompt.id.as_str(), prompt)).collect();
        let both: Vec<_> = was
            .prompts
            .iter()
            .filter(|prompt| common.contains(&prompt.id))
            .filter_map(|prompt| Some((prompt, *now.get(prompt.id.as_str())?)))
            .collect();
        for metric in Metric::ALL {
            let values = both.iter().filter_map(|(was, is)| Some([*was.means.get(&metric)?, *is.means.get(&metric)?]));
            let values: Vec<[f64; 2]> = values.collect();
            let single = both.iter().all(|(was, is)| was.rows == 1 && is.rows == 1);
            if !values.is_empty() {
                found.push((*scope, metric, Pairs { values, single_rows: single }));
            }
        }
    }
    found
}

/// Which metric changed, among all that are looked at.
fn name_what_moved(scopes: &mut Comparisons, alpha: f64) {
    let p: Vec<f64> = scopes.values().flat_map(BTreeMap::values).map(|it| it.p_changed).collect();
    let adjusted = holm::adjusted(&p);
    for (comparison, p) in scopes.values_mut().flat_map(BTreeMap::values_mut).zip(adjusted) {
        comparison.p_changed_holm = p;
        // Two-sided: both tails have alpha.
        if comparison.movement == Movement::Unclear && p <= 2.0 * alpha {
            comparison.movement = if comparison.difference > 0.0 { Movement::Worse } else { Movement::Better };
        }
    }
}

/// What no chance explains: rows without a number where the baseline has one, and text that degenerates.
fn harm(baseline: &Baseline, run: &Baseline, common: &BTreeSet<String>) -> Option<String> {
    if run.degenerate && !baseline.degenerate {
        return Some("greedy text degenerates into one repeated token, the baseline's does not".to_owned());
    }
    for (scope, is) in &run.scopes {
        let was: BTreeMap<&str, _> = baseline.scopes.get(scope).map_or_else(BTreeMap::new, |was| {
            was.prompts.iter().map(|prompt| (prompt.id.as_str(), &prompt.undefined)).collect()
        });
        for metric in Metric::ALL {
            let lost = |prompt: &fidelity_verdict::PromptNumbers| {
                let before = was.get(prompt.id.as_str()).and_then(|it| it.get(&metric)).copied().unwrap_or(0);
                prompt.undefined.get(&metric).copied().unwrap_or(0).saturating_sub(before)
            };
            let lost: usize = is.prompts.iter().filter(|prompt| common.contains(&prompt.id)).map(lost).sum();
            if lost > 0 {
                let where_lost = rows(lost);
                return Some(format!(
                    "{scope}: {} has no value (not finite, or constant) in {where_lost}, where the baseline has one",
                    metric.name()
                ));
            }
        }
    }
    None
}

fn conclude(
    scopes: &Comparisons,
    harm: Option<String>,
    baseline: &Baseline,
    run: &RunNumbers,
    settings: &GateSettings,
) -> (GateConclusion, String) {
    if let Some(harm) = harm {
        return (GateConclusion::Fail, harm);
    }
    let all: Vec<(Scope, Metric, &MetricComparison)> = scopes
        .iter()
        .flat_map(|(scope, metrics)| metrics.iter().map(move |(metric, found)| (*scope, *metric, found)))
        .collect();
    let of = |wanted: GateConclusion| all.iter().filter(move |(_, _, found)| found.conclusion == wanted);
    let margins = |found: &MetricComparison| found.difference / found.margin;
    let worst = of(GateConclusion::Fail).max_by(|a, b| margins(a.2).total_cmp(&margins(b.2)));
    if let Some((scope, metric, found)) = worst {
        let count = of(GateConclusion::Fail).count();
        let others = if count > 1 { format!("; {count} of {} comparisons fail", all.len()) } else { String::new() };
        let how = format!("{} is worse by {:.2e}, more than {}", metric.name(), found.difference, found.margin);
        return (GateConclusion::Fail, format!("{scope}: {how} (p {:.1e}){others}", found.p_worse));
    }
    if !run.failed.is_empty() {
        return (
            GateConclusion::DeviceFailure,
            format!("{} of {} prompts failed", run.failed.len(), run.numbers.prompts.len()),
        );
    }
    if !run.skipped.is_empty() {
        let said = format!("{} of {} prompts were not run", run.skipped.len(), run.numbers.prompts.len());
        return (GateConclusion::Inconclusive, said);
    }
    for (whose, of) in [("run", &run.numbers), ("baseline", baseline)] {
        if of.verdict == Outcome::Inconclusive {
            return (GateConclusion::Inconclusive, format!("the {whose} itself is inconclusive: {}", of.reason));
        }
    }
    let few = |found: &&&(Scope, Metric, &MetricComparison)| found.2.needed.unwrap_or(u64::MAX);
    if let Some((scope, metric, found)) = of(GateConclusion::Inconclusive).max_by_key(|found| few(&found)) {
        return (GateConclusion::Inconclusive, undecided(*scope, *metric, found, settings));
    }
    (GateConclusion::Pass, passing(&all))
}

fn undecided(scope: Scope, metric: Metric, found: &MetricComparison, settings: &GateSettings) -> String {
    let prompts = found.prompts;
    let fewest = power::fewest(settings.alpha);
    if (prompts as u64) < fewest {
        let smallest = 0.5_f64.powi(prompts as i32);
        let needed = found.needed.unwrap_or(fewest).max(fewest);
        return format!(
            "{prompts} prompts cannot show anything at {}: the smallest p is {smallest}; at least {needed} prompts are needed",
            settings.alpha
        );
    }
    let needed = found
        .needed
        .map_or_else(|| "more than a million prompts are".to_owned(), |needed| format!("about {needed} prompts are"));
    format!(
        "{scope}: {} is worse by {:.2e}, and {prompts} prompts do not tell that from {}; {needed} needed",
        metric.name(),
        found.difference,
        found.margin
    )
}

fn passing(all: &[(Scope, Metric, &MetricComparison)]) -> String {
    let count = all.len();
    if all.iter().all(|(_, _, found)| found.movement == Movement::Same) {
        return format!("the same number on every prompt in all {count} comparisons");
    }
    let named = |wanted: Movement| {
        let found = all.iter().filter(|(_, _, found)| found.movement == wanted);
        found.map(|(scope, metric, _)| format!("{scope} {}", metric.name())).collect::<Vec<_>>()
    };
    let moved = [(Movement::Better, "better"), (Movement::Worse, "worse within its margin")];
    let moved =
        moved.map(|(movement, word)| (named(movement), word)).into_iter().filter(|(names, _)| !names.is_empty());
    let moved: String = moved.map(|(names, word)| format!("; {word}: {}", names.join(", "))).collect();
    format!("not worse by its margin in any of {count} comparisons{moved}")
}

fn notes(baseline: &Baseline, run: &RunNumbers, on_purpose: &[Changed]) -> Vec<String> {
    let mut notes: Vec<String> = on_purpose
        .iter()
        .map(|change| format!("compared on purpose, the {} differs: {}", change.what.name(), change.said))
        .collect();
    let now = &run.numbers;
    if baseline.verdict != now.verdict {
        notes.push(format!("the verdict was {} and is {} ({})", baseline.verdict, now.verdict, now.reason));
    }
    let keys: BTreeSet<&String> = baseline.versions.keys().chain(now.versions.keys()).collect();
    for key in keys {
        let (was, is) = (baseline.versions.get(key), now.versions.get(key));
        let said = |value: Option<&String>| value.map_or("not known", |text| changes::shortened(text)).to_owned();
        if was != is {
            notes.push(format!("{key} was {}, is {}", said(was), said(is)));
        }
    }
    if run.repeated > 0 {
        notes.push(format!("{} prompts repeat the tokens of others and do not count again", run.repeated));
    }
    notes
}
