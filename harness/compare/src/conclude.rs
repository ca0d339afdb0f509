//! From measured prompts to the verdict of a run.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_trace::{CheckpointIdentity, Network, OutsideRange, Scope, Site, Status};
use fidelity_verdict::{
    Arms, ExitCode, FORMAT, Generated, Outcome, PromptResult, ScopeResult, Thresholds, VERSION, Verdict, telling_scopes,
};

use crate::{
    bootstrap::{BOOTSTRAP, Resamples},
    calibration,
    numbers::rows,
    prompt::{PromptComparison, ScopeComparison},
    scope::conclude_scope,
};

/// Everything of a verdict that does not come from rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// What was computed.
    pub checkpoint: CheckpointIdentity,
    /// By whom.
    pub arms: Arms,
    /// What kind of network the reference says it is.
    pub network: Network,
    /// The thresholds to apply.
    pub thresholds: Thresholds,
    /// Verdicts that are expected of this checkpoint and exit 0: names of [`Outcome`]s.
    pub expect: Vec<String>,
    /// Things a reader must know; the comparison appends its own.
    pub notes: Vec<String>,
    /// The reference's noise floor, relative L2 by site.
    pub noise_floor: BTreeMap<String, f64>,
    /// The prompts, computed or not.
    pub prompts: Vec<PromptResult>,
    /// Of a quantised arm, by its prompts: values outside their calibrated ranges, by scope and site.
    pub outside_range: Vec<BTreeMap<Scope, BTreeMap<Site, OutsideRange>>>,
    /// Prompts that the reference did not compute.
    pub reference_not_computed: NotComputed,
    /// Prompts that the arm did not compute.
    pub device_not_computed: NotComputed,
    /// What the arms generated, from [`crate::generated()`].
    pub generated: Option<Generated>,
}

/// How many prompts an arm did not compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotComputed {
    /// Tried and failed.
    pub failed: usize,
    /// Not tried.
    pub skipped: usize,
}

impl NotComputed {
    /// Counts the prompts of an arm.
    pub fn count(statuses: impl IntoIterator<Item = Status>) -> Self {
        let mut counted = Self::default();
        for status in statuses {
            match status {
                Status::Ok => {}
                Status::Failed => counted.failed += 1,
                Status::Skipped => counted.skipped += 1,
            }
        }
        counted
    }
}

/// Concludes a run; `prompts[i]` is the comparison of `header.prompts[i]`, the default where it was not computed.
///
/// The run is its worst scope (the probe `tbt_self` decides only when it is alone); greedy text that degenerates where the
/// reference's does not makes it broken. A pass (faithful, or degraded or
/// broken as expected) exits 0, or 4 when the arm failed in a prompt; degraded and broken exit 1 otherwise; inconclusive exits 3 whatever is expected, or 4 when nothing was compared because the arm computed no
/// prompt.
///
/// # Panics
/// When there is not one comparison a prompt.
#[must_use]
pub fn conclude(header: Header, prompts: Vec<PromptComparison>) -> Verdict {
    assert_eq!(header.prompts.len(), prompts.len(), "one comparison a prompt");
    let resamples = Resamples::draw(BOOTSTRAP, prompts.len());
    let absent = ScopeComparison::default();
    let mut scopes = BTreeMap::new();
    let mut notes = not_computed_notes(&header);
    for scope in scopes_of_device(&prompts) {
        let of_scope: Vec<&ScopeComparison> =
            prompts.iter().map(|prompt| prompt.scopes.get(&scope).unwrap_or(&absent)).collect();
        notes.extend(scope_notes(scope, &of_scope));
        let outside_range = calibration::outside_range(scope, &header.outside_range);
        let concluded = conclude_scope(&header, &of_scope, &resamples);
        notes.extend(calibration::note(scope, &outside_range, concluded.first_bad_site));
        scopes.insert(scope, ScopeResult { outside_range, ..concluded });
    }
    tell_once(&mut scopes);
    notes.extend(
        scopes_lost(&prompts).map(|scope| format!("the arm holds no {scope}, which the reference does: not compared")),
    );
    let (verdict, reason) = only_if_whole(judge_run(&scopes, header.generated.as_ref()), &header);
    let expected = header.expect.iter().any(|name| name == verdict.name());
    notes.extend(unmet_expectation(&header.expect, verdict));
    notes.extend(probe_note(&scopes, verdict));
    Verdict {
        format: FORMAT.to_owned(),
        version: VERSION,
        verdict,
        reason: if excused(verdict, expected) { format!("{reason}; as expected") } else { reason },
        exit_code: exit_code(verdict, expected, &header).code(),
        notes: header.notes.into_iter().chain(notes).collect(),
        checkpoint: header.checkpoint,
        arms: header.arms,
        expect: header.expect,
        thresholds: header.thresholds,
        bootstrap: BOOTSTRAP,
        noise_floor: header.noise_floor,
        scopes,
        generated: header.generated,
        prompts: header.prompts,
        token_text: BTreeMap::new(),
        attribution: None,
        diagnosis: None,
    }
}

