//! The page of an advice.

use fidelity_verdict::{Advice, AdviceConclusion};
use serde::Serialize;

use crate::{
    ReportError,
    advice::{
        blocks, bytes, in_every_block, prompts, proof_rows, similarity, similarity_name, target, top1, what,
        worst_by_kind,
    },
    identity::checkpoint_name,
    numbers::or_absent,
    text::printable,
};

/// What the template is filled with.
#[derive(Serialize)]
pub(super) struct AdvicePage {
    checkpoint: String,
    recipe: String,
    conclusion: &'static str,
    /// The class that colours the banner.
    colour: &'static str,
    symbol: &'static str,
    reason: String,
    exit_code: u8,
    facts: Vec<[String; 2]>,
    similarity: &'static str,
    proof: Vec<Vec<String>>,
    lines: Option<String>,
    cost: String,
    kinds: Vec<Vec<String>>,
    ends: String,
    remedies: Vec<Vec<String>>,
    steps: Vec<Vec<String>>,
    sites: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl AdvicePage {
    pub(super) fn of(advice: &Advice) -> Result<Self, ReportError> {
        let (colour, symbol) = match advice.conclusion {
            AdviceConclusion::Reached | AdviceConclusion::AlreadyReached => ("faithful", "✓"),
            AdviceConclusion::NotReached => ("broken", "✗"),
            AdviceConclusion::Inconclusive => ("inconclusive", "?"),
        };
        let facts = [
            ("checkpoint", checkpoint_name(&advice.checkpoint)),
            ("recipe", printable(&format!("{} ({})", advice.recipe, advice.recipe_sha256))),
            ("calibration", printable(&advice.calibration)),
            ("target", target(advice)),
            ("prompts", prompts(advice)),
        ];
        let advised = advice.advised.as_ref();
        let cost = advised.map(|advised| {
            let on = similarity(Some(&advised.trial));
            let rate = top1(Some(&advised.trial));
            format!(
                "{} more a token; {on} (top-1 {rate}) on the search prompts, after {} trials",
                bytes(advised.trial.bytes),
                advice.trials
            )
        });
        let ends = format!(
            "The recipe as it is {} (top-1 {}), everything promoted {} (top-1 {}).",
            similarity(Some(&advice.of_recipe)),
            top1(Some(&advice.of_recipe)),
            similarity(Some(&advice.of_everything)),
            top1(Some(&advice.of_everything)),
        );
        Ok(Self {
            checkpoint: checkpoint_name(&advice.checkpoint),
            recipe: printable(&advice.recipe),
            conclusion: advice.conclusion.name(),
            colour,
            symbol,
            reason: printable(&advice.reason),
            exit_code: advice.exit_code,
            facts: facts.map(|(name, value)| [name.to_owned(), value]).to_vec(),
            similarity: similarity_name(advice),
            proof: proof_rows(advice),
            lines: advised.map(|advised| advised.lines.join("\n")),
            cost: cost.unwrap_or_default(),
            kinds: kinds(advice),
            ends,
            remedies: remedies(advice),
            steps: steps(advice),
            sites: sites(advice),
            notes: advice.notes.iter().map(|note| printable(note)).collect(),
        })
    }
}

fn kinds(advice: &Advice) -> Vec<Vec<String>> {
    let of_kind = |kind: &fidelity_verdict::KindEffect| {
        vec![
            kind.kind.clone(),
            what(kind.what).to_owned(),
            format!("{} → {}", kind.bits, kind.promoted_bits),
            similarity(kind.alone_low.as_ref()),
            top1(kind.alone_low.as_ref()),
            similarity(kind.alone_promoted.as_ref()),
            top1(kind.alone_promoted.as_ref()),
            bytes(kind.bytes),
            blocks(&kind.advised, in_every_block(&kind.advised, advice)),
        ]
    };
    advice.kinds.iter().map(of_kind).collect()
}

fn remedies(advice: &Advice) -> Vec<Vec<String>> {
    let of_remedy = |remedy: &fidelity_verdict::Remedy| {
        vec![
            printable(&remedy.name),
            remedy.line.as_deref().map_or_else(|| "–".to_owned(), printable),
            similarity(Some(&remedy.of_recipe)),
            top1(Some(&remedy.of_recipe)),
            similarity(remedy.of_advised.as_ref()),
            top1(remedy.of_advised.as_ref()),
        ]
    };
    advice.remedies.iter().map(of_remedy).collect()
}

fn steps(advice: &Advice) -> Vec<Vec<String>> {
    let of_step = |step: &fidelity_verdict::AdviceStep| {
        vec![
            step.back.clone(),
            similarity(Some(&step.trial)),
            top1(Some(&step.trial)),
            bytes(step.trial.bytes),
            if step.kept { "kept" } else { "taken back" }.to_owned(),
        ]
    };
    advice.steps.iter().map(of_step).collect()
}

fn sites(advice: &Advice) -> Vec<Vec<String>> {
    let decibels = |value: Option<f64>| or_absent(value, |value| format!("{value:.1}"));
    let of_site = |(site, found): (fidelity_trace::Site, &fidelity_verdict::SiteSqnr)| {
        vec![
            site.to_string(),
            found.bits.map_or_else(|| "–".to_owned(), |bits| bits.to_string()),
            decibels(found.local_db),
            decibels(found.cumulative_db),
        ]
    };
    worst_by_kind(advice).into_iter().map(of_site).collect()
}
