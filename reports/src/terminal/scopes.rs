//! Scopes × metrics of what was judged.

use fidelity_trace::{Scope, Site};
use fidelity_verdict::{LogitsResult, ScopeResult, SiteResult, Verdict};

use super::{
    Paint, Style,
    table::{Align, Column, Row, Table},
};
use crate::{
    judged,
    numbers::{ABSENT, correlation_interval, magnitude, or_absent, rate},
};

/// Columns of numbers, most important first.
const OF_LOGITS: [&str; 7] = ["rows", "Pearson", "worst row", "top-1", "ties", "flips", "KL, nats"];
const OF_HIDDEN: [&str; 6] = ["rows", "centred cosine", "worst row", "plain", "relative L2", "pooled"];

pub(super) fn section(verdict: &Verdict, style: Style) -> Vec<String> {
    if verdict.scopes.is_empty() {
        return vec!["No scope was compared.".to_owned()];
    }
    let hidden = judged::is_encoder(verdict);
    let rows = verdict.scopes.iter().map(|(scope, result)| Row {
        cells: cells(*scope, result, hidden),
        below: [interval(result), first_bad(result), left_out(result)].into_iter().flatten().collect(),
    });
    Table { columns: columns(hidden).collect(), rows: rows.collect() }.lines(style)
}

/// The columns of [`cells`].
pub(super) fn columns(hidden: bool) -> impl Iterator<Item = Column> {
    let right: &[&str] = if hidden { &OF_HIDDEN } else { &OF_LOGITS };
    let left = ["scope", "verdict"].map(|name| Column { name, align: Align::Left });
    left.into_iter().chain(right.iter().map(|name| Column { name, align: Align::Right }))
}

/// A scope's name, verdict and what was judged in numbers.
pub(super) fn cells(scope: Scope, result: &ScopeResult, hidden: bool) -> Vec<(String, Paint)> {
    let head = [(scope.to_string(), Paint::Strong), (result.verdict.to_string(), Paint::of(result.verdict))];
    let numbers = if hidden { of_hidden(result) } else { of_logits(result) };
    head.into_iter().chain(numbers.into_iter().map(|text| (text, Paint::Plain))).collect()
}

fn of_logits(result: &ScopeResult) -> Vec<String> {
    let logits = judged::site(result).and_then(|site| site.logits.as_ref());
    let of_logits = |write: &dyn Fn(&LogitsResult) -> String| logits.map_or_else(|| ABSENT.to_owned(), write);
    vec![
        result.coverage.rows_compared.to_string(),
        judged::correlation(result, |summary| summary.mean),
        judged::correlation(result, |summary| summary.min),
        of_logits(&|logits| rate(&logits.top1)),
        of_logits(&|logits| logits.top1.ties.to_string()),
        of_logits(&|logits| logits.top1.flips.to_string()),
        of_logits(&|logits| or_absent(logits.kl.map(|kl| kl.mean), magnitude)),
    ]
}

fn of_hidden(result: &ScopeResult) -> Vec<String> {
    let error = judged::site(result).and_then(|site| site.relative_l2);
    vec![
        result.coverage.rows_compared.to_string(),
        judged::correlation(result, |summary| summary.mean),
        judged::correlation(result, |summary| summary.min),
        judged::plain_cosine(result, result.judged_site, |summary| summary.mean),
        or_absent(error.map(|error| error.mean), magnitude),
        judged::plain_cosine(result, Site::Pooled, |summary| summary.mean),
    ]
}

fn interval(result: &ScopeResult) -> Option<String> {
    let name = judged::similarity_name(result);
    Some(match judged::similarity(result)?.interval {
        Some(interval) => format!("95 % interval of {name} {} over prompts", correlation_interval(interval)),
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
    let (coverage, site) = (&result.coverage, judged::site(result));
    let count = |pick: fn(&SiteResult) -> usize| site.map_or(0, pick);
    let counts = [
        (count(|site| site.non_finite_rows), "not finite"),
        (count(|site| site.constant_rows), "constant"),
        (coverage.rows_missing, "missing"),
        (coverage.rows_other_token, "of another token"),
        (coverage.rows_reference_not_finite, "not finite in the reference"),
    ];
    let counts: Vec<_> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!counts.is_empty()).then(|| format!("rows: {}", counts.join(", ")))
}
