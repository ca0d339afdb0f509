//! What the template shows, already in words.

use fidelity_trace::Status;
use fidelity_verdict::{ArmIdentity, Outcome, Verdict};
use serde::Serialize;

use super::{
    attribution::AttributionView,
    diagnosis::DiagnosisView,
    environment::environment,
    gate::GateView,
    heatmap::{Swatch, legend},
    history::SeriesView,
    quantisation::QuantisationView,
    scope::ScopeView,
    strip::StripsView,
};
use crate::{
    Circumstances, ReportError, generated,
    identity::{checkpoint_name, deviation, is_expected, is_injected, name_in_role, plain, prompt_counts, sorted},
    judged,
    numbers::magnitude,
    text::{printable, truncated},
};

/// How many prompts are shown side by side.
const GENERATED_SHOWN: usize = 4;
/// How many prompts are listed.
const PROMPTS_LISTED: usize = 100;
/// Characters of a prompt shown.
const PROMPT_LENGTH: usize = 600;

#[derive(Serialize)]
pub(super) struct Page {
    verdict: &'static str,
    symbol: &'static str,
    reason: String,
    expected: bool,
    exit_code: u8,
    /// Hidden rows were judged: there are no numbers of logits.
    encoder: bool,
    checkpoint: String,
    prompt_counts: String,
    arms: [ArmView; 2],
    injected: Vec<String>,
    gate: Option<GateView>,
    diagnosis: Option<DiagnosisView>,
    attribution: Option<AttributionView>,
    scopes: Vec<ScopeView>,
    generated: Option<GeneratedView>,
    tokens: Option<StripsView>,
    quantisation: Option<QuantisationView>,
    legend: Vec<Swatch>,
    notes: Vec<String>,
    thresholds: Vec<Fact>,
    thresholds_reason: Option<String>,
    bootstrap: String,
    environment: Vec<Fact>,
    checkpoint_facts: Vec<Fact>,
    prompts: Vec<PromptView>,
    prompts_left_out: usize,
    past: Option<SeriesView>,
    reproduce: String,
}

#[derive(Serialize)]
pub(super) struct Fact {
    name: String,
    value: String,
}

#[derive(Serialize)]
struct ArmView {
    role: &'static str,
    name: String,
    deviations: Vec<String>,
    facts: Vec<Fact>,
}

#[derive(Serialize)]
struct GeneratedView {
    total: usize,
    pairs: Vec<PairView>,
}

#[derive(Serialize)]
struct PairView {
    prompt_id: String,
    prompt_text: Option<String>,
    summary: String,
    sides: [SideView; 2],
}

#[derive(Serialize)]
struct SideView {
    name: &'static str,
    shared: String,
    own: String,
}

#[derive(Serialize)]
struct PromptView {
    id: String,
    tokens: usize,
    status: &'static str,
    error: String,
    text: String,
}

impl Page {
    pub(super) fn of(verdict: &Verdict, among: &Circumstances<'_>) -> Result<Self, ReportError> {
        let Circumstances { reproduce, past, machine, gate } = *among;
        let arms = &verdict.arms;
        let injected =
            arms.reference.deviations.iter().chain(&arms.device.deviations).filter(|applied| is_injected(applied));
        let scopes = verdict.scopes.iter().map(|(scope, result)| ScopeView::of(verdict, *scope, result));
        Ok(Self {
            verdict: verdict.verdict.name(),
            symbol: symbol(verdict.verdict),
            reason: printable(&verdict.reason),
            expected: is_expected(verdict),
            exit_code: verdict.exit_code,
            encoder: judged::is_encoder(verdict),
            checkpoint: checkpoint_name(&verdict.checkpoint),
            prompt_counts: prompt_counts(verdict),
            arms: [ArmView::of("reference", &arms.reference), ArmView::of("device", &arms.device)],
            injected: injected.map(deviation).collect(),
            gate: gate.map(GateView::of),
            diagnosis: DiagnosisView::of(verdict),
            attribution: verdict.attribution.as_ref().map(AttributionView::of),
            scopes: scopes.collect::<Result<_, _>>()?,
            generated: generated_view(verdict),
            tokens: StripsView::of(verdict),
            quantisation: QuantisationView::of(verdict),
            legend: legend(),
            notes: verdict.notes.iter().map(|note| printable(note)).collect(),
            thresholds: thresholds(verdict),
            thresholds_reason: verdict.thresholds.reason.as_deref().map(printable),
            bootstrap: format!("{} resamples, seed {}", verdict.bootstrap.resamples, verdict.bootstrap.seed),
            environment: environment(verdict, machine),
            checkpoint_facts: checkpoint_facts(verdict),
            prompts: prompts(verdict),
            prompts_left_out: verdict.prompts.len().saturating_sub(PROMPTS_LISTED),
            // One run is no history.
            past: (past.len() > 1).then(|| SeriesView::of(&past.iter().collect::<Vec<_>>())).transpose()?,
            reproduce: printable(reproduce),
        })
    }
}

