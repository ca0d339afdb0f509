//! What the template of several arms shows, already in words.

use fidelity_trace::Scope;
use fidelity_verdict::{ScopeResult, Verdict};
use serde::Serialize;

use super::page::symbol;
use crate::{
    arms::{ArmReports, label, shared_layers},
    identity::{arm_phrase, checkpoint_name, is_expected, name_in_role, prompt_counts},
    judged,
    numbers::{ABSENT, magnitude, or_absent, rate},
    text::printable,
};

#[derive(Serialize)]
pub(super) struct ArmsPage {
    verdict: &'static str,
    symbol: &'static str,
    worst: String,
    reason: String,
    exit_code: u8,
    checkpoint: String,
    reference: String,
    arms: Vec<ArmRow>,
    /// Whether hidden rows were judged, of which there is nothing to say about logits.
    hidden: bool,
    layers_scope: String,
    layers: Vec<LayerRow>,
    reproduce: String,
}

#[derive(Serialize)]
struct ArmRow {
    label: String,
    name: String,
    folder: String,
    verdict: &'static str,
    symbol: &'static str,
    expected: bool,
    reason: String,
    prompts: String,
    scopes: Vec<ScopeRow>,
}

#[derive(Serialize)]
struct ScopeRow {
    name: String,
    verdict: &'static str,
    symbol: &'static str,
    rows: usize,
    pearson: String,
    worst: String,
    top1: String,
    flips: String,
    kl: String,
    first_bad: Option<String>,
}

#[derive(Serialize)]
struct LayerRow {
    name: String,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    text: String,
    first_bad: bool,
}

impl ArmsPage {
    pub(super) fn of(arms: &ArmReports<'_>, reproduce: &str) -> Self {
        let worst = arms.worst();
        let of_worst =
            |write: &dyn Fn(&Verdict) -> String| worst.map_or_else(String::new, |(_, verdict)| write(verdict));
        let first = |write: &dyn Fn(&Verdict) -> String| arms.verdicts.first().map_or_else(String::new, write);
        let outcome = worst.map_or(fidelity_verdict::Outcome::Inconclusive, |(_, verdict)| verdict.verdict);
        let (scope, layers) = layers(arms.verdicts);
        Self {
            verdict: outcome.name(),
            symbol: symbol(outcome),
            worst: worst.map_or_else(String::new, |(index, verdict)| {
                format!("{} {}, worst of {} arms", label(index), arm_phrase(&verdict.arms.device), arms.verdicts.len())
            }),
            reason: of_worst(&|verdict| printable(&verdict.reason)),
            exit_code: worst.map_or(0, |(_, verdict)| verdict.exit_code),
            checkpoint: first(&|verdict| checkpoint_name(&verdict.checkpoint)),
            reference: first(&|verdict| name_in_role("reference", &verdict.arms.reference.arm)),
            arms: arms.verdicts.iter().enumerate().map(|(index, verdict)| arm(index, verdict, arms.folders)).collect(),
            hidden: arms.verdicts.iter().any(judged::is_encoder),
            layers_scope: scope,
            layers,
            reproduce: printable(reproduce),
        }
    }
}

fn arm(index: usize, verdict: &Verdict, folders: &[String]) -> ArmRow {
    ArmRow {
        label: label(index),
        name: arm_phrase(&verdict.arms.device),
        folder: folders.get(index).cloned().unwrap_or_default(),
        verdict: verdict.verdict.name(),
        symbol: symbol(verdict.verdict),
        expected: is_expected(verdict),
        reason: printable(&verdict.reason),
        prompts: prompt_counts(verdict),
        scopes: verdict.scopes.iter().map(|(scope, result)| scope_row(*scope, result)).collect(),
    }
}

fn scope_row(scope: Scope, result: &ScopeResult) -> ScopeRow {
    let logits = judged::site(result).and_then(|site| site.logits.as_ref());
    let absent = || ABSENT.to_owned();
    ScopeRow {
        name: scope.to_string(),
        verdict: result.verdict.name(),
        symbol: symbol(result.verdict),
        rows: result.coverage.rows_compared,
        pearson: judged::correlation(result, |summary| summary.mean),
        worst: judged::correlation(result, |summary| summary.min),
        top1: logits.map_or_else(absent, |logits| rate(&logits.top1)),
        flips: logits.map_or_else(absent, |logits| logits.top1.flips.to_string()),
        kl: logits.map_or_else(absent, |logits| or_absent(logits.kl.map(|kl| kl.mean), magnitude)),
        first_bad: result.first_bad_site.map(|site| site.to_string()),
    }
}

fn layers(verdicts: &[Verdict]) -> (String, Vec<LayerRow>) {
    let Some((scope, shared)) = shared_layers(verdicts) else { return Default::default() };
    let rows = shared.into_iter().map(|layer| LayerRow {
        name: layer.name,
        cells: layer
            .outputs
            .into_iter()
            .map(|output| match output {
                None => Cell { text: ABSENT.to_owned(), first_bad: false },
                Some((value, first_bad)) => Cell { text: value.text, first_bad },
            })
            .collect(),
    });
    (scope.to_string(), rows.collect())
}