/// What is most probable is kept once a position: it is for people to read, and most of a row's size.
fn tell_once(scopes: &mut BTreeMap<Scope, ScopeResult>) {
    let telling = telling_scopes(scopes);
    for (scope, result) in scopes {
        let others = result.rows.iter_mut().filter(|row| telling.get(&(row.prompt, row.position)) != Some(scope));
        others.for_each(|row| (row.reference_top5, row.device_top5) = Default::default());
    }
}

/// A pass needs every prompt: what was not computed may be what is wrong. Failures of the arm have an exit code of their own.
fn only_if_whole((verdict, reason): (Outcome, String), header: &Header) -> (Outcome, String) {
    let NotComputed { failed, skipped } = header.reference_not_computed;
    let uncompared = failed + skipped.max(header.device_not_computed.skipped);
    if verdict != Outcome::Faithful || uncompared == 0 {
        return (verdict, reason);
    }
    let prompts = header.prompts.len();
    (Outcome::Inconclusive, format!("{uncompared} of {prompts} prompts were not computed; of the others: {reason}"))
}

/// The scopes with rows that only the reference holds.
fn scopes_lost(prompts: &[PromptComparison]) -> impl Iterator<Item = Scope> {
    let held = scopes_of_device(prompts);
    let all: BTreeSet<Scope> = prompts.iter().flat_map(|prompt| prompt.scopes.keys()).copied().collect();
    all.into_iter().filter(move |scope| !held.is_empty() && !held.contains(scope))
}

/// The scopes the arm holds in any prompt.
fn scopes_of_device(prompts: &[PromptComparison]) -> BTreeSet<Scope> {
    let held = prompts.iter().flat_map(|prompt| &prompt.scopes).filter(|(_, scope)| scope.in_device);
    held.map(|(scope, _)| *scope).collect()
}

fn judge_run(scopes: &BTreeMap<Scope, ScopeResult>, generated: Option<&Generated>) -> (Outcome, String) {
    let deciding = deciding(scopes);
    let worst = deciding.iter().map(|(_, result)| result.verdict).max();
    let degenerate = generated.filter(|generated| generated.degenerate).map(degenerate_reason);
    let scopes_reason = worst.map(|worst| worst_reason(&deciding, worst));
    match (worst, scopes_reason, degenerate) {
        (Some(worst), Some(reason), None) => (worst, reason),
        (Some(Outcome::Degraded | Outcome::Broken), Some(reason), Some(degenerate)) => {
            (Outcome::Broken, format!("{reason}; {degenerate}"))
        }
        (_, _, Some(degenerate)) => (Outcome::Broken, degenerate),
        (_, _, None) => (Outcome::Inconclusive, "nothing was compared".to_owned()),
    }
}

/// The scopes that decide: all but `tbt_self`, unless it is alone. A step that sees only itself is a probe into the decode
/// graph: no text is made that way, and a static calibration never saw such values, so a faithful arm clips there.
fn deciding(scopes: &BTreeMap<Scope, ScopeResult>) -> Vec<(Scope, &ScopeResult)> {
    let alone = scopes.len() == 1;
    let held = scopes.iter().map(|(scope, result)| (*scope, result));
    held.filter(|(scope, _)| alone || *scope != Scope::TbtSelf).collect()
}

/// Says so where the probe looks worse than the run it does not decide.
fn probe_note(scopes: &BTreeMap<Scope, ScopeResult>, verdict: Outcome) -> Option<String> {
    let probe = scopes.get(&Scope::TbtSelf).filter(|probe| probe.verdict > verdict)?;
    Some(format!("tbt_self is {} ({}), but it is a probe and does not decide", probe.verdict, probe.reason))
}

