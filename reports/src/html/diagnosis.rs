//! What the page shows of a diagnosis, already in words.

use fidelity_verdict::{Outcome, Verdict};
use serde::Serialize;

use super::page::{Fact, fact, symbol};
use crate::{
    diagnosis::{explanations, facts, scopes, title},
    text::printable,
};

#[derive(Serialize)]
pub(super) struct DiagnosisView {
    title: String,
    sentence: String,
    explanations: Vec<ExplanationView>,
    facts: Vec<Fact>,
    scopes: Vec<ScopeErrorView>,
    evidence: Vec<String>,
    remedy: String,
    next: Vec<String>,
    confirm: Option<String>,
}

#[derive(Serialize)]
struct ExplanationView {
    fault: String,
    score: String,
    residual: String,
    named: bool,
}

#[derive(Serialize)]
struct ScopeErrorView {
    name: String,
    nmse: String,
    verdict: Option<&'static str>,
    symbol: Option<&'static str>,
}

impl DiagnosisView {
    pub(super) fn of(verdict: &Verdict) -> Option<Self> {
        let diagnosis = verdict.diagnosis.as_ref()?;
        let explanations = explanations(diagnosis).into_iter().map(|explanation| ExplanationView {
            fault: explanation.fault,
            score: explanation.score,
            residual: explanation.residual,
            named: explanation.named,
        });
        let scopes = scopes(verdict, diagnosis).into_iter().map(|scope| ScopeErrorView {
            name: scope.scope,
            nmse: scope.nmse,
            verdict: scope.verdict.map(Outcome::name),
            symbol: scope.verdict.map(symbol),
        });
        let printed = |texts: &[String]| texts.iter().map(|text| printable(text)).collect();
        Some(Self {
            title: title(verdict, diagnosis),
            sentence: printable(&diagnosis.sentence),
            explanations: explanations.collect(),
            facts: facts(diagnosis).into_iter().map(|(name, text)| fact(name, text)).collect(),
            scopes: scopes.collect(),
            evidence: printed(&diagnosis.evidence),
            remedy: printable(&diagnosis.remedy),
            next: printed(&diagnosis.next),
            confirm: diagnosis.confirm.as_deref().map(printable),
        })
    }
}
