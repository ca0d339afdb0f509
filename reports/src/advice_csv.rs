//! An advice as CSV.

use fidelity_verdict::{Advice, Trial};

use crate::advice::{blocks, what};

/// One line a kind.
#[must_use]
pub fn advice_kinds_csv(advice: &Advice) -> String {
    let header = [
        "kind",
        "of",
        "bits",
        "promoted_bits",
        "bytes_a_token",
        "alone_low",
        "alone_low_top1",
        "alone_promoted",
        "alone_promoted_top1",
        "advised_blocks",
    ];
    let rows = advice.kinds.iter().map(|kind| {
        let of = |trial: &Option<Trial>, pick: fn(&Trial) -> Option<f64>| number(trial.as_ref().and_then(pick));
        [
            kind.kind.clone(),
            what(kind.what).to_owned(),
            kind.bits.to_string(),
            kind.promoted_bits.to_string(),
            number(Some(kind.bytes)),
            of(&kind.alone_low, |trial| trial.similarity),
            of(&kind.alone_low, |trial| trial.top1),
            of(&kind.alone_promoted, |trial| trial.similarity),
            of(&kind.alone_promoted, |trial| trial.top1),
            blocks(&kind.advised, false),
        ]
    });
    crate::csv::lines(&header, rows)
}

/// One line a step of the search.
#[must_use]
pub fn advice_steps_csv(advice: &Advice) -> String {
    let rows = advice.steps.iter().map(|step| {
        [
            step.back.clone(),
            number(step.trial.similarity),
            number(step.trial.top1),
            number(Some(step.trial.bytes)),
            step.kept.to_string(),
        ]
    });
    crate::csv::lines(&["back_to_the_recipes_bits", "similarity", "top1", "bytes_a_token", "kept"], rows)
}

/// One line a site.
#[must_use]
pub fn advice_sites_csv(advice: &Advice) -> String {
    let rows = advice.sites.iter().map(|(site, found)| {
        [
            site.to_string(),
            found.bits.map_or_else(String::new, |bits| bits.to_string()),
            number(found.local_db),
            number(found.cumulative_db),
        ]
    });
    crate::csv::lines(&["site", "bits", "local_sqnr_db", "cumulative_sqnr_db"], rows)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