/// The reason of the first scope, in the order they run, that came out worst; the others of the same outcome are named.
fn worst_reason(scopes: &[(Scope, &ScopeResult)], worst: Outcome) -> String {
    let mut alike = scopes.iter().filter(|(_, result)| result.verdict == worst);
    let mut reason = alike.next().map_or_else(String::new, |(scope, result)| {
        let bad = result.first_bad_site.map(|site| format!("; first bad site {site}"));
        format!("{scope}: {}{}", result.reason, bad.unwrap_or_default())
    });
    let others: Vec<&str> = alike.map(|(scope, _)| scope.name()).collect();
    if !others.is_empty() {
        reason += &format!("; {} also {worst}", others.join(" and "));
    }
    reason
}

fn degenerate_reason(generated: &Generated) -> String {
    let pairs = generated.device_degenerate.iter().zip(&generated.reference_degenerate);
    let count = pairs.filter(|(device, reference)| **device && !**reference).count();
    format!("greedy text degenerates into one repeated token in {count} of {} prompts", generated.prompts.len())
}

/// Whether an outcome that would exit 1 is expected. Inconclusive is never a pass, and faithful needs no excuse.
fn excused(verdict: Outcome, expected: bool) -> bool {
    expected && matches!(verdict, Outcome::Degraded | Outcome::Broken)
}

fn exit_code(verdict: Outcome, expected: bool, header: &Header) -> ExitCode {
    // Whatever was computed, a crash is no pass.
    let pass = if header.device_not_computed.failed > 0 { ExitCode::Device } else { ExitCode::Pass };
    match verdict {
        Outcome::Faithful => pass,
        Outcome::Degraded | Outcome::Broken if expected => pass,
        Outcome::Degraded | Outcome::Broken => ExitCode::FidelityFailure,
        // The failure is why too little could be compared, or may be.
        Outcome::Inconclusive if header.device_not_computed.failed > 0 => ExitCode::Device,
        Outcome::Inconclusive => ExitCode::Inconclusive,
    }
}

fn not_computed_notes(header: &Header) -> Vec<String> {
    let prompts = header.prompts.len();
    let arms = [("the reference", header.reference_not_computed), ("the arm", header.device_not_computed)];
    let note = |count: usize, what: &str| (count > 0).then(|| format!("{count} of {prompts} prompts {what}"));
    let notes = arms.into_iter().flat_map(|(arm, NotComputed { failed, skipped })| {
        [note(failed, &format!("failed in {arm}")), note(skipped, &format!("were not run by {arm}"))]
    });
    notes.flatten().collect()
}

/// What was not compared in a scope and why, where the numbers of coverage do not say it all.
fn scope_notes(scope: Scope, prompts: &[&ScopeComparison]) -> Vec<String> {
    let mut differences = BTreeMap::new();
    let mut not_finite = BTreeMap::new();
    for prompt in prompts {
        for (site, difference) in &prompt.incomparable {
            differences.entry(site).or_insert(difference);
        }
        for (site, count) in &prompt.reference_not_finite {
            *not_finite.entry(site).or_insert(0) += count;
        }
    }
    let other_token: usize = prompts.iter().map(|prompt| prompt.rows_other_token).sum();
    let other_token = (other_token > 0)
        .then(|| format!("{scope}: {} not compared, the arm was fed another token there or before", rows(other_token)));
    let extra: usize = prompts.iter().map(|prompt| prompt.rows_extra).sum();
    let extra =
        (extra > 0).then(|| format!("{scope}: {} of the arm ignored, the reference has none there", rows(extra)));
    let unpooled =
        prompts.iter().filter(|prompt| prompt.in_device && prompt.sites_missing.contains(&Site::Pooled)).count();
    let unpooled = (unpooled > 0)
        .then(|| format!("{scope}/pooled: the arm holds none in {unpooled} of {} prompts", prompts.len()));
    let differences = differences.into_iter().map(|(site, difference)| format!("{scope}/{site}: {difference}"));
    let not_finite = not_finite.into_iter().map(|(site, count)| {
        format!("{scope}/{site}: {} not compared, the reference holds a NaN or an infinity there", rows(count))
    });
    other_token.into_iter().chain(extra).chain(unpooled).chain(differences).chain(not_finite).collect()
}

/// A note when something else was expected than was found, which does not change the exit code.
fn unmet_expectation(expect: &[String], verdict: Outcome) -> Option<String> {
    let met = expect.is_empty() || expect.iter().any(|name| name == verdict.name());
    (!met).then(|| format!("expected {}, found {verdict}", expect.join(" or ")))
}
