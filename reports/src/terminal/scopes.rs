//! Scopes × metrics of logits.

use fidelity_trace::{Scope, Site};
use fidelity_verdict::{LogitsResult, ScopeResult, SiteResult, Verdict};

use super::{
    Paint, Style,
    table::{Align, Column, Row, Table},
};
use crate::numbers::{ABSENT, correlation_interval, magnitude, or_absent, rate, site_correlation};

pub(super) fn section(verdict: &Verdict, style: Style) -> Vec<String> {
    if verdict.scopes.is_empty() {
        return vec!["No scope was compared.".to_owned()];
    }
    let rows = verdict.scopes.iter().map(|(scope, result)| row(*scope, result)).collect();
    Table { columns: COLUMNS.map(|(name, align)| Column { name, align }).into(), rows }.lines(style)
}

/// The columns of [`logits_cells`], most important first.
pub(super) const COLUMNS: [(&str, Align); 9] = [
    ("scope", Align::Left),
    ("verdict", Align::Left),
    ("rows", Align::Right),
    ("Pearson", Align::Right),
    ("worst row", Align::Right),
    ("top-1", Align::Right),
    ("ties", Align::Right),
    ("flips", Align::Right),
    ("KL, nats", Align::Right),
];

fn row(scope: Scope, result: &ScopeResult) -> Row {
    let site = result.sites.get(&Site::Logits);
    Row {
        cells: logits_cells(scope, result),
        below: [interval(site), first_bad(result), left_out(result)].into_iter().flatten().collect(),
    }
}

/// A scope's name, verdict and logits in numbers.
pub(super) fn logits_cells(scope: Scope, result: &ScopeResult) -> Vec<(String, Paint)> {
    let site = result.sites.get(&Site::Logits);
    let logits = site.and_then(|site| site.logits.as_ref());
    let of_site = |write: &dyn Fn(&SiteResult) -> String| site.map_or_else(|| ABSENT.to_owned(), write);
    let of_logits = |write: &dyn Fn(&LogitsResult) -> String| logits.map_or_else(|| ABSENT.to_owned(), write);
    let plain = [
        result.coverage.rows_compared.to_string(),
        of_site(&|site| site_correlation(site, |summary| summary.mean)),
        of_site(&|site| site_correlation(site, |summary| summary.min)),
        of_logits(&|logits| rate(&logits.top1)),
        of_logits(&|logits| logits.top1.ties.to_string()),
        of_logits(&|logits| logits.top1.flips.to_string()),
        of_logits(&|logits| or_absent(logits.kl.map(|kl| kl.mean), magnitude)),
    ];
    let head = [(scope.to_string(), Paint::Strong), (result.verdict.to_string(), Paint::of(result.verdict))];
    head.into_iter().chain(plain.map(|text| (text, Paint::Plain))).collect()
}

fn interval(site: Option<&SiteResult>) -> Option<String> {
    let pearson = site?.pearson?;
    Some(match pearson.interval {
        Some(interval) => format!("95 % interval of Pearson {} over prompts", correlation_interval(interval)),
        None => "no interval: it needs two prompts or more".to_owned(),
    })
}

pub(super) fn first_bad(result: &ScopeResult) -> Option<String> {
    let site = result.first_bad_site?;
    let detail = result.first_bad_site_detail.as_ref().map_or_else(String::new, |detail| {
        let error = detail.median_relative_l2.map_or_else(|| "not finite".to_owned(), magnitude);
        format!(", median relative L2 {error}, noise floor {}", or_absent(detail.noise_floor, magnitude))
    });
    Some(format!("first bad site {site}{detail}"))
}

/// What keeps rows out of the numbers above.
pub(super) fn left_out(result: &ScopeResult) -> Option<String> {
    let site = result.sites.get(&Site::Logits);
    let coverage = &result.coverage;
    let counts = [
        (site.map_or(0, |site| site.non_finite_rows), "not finite"),
        (site.map_or(0, |site| site.constant_rows), "constant"),
        (coverage.rows_missing, "missing"),
        (coverage.rows_other_token, "of another token"),
        (coverage.rows_reference_not_finite, "not finite in the reference"),
    ];
    let counts: Vec<_> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!counts.is_empty()).then(|| format!("rows: {}", counts.join(", ")))
}
