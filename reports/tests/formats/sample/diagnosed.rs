//! Diagnoses of synthetic runs.

use std::collections::BTreeMap;

use fidelity_trace::{BlockSite, FaultFamily, Scope, Site};
use fidelity_verdict::{BadSite, CLEAN, Candidate, Diagnosis, Margin, UNEXPLAINED, Verdict};

use super::{HOSTILE, broken};

fn candidate(fault: &str, score: f64, residual: f64) -> Candidate {
    let name = fault.split(['@', '=']).next().unwrap_or_default();
    Candidate { fault: fault.into(), name: name.into(), score, residual }
}

/// What the sample `broken` is.
pub(super) fn gqa_tile() -> Diagnosis {
    let runner_up = candidate("softmax_across_heads@2", 0.71, 0.62);
    Diagnosis {
        name: "gqa_tile".into(),
        family: Some(FaultFamily::At),
        block: Some(2),
        parameter: None,
        sentence: "In block 2, query head h reads kv head h mod 4 (tile) instead of h div 2 (repeat).".into(),
        score: Some(0.999_93),
        residual: Some(1.4e-4),
        margin: Some(Margin { difference: 0.62, standard_error: Some(0.021), prompts: 16 }),
        runner_up: Some(runner_up.clone()),
        clean: candidate(CLEAN, 0.59, 0.81),
        ranked: vec![candidate("gqa_tile@2", 0.999_93, 1.4e-4), runner_up, candidate("rope_twice@2", 0.64, 0.7)],
        equivalent: Vec::new(),
        first_bad_site: Some(BadSite {
            scope: Scope::Base,
            site: Site::Block(2, BlockSite::ResidMid),
            after: Some(Site::Block(1, BlockSite::ResidPost)),
        }),
        scopes: BTreeMap::from([(Scope::Base, 0.81), (Scope::Prefill, 5.1e-5), (Scope::Tbt, 0.79)]),
        evidence: vec![
            "The reference with gqa_tile in block 2 computes what the arm does: NMSE 1.4e-4.".into(),
            "The first position is wrong already, where a head has one key to see: not RoPE, not the mask.".into(),
        ],
        next: vec![
            "Run one token: it must be wrong as well.".into(),
            "Dump blocks.2.z and compare it head by head.".into(),
        ],
        remedy: "Repeat each kv head for its group of query heads (repeat_interleave), do not tile them.".into(),
        confirm: Some("fidelity run --checkpoint demo --recipe none --fault gqa_tile@2".into()),
        predicted_by: "reference".into(),
        passes: 41.5,
        probes: Vec::new(),
    }
}

/// A broken run that no fault explains.
pub(crate) fn unexplained() -> Verdict {
    let found = Diagnosis {
        name: UNEXPLAINED.into(),
        family: None,
        block: None,
        sentence: "No fault of the bank computes what the arm does.".into(),
        score: Some(0.71),
        residual: Some(0.62),
        margin: Some(Margin { difference: 0.02, standard_error: None, prompts: 1 }),
        remedy: String::new(),
        confirm: None,
        evidence: vec!["The closest prediction leaves an NMSE of 0.62, far more than quantisation does.".into()],
        ranked: vec![candidate("softmax_across_heads@2", 0.71, 0.62), candidate(CLEAN, 0.59, 0.81)],
        runner_up: Some(candidate(CLEAN, 0.59, 0.81)),
        ..gqa_tile()
    };
    Verdict { diagnosis: Some(found), ..broken() }
}

/// A broken run whose recipe does it.
pub(crate) fn recipe_alone() -> Verdict {
    let found = Diagnosis {
        name: CLEAN.into(),
        sentence: "the recipe a8w8 alone predicts this".into(),
        predicted_by: "emulator a8w8".into(),
        ranked: vec![candidate(CLEAN, 0.999_99, 1e-5), candidate("int4_group", 0.7, 0.6)],
        clean: candidate(CLEAN, 0.999_99, 1e-5),
        runner_up: Some(candidate("int4_group", 0.7, 0.6)),
        evidence: Vec::new(),
        next: Vec::new(),
        ..unexplained().diagnosis.expect("made above")
    };
    Verdict { diagnosis: Some(found), ..broken() }
}

/// A diagnosis of which every text is [`HOSTILE`], and every number as bad as can be.
pub(super) fn hostile() -> Diagnosis {
    let text = || HOSTILE.to_owned();
    let candidate = || Candidate { fault: text(), name: text(), score: -1.0, residual: 1e300 };
    Diagnosis {
        name: text(),
        parameter: Some(text()),
        sentence: text(),
        runner_up: Some(candidate()),
        clean: candidate(),
        ranked: vec![candidate(), candidate()],
        equivalent: vec![text()],
        evidence: vec![text()],
        next: vec![text()],
        remedy: text(),
        confirm: Some(text()),
        predicted_by: text(),
        passes: 0.0,
        probes: Vec::new(),
        ..gqa_tile()
    }
}
