//! One site of one scope, over all prompts.

use fidelity_trace::Site;
use fidelity_verdict::{Agreement, LogitsResult, SiteResult, Summary};

use crate::{
    bootstrap::Resamples,
    logits::{LogitsMetrics, LogitsRow},
    prompt::{ScopeComparison, SiteRow},
    row::RowMetrics,
    summary::{rate, summarise},
};

/// Summarises a site; `prompts` has one entry a prompt.
pub(crate) fn conclude_site(site: Site, prompts: &[&ScopeComparison], resamples: &Resamples) -> SiteResult {
    let by_prompt: Vec<&[SiteRow]> = prompts.iter().map(|prompt| rows_of(prompt, site)).collect();
    let count = |wanted: fn(Option<&RowMetrics>) -> bool| {
        by_prompt.iter().copied().flatten().filter(|row| wanted(row.metrics.as_ref())).count()
    };
    let summary = |metric: fn(&RowMetrics) -> Option<f64>| {
        let defined = |rows: &&[SiteRow]| rows.iter().filter_map(|row| metric(row.metrics.as_ref()?)).collect();
        summarise(&by_prompt.iter().map(defined).collect::<Vec<_>>(), resamples)
    };
    SiteResult {
        rows: count(|_| true),
        non_finite_rows: count(|row| row.is_none()),
        constant_rows: count(|row| row.is_some_and(|row| row.constant)),
        exact_rows: count(|row| row.is_some_and(|row| row.exact)),
        cosine: summary(|row| row.cosine),
        pearson: summary(|row| row.pearson),
        centred_cosine: (site == Site::FinalNorm).then(|| conclude_centred(prompts, resamples)).flatten(),
        relative_l2: summary(|row| row.relative_l2),
        nmse: summary(|row| row.nmse),
        sqnr_db: summary(|row| row.sqnr_db),
        max_abs: summary(|row| Some(row.max_abs)),
        norm_ratio: summary(|row| row.norm_ratio),
        logits: (site == Site::Logits).then(|| conclude_logits(prompts, resamples)),
    }
}

/// The compared rows of a site; none where the prompt does not have it.
pub(crate) fn rows_of(prompt: &ScopeComparison, site: Site) -> &[SiteRow] {
    prompt.sites.get(&site).map(Vec::as_slice).unwrap_or_default()
}

/// Absent where nothing was centred, as in a decoder.
fn conclude_centred(prompts: &[&ScopeComparison], resamples: &Resamples) -> Option<Summary> {
    let defined = |prompt: &&ScopeComparison| prompt.centred.iter().copied().flatten().collect();
    summarise(&prompts.iter().map(defined).collect::<Vec<_>>(), resamples)
}

fn conclude_logits(prompts: &[&ScopeComparison], resamples: &Resamples) -> LogitsResult {
    let choices = |choice: fn(&LogitsRow) -> Agreement| {
        let by_prompt = prompts.iter().map(|prompt| prompt.logits.iter().map(choice).collect());
        rate(&by_prompt.collect::<Vec<_>>(), resamples)
    };
    let summary = |metric: fn(&LogitsMetrics) -> Option<f64>| -> Option<Summary> {
        let defined =
            |prompt: &&ScopeComparison| prompt.logits.iter().filter_map(|row| metric(row.metrics.as_ref()?)).collect();
        summarise(&prompts.iter().map(defined).collect::<Vec<_>>(), resamples)
    };
    LogitsResult {
        kl: summary(|row| Some(row.kl)),
        top1: choices(|row| row.top1),
        top5: choices(|row| row.top5),
        rank: summary(|row| Some(f64::from(row.rank))),
        delta_log_prob: summary(|row| Some(row.delta_log_prob)),
        perplexity_ratio: summary(|row| row.target_gap).map(|gap| perplexity_ratio(gap.mean)),
    }
}

/// exp(mean gap); a ratio beyond the range of f64 is its largest number, since JSON has no infinity.
fn perplexity_ratio(mean_gap_nats: f64) -> f64 {
    mean_gap_nats.exp().min(f64::MAX)
}
