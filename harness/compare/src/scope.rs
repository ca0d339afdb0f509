//! One scope over all prompts.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_trace::{BlockSite, Site, Status};
use fidelity_verdict::{BlockError, Coverage, Likely, Outcome, RowResult, ScopeResult, SiteResult};

use crate::{
    bootstrap::Resamples,
    conclude::Header,
    first_bad::first_bad_site,
    judge::judge,
    logits::LogitsRow,
    numbers::{rounded, rounded_near_one},
    profile::profile,
    prompt::{ScopeComparison, SiteRow},
    site::{conclude_site, rows_of},
    summary::median,
};

/// Concludes one scope; `prompts` has one entry a prompt of `header.prompts`.
pub(crate) fn conclude_scope(header: &Header, prompts: &[&ScopeComparison], resamples: &Resamples) -> ScopeResult {
    let compared: BTreeSet<Site> = prompts.iter().flat_map(|prompt| prompt.sites.keys()).copied().collect();
    let conclude = |site: Site| (site, conclude_site(site, prompts, resamples));
    let sites: BTreeMap<Site, SiteResult> = compared.into_iter().map(conclude).collect();
    let judged_site = header.network.judged_site();
    let coverage = coverage(header, prompts, &sites);
    let judged = judge(judged_site, &sites, &coverage, prompts, &header.thresholds);
    let finite = only_if_finite(judged, judged_site, &sites);
    let (verdict, reason) = only_if_quiet(finite, &sites, header);
    let bad = first_bad_site(&sites, &header.noise_floor, &header.thresholds);
    ScopeResult {
        verdict,
        reason,
        judged_site,
        first_bad_site: bad.as_ref().map(|bad| bad.site),
        first_bad_site_detail: bad,
        coverage,
        blocks: blocks(&sites, prompts),
        profile: profile(prompts),
        rows: rows(prompts, judged_site),
        sites,
        outside_range: BTreeMap::new(),
    }
}

/// Sound logits behind a residual stream of NaNs are not of one computation: that is no pass.
fn only_if_finite(
    (verdict, reason): (Outcome, String),
    judged: Site,
    sites: &BTreeMap<Site, SiteResult>,
) -> (Outcome, String) {
    let bad = sites.iter().find(|(_, result)| result.non_finite_rows > 0);
    match bad.filter(|_| verdict == Outcome::Faithful) {
        None => (verdict, reason),
        Some((site, result)) => {
            let count = result.non_finite_rows;
            (
                Outcome::Inconclusive,
                format!("{site} holds a NaN or an infinity in {count} rows, though {judged} does not: {reason}"),
            )
        }
    }
}

/// Noise makes ties of flips and good sites of bad ones: a reference that is far from its own float64 must not pass an arm.
fn only_if_quiet(
    (verdict, reason): (Outcome, String),
    sites: &BTreeMap<Site, SiteResult>,
    header: &Header,
) -> (Outcome, String) {
    let limit = header.thresholds.judging_noise_floor;
    let floor_of = |site: &Site| header.noise_floor.get(&site.to_string()).copied();
    let noisy = sites.keys().find_map(|site| floor_of(site).filter(|floor| *floor > limit).map(|floor| (site, floor)));
    match noisy.filter(|_| verdict == Outcome::Faithful) {
        None => (verdict, reason),
        Some((site, floor)) => {
            let found = format!("the reference is {floor:.2e} away from its own float64 at {site} and cannot judge");
            (Outcome::Inconclusive, format!("{found} (limit {limit:.0e}): {reason}"))
        }
    }
}

fn coverage(header: &Header, prompts: &[&ScopeComparison], sites: &BTreeMap<Site, SiteResult>) -> Coverage {
    let judged = header.network.judged_site();
    let sum = |count: &dyn Fn(&ScopeComparison) -> usize| prompts.iter().map(|prompt| count(prompt)).sum();
    let only_in_reference: BTreeSet<Site> = prompts
        .iter()
        .flat_map(|prompt| prompt.sites_missing.iter().chain(prompt.incomparable.keys()))
        .filter(|site| !sites.contains_key(site))
        .copied()
        .collect();
    Coverage {
        rows_compared: sum(&|prompt| rows_of(prompt, judged).len()),
        rows_missing: sum(&|prompt| prompt.rows_missing),
        rows_other_token: sum(&|prompt| prompt.rows_other_token),
        rows_reference_not_finite: sum(&|prompt| prompt.reference_not_finite.get(&judged).copied().unwrap_or(0)),
        prompts_compared: prompts.iter().filter(|prompt| !rows_of(prompt, judged).is_empty()).count(),
        prompts_missing: header.prompts.iter().filter(|prompt| prompt.status != Status::Ok).count(),
        sites_compared: sites.len(),
        sites_missing: only_in_reference.len(),
    }
}

fn blocks(sites: &BTreeMap<Site, SiteResult>, prompts: &[&ScopeComparison]) -> Vec<BlockError> {
    let local = |block: u32| {
        let errors = prompts.iter().filter_map(|prompt| prompt.local.get(&block)).flatten();
        median(errors.copied().collect())
    };
    let of_block = |(site, result): (&Site, &SiteResult)| match site {
        Site::Block(block, BlockSite::ResidPost) => {
            let cumulative = result.relative_l2.map(|summary| summary.p50);
            Some(BlockError { block: *block, cumulative, local: local(*block) })
        }
        Site::Embed | Site::Block(..) | Site::FinalNorm | Site::Logits | Site::Pooled => None,
    };
    sites.iter().filter_map(of_block).collect()
}

fn rows(prompts: &[&ScopeComparison], judged: Site) -> Vec<RowResult> {
    let of_prompt = |(prompt, comparison): (usize, &&ScopeComparison)| -> Vec<RowResult> {
        let ScopeComparison { logits, centred, .. } = comparison;
        let rows = rows_of(comparison, judged).iter().enumerate();
        let of_row = |(index, row)| row_result(prompt, row, logits.get(index), centred.get(index).copied().flatten());
        rows.map(of_row).collect()
    };
    prompts.iter().enumerate().flat_map(of_prompt).collect()
}

fn row_result(prompt: usize, row: &SiteRow, logits: Option<&LogitsRow>, centred: Option<f64>) -> RowResult {
    let metrics = logits.and_then(|logits| logits.metrics);
    let likely = |of: fn(&LogitsRow) -> &Vec<Likely>| {
        logits.map(of).into_iter().flatten().map(|(id, probability)| (*id, rounded(*probability))).collect()
    };
    RowResult {
        prompt,
        position: row.position,
        token_id: row.token_id,
        finite: row.metrics.is_some(),
        cosine: row.metrics.and_then(|row| row.cosine).map(rounded_near_one),
        pearson: row.metrics.and_then(|row| row.pearson).map(rounded_near_one),
        centred_cosine: centred.map(rounded_near_one),
        relative_l2: row.metrics.and_then(|row| row.relative_l2).map(rounded),
        nmse: row.metrics.and_then(|row| row.nmse).map(rounded),
        max_abs: row.metrics.map(|row| rounded(row.max_abs)),
        kl: metrics.map(|row| rounded(row.kl)),
        top1: logits.map(|logits| logits.top1),
        top5: logits.map(|logits| logits.top5),
        reference_choice: logits.map(|logits| logits.reference_choice),
        device_choice: metrics.map(|row| row.device_choice),
        rank: metrics.map(|row| row.rank),
        delta_log_prob: metrics.map(|row| rounded(row.delta_log_prob)),
        reference_top5: likely(|row| &row.reference_top5),
        device_top5: likely(|row| &row.device_top5),
    }
}