/// A sign that tells verdicts apart without colour.
pub(crate) const fn symbol(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Faithful => "✓",
        Outcome::Inconclusive => "?",
        Outcome::Degraded => "≈",
        Outcome::Broken => "✗",
    }
}

impl ArmView {
    fn of(role: &'static str, identity: &ArmIdentity) -> Self {
        let mut facts: Vec<_> = sorted(&identity.arm.detail)
            .map(|(name, value)| fact(&printable(name), printable(&plain(value))))
            .collect();
        facts.extend(identity.logits_step.as_ref().map(|steps| {
            let steps: Vec<_> = steps.iter().map(|step| magnitude(*step)).collect();
            fact("logit step by shard", steps.join(", "))
        }));
        Self {
            role,
            name: name_in_role(role, &identity.arm),
            deviations: identity.deviations.iter().map(deviation).collect(),
            facts,
        }
    }
}

pub(super) fn fact(name: &str, value: String) -> Fact {
    Fact { name: name.to_owned(), value }
}

fn generated_view(verdict: &Verdict) -> Option<GeneratedView> {
    let generated = verdict.generated.as_ref().filter(|generated| !generated.prompts.is_empty())?;
    let pairs = generated::pairs(verdict, generated, GENERATED_SHOWN).into_iter().map(|pair| PairView {
        prompt_id: pair.prompt_id,
        prompt_text: pair.prompt_text.map(|text| truncated(&text, PROMPT_LENGTH)),
        summary: pair.summary,
        sides: [("reference", pair.reference), ("device", pair.device)].map(|(name, text)| SideView {
            name,
            shared: text.shared,
            own: text.own,
        }),
    });
    Some(GeneratedView { total: generated.prompts.len(), pairs: pairs.collect() })
}

fn thresholds(verdict: &Verdict) -> Vec<Fact> {
    let applied = &verdict.thresholds;
    let exact = |value: f64| format!("{value}");
    let encoder = judged::is_encoder(verdict);
    let pearson = if encoder { "centred cosine" } else { "Pearson" };
    let of_all = [
        fact(&format!("faithful from a mean {pearson} of"), exact(applied.faithful_pearson)),
        fact("… and norms of rows within a factor of", exact(applied.faithful_norm_factor)),
        fact(&format!("broken below a mean {pearson} of"), exact(applied.broken_pearson)),
        fact("inconclusive with fewer rows than", applied.minimum_rows.to_string()),
        fact("a site is bad above a median relative L2 of", exact(applied.bad_site_relative_l2)),
        fact("… and above the noise floor times", exact(applied.bad_site_noise_factor)),
        fact("the reference cannot judge above a noise floor of", exact(applied.judging_noise_floor)),
    ];
    let of_logits = [
        fact("faithful from a top-1 rate (with ties) of", exact(applied.faithful_top1)),
        fact("a generation can be degenerate from a length of", applied.degenerate_generation_length.to_string()),
        fact("… when it ends with one token repeated", applied.degenerate_repeats.to_string()),
    ];
    of_all.into_iter().chain(of_logits.into_iter().filter(|_| !encoder)).collect()
}

fn checkpoint_facts(verdict: &Verdict) -> Vec<Fact> {
    let checkpoint = &verdict.checkpoint;
    let known = [
        ("source", Some(&checkpoint.source).filter(|source| !source.is_empty())),
        ("revision", checkpoint.revision.as_ref()),
        ("weights SHA-256", checkpoint.weights_sha256.as_ref()),
    ];
    known.into_iter().filter_map(|(name, value)| Some(fact(name, printable(value?)))).collect()
}

fn prompts(verdict: &Verdict) -> Vec<PromptView> {
    let listed = verdict.prompts.iter().take(PROMPTS_LISTED);
    let view = listed.map(|prompt| PromptView {
        id: printable(&prompt.id),
        tokens: prompt.token_ids.len(),
        status: match prompt.status {
            Status::Ok => "ran",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
        },
        error: prompt.error.as_deref().map(printable).unwrap_or_default(),
        text: truncated(&printable(prompt.text.as_deref().unwrap_or_default()), PROMPT_LENGTH),
    });
    view.collect()
}
