//! What is kept of a verdict.

use std::collections::BTreeMap;

use fidelity_trace::{Arm, hex};
use fidelity_verdict::{
    ArmIdentity, LogitsResult, PastEstimate, PastRun, PastScope, Rate, ScopeResult, SiteResult, Summary, Verdict,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What varies from run to run of the same inputs, and is in run.json.
#[derive(Clone, Debug)]
pub struct Occasion {
    /// Made when the run began, and kept by `--resume`.
    pub id: String,
    /// When it began: RFC 3339, UTC.
    pub begun: String,
    /// How long its last session took, seconds.
    pub wall_seconds: f64,
    /// Its folder.
    pub folder: String,
    /// The version of this program.
    pub fidelity: String,
}

/// What is kept of a verdict.
#[must_use]
pub fn remember(verdict: &Verdict, occasion: Occasion) -> PastRun {
    let Occasion { id, begun, wall_seconds, folder, fidelity } = occasion;
    let device = &verdict.arms.device;
    PastRun {
        id,
        begun,
        wall_seconds,
        folder,
        checkpoint: verdict.checkpoint.name.clone(),
        arm: arm(&device.arm),
        injected: injected(device),
        verdict: verdict.verdict,
        exit_code: verdict.exit_code,
        reason: verdict.reason.clone(),
        diagnosis: verdict.diagnosis.as_ref().map(|diagnosis| match diagnosis.names_a_fault() {
            true => diagnosis.as_fault(),
            false => diagnosis.name.clone(),
        }),
        versions: versions(verdict, fidelity),
        scopes: verdict.scopes.iter().map(|(scope, result)| (*scope, past_scope(result))).collect(),
    }
}

fn arm(arm: &Arm) -> String {
    format!("{} {}", arm.kind, arm.name).trim_end().to_owned()
}

/// Everything that is not declared numerics.
fn injected(device: &ArmIdentity) -> String {
    let injected = device.deviations.iter().filter(|deviation| deviation.kind != "emulation");
    let names = injected.map(|deviation| {
        let parameters: BTreeMap<_, _> = deviation.parameters.iter().collect();
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| format!("{name} {}", text(value))).collect();
        match parameters.is_empty() {
            true => deviation.name.clone(),
            false => format!("{} ({})", deviation.name, parameters.join("; ")),
        }
    });
    names.collect::<Vec<_>>().join(", ")
}

fn versions(verdict: &Verdict, fidelity: String) -> BTreeMap<String, String> {
    let device = &verdict.arms.device;
    // Beside a device, the recipe is that of the emulator.
    let beside = verdict.attribution.as_ref().map(|attribution| &attribution.emulator);
    let numerics = [Some(device), beside].into_iter().flatten().flat_map(|arm| &arm.deviations);
    let numerics: Vec<_> = numerics.filter(|deviation| deviation.kind == "emulation").collect();
    let of_recipe = |key: &str| numerics.iter().find_map(|deviation| deviation.parameters.get(key)).map(text);
    let of_arm = |key: &str| device.arm.detail.get(key).filter(|value| !value.is_null()).map(text);
    let known = [
        ("weights", verdict.checkpoint.weights_sha256.clone()),
        ("prompts", Some(prompts(verdict))),
        ("recipe", of_recipe("recipe_sha256")),
        ("ranges", of_recipe("ranges_sha256")),
        ("HEF", of_arm("hef_sha256")),
        ("DFC", of_arm("dfc")),
        ("HailoRT", of_arm("hailort")),
        ("firmware", of_arm("firmware")),
        ("driver", of_arm("driver")),
        ("fidelity", Some(fidelity)),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// SHA-256 of ids and tokens: the same text cut into other tokens is another prompt.
fn prompts(verdict: &Verdict) -> String {
    let prompts: Vec<_> = verdict.prompts.iter().map(|prompt| (&prompt.id, &prompt.token_ids)).collect();
    hex(&Sha256::digest(json!(prompts).to_string()))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn past_scope(result: &ScopeResult) -> PastScope {
    PastScope {
        verdict: result.verdict,
        rows: result.coverage.rows_compared,
        first_bad_site: result.first_bad_site.map(|site| site.to_string()),
        estimates: result.sites.get(&result.judged_site).map(estimates).unwrap_or_default(),
    }
}

fn estimates(site: &SiteResult) -> BTreeMap<String, PastEstimate> {
    let of_rows = [
        ("cosine", &site.cosine),
        ("pearson", &site.pearson),
        ("centred_cosine", &site.centred_cosine),
        ("relative_l2", &site.relative_l2),
        ("nmse", &site.nmse),
        ("norm_ratio", &site.norm_ratio),
    ];
    let of_rows = of_rows.into_iter().filter_map(|(name, summary)| Some((name, mean((*summary)?))));
    let of_logits = site.logits.iter().flat_map(of_logits);
    // SQLite would keep a NaN as nothing at all.
    let finite = of_rows.chain(of_logits).filter(|(_, estimate)| estimate.value.is_finite());
    finite.map(|(name, estimate)| (name.to_owned(), estimate)).collect()
}

fn of_logits(logits: &LogitsResult) -> impl Iterator<Item = (&'static str, PastEstimate)> {
    let rate = |rate: &Rate| rate.rate.map(|value| PastEstimate { value, interval: rate.interval, n: rate.n });
    let strict = logits.top1.rate_strict.map(|value| PastEstimate { value, interval: None, n: logits.top1.n });
    let found = [
        ("kl", logits.kl.map(mean)),
        ("top1", rate(&logits.top1)),
        ("top1_strict", strict),
        ("top5", rate(&logits.top5)),
    ];
    found.into_iter().filter_map(|(name, estimate)| Some((name, estimate?)))
}

fn mean(summary: Summary) -> PastEstimate {
    PastEstimate { value: summary.mean, interval: summary.interval, n: summary.n }
}
