//! What the template shows of one scope, already in words.

use fidelity_trace::{Scope, Site};
use fidelity_verdict::{RowResult, ScopeResult, SiteResult, Summary, Verdict};
use serde::Serialize;

use super::{curves, heatmap, page::symbol};
use crate::{
    ReportError, judged,
    layers::{Layer, has_layers, layers},
    numbers::{ABSENT, correlation, correlation_interval, magnitude, or_absent, rate},
    text::printable,
};

/// How many of the worst rows are listed.
const WORST_ROWS: usize = 8;

#[derive(Serialize)]
pub(super) struct ScopeView {
    name: &'static str,
    meaning: &'static str,
    verdict: &'static str,
    symbol: &'static str,
    reason: String,
    metrics: Metrics,
    first_bad: Option<String>,
    first_bad_detail: Option<String>,
    charts: Charts,
    layers: Vec<LayerView>,
    worst_rows: Vec<RowView>,
    coverage: Vec<(&'static str, usize)>,
}

/// The numbers of what was judged.
#[derive(Serialize)]
struct Metrics {
    rows: usize,
    not_finite: usize,
    constant: usize,
    exact: usize,
    pearson: String,
    interval: String,
    worst: String,
    kl: String,
    top1: String,
    top1_interval: String,
    ties: String,
    flips: String,
    top5: String,
    perplexity_ratio: String,
    /// Of hidden rows, not centred.
    plain: String,
    relative_l2: String,
    /// Of the one row a prompt.
    pooled: String,
    pooled_worst: String,
}

/// SVG elements, each absent when there is nothing to draw.
#[derive(Serialize)]
struct Charts {
    by_layer: Option<String>,
    pearson: Option<String>,
    kl: Option<String>,
    heatmap: Option<String>,
}

#[derive(Serialize)]
struct LayerView {
    name: String,
    middle: String,
    output: String,
    output_p95: String,
    local: String,
    noise: String,
    first_bad: Option<String>,
}

#[derive(Serialize)]
struct RowView {
    prompt: String,
    position: u32,
    token: u32,
    pearson: String,
    plain: String,
    relative_l2: String,
    kl: String,
    reference_choice: String,
    device_choice: String,
    rank: String,
}

impl ScopeView {
    pub(super) fn of(verdict: &Verdict, scope: Scope, result: &ScopeResult) -> Result<Self, ReportError> {
        Ok(Self {
            name: scope.name(),
            meaning: meaning(scope),
            verdict: result.verdict.name(),
            symbol: symbol(result.verdict),
            reason: printable(&result.reason),
            metrics: Metrics::of(result),
            first_bad: result.first_bad_site.map(|site| site.to_string()),
            first_bad_detail: first_bad_detail(result),
            charts: Charts::of(verdict, scope, result)?,
            layers: layers(verdict, result).into_iter().map(LayerView::from).collect(),
            worst_rows: worst_rows(verdict, result),
            coverage: coverage(result),
        })
    }
}

const fn meaning(scope: Scope) -> &'static str {
    match scope {
        Scope::Base => "The whole sequence at once, no cache.",
        Scope::Prefill => "The prompt into the KV-cache.",
        Scope::Tbt => "One token at a time through the KV-cache, fed the reference's choices.",
        Scope::TbtFree => "One token at a time, fed the arm's own choices.",
        Scope::TbtSelf => "One token at a time, each attending only to itself.",
    }
}

impl Metrics {
    fn of(result: &ScopeResult) -> Self {
        let site = judged::site(result);
        let logits = site.and_then(|site| site.logits.as_ref());
        let count = |pick: fn(&SiteResult) -> usize| site.map_or(0, pick);
        let pearson = |pick: fn(&Summary) -> f64| judged::correlation(result, pick);
        let plain = |of: Site, pick: fn(&Summary) -> f64| judged::plain_cosine(result, of, pick);
        let interval = judged::similarity(result).and_then(|pearson| pearson.interval);
        let percents =
            |[low, high]: [f64; 2]| format!("[{}, {}]", crate::numbers::percent(low), crate::numbers::percent(high));
        let integer = |value: Option<usize>| value.map_or_else(|| ABSENT.to_owned(), |value| value.to_string());
        Self {
            rows: result.coverage.rows_compared,
            not_finite: count(|site| site.non_finite_rows),
            constant: count(|site| site.constant_rows),
            exact: count(|site| site.exact_rows),
            pearson: pearson(|summary| summary.mean),
            interval: interval.map_or_else(|| ABSENT.to_owned(), correlation_interval),
            worst: pearson(|summary| summary.min),
            kl: or_absent(logits.and_then(|logits| logits.kl).map(|kl| kl.mean), magnitude),
            top1: logits.map_or_else(|| ABSENT.to_owned(), |logits| rate(&logits.top1)),
            top1_interval: logits.and_then(|logits| logits.top1.interval).map_or_else(|| ABSENT.to_owned(), percents),
            ties: integer(logits.map(|logits| logits.top1.ties)),
            flips: integer(logits.map(|logits| logits.top1.flips)),
            top5: logits.map_or_else(|| ABSENT.to_owned(), |logits| rate(&logits.top5)),
            perplexity_ratio: or_absent(logits.and_then(|logits| logits.perplexity_ratio), |ratio| {
                format!("{ratio:.4}")
            }),
            plain: plain(result.judged_site, |summary| summary.mean),
            relative_l2: or_absent(site.and_then(|site| site.relative_l2).map(|error| error.mean), magnitude),
            pooled: plain(Site::Pooled, |summary| summary.mean),
            pooled_worst: plain(Site::Pooled, |summary| summary.min),
        }
    }
}

impl Charts {
    fn of(verdict: &Verdict, scope: Scope, result: &ScopeResult) -> Result<Self, ReportError> {
        let draw = |wanted: bool, draw: &dyn Fn() -> Result<String, ReportError>| wanted.then(draw).transpose();
        let any_row = !result.rows.is_empty();
        Ok(Self {
            by_layer: draw(has_layers(result), &|| curves::by_layer(verdict, scope, result))?,
            pearson: draw(any_row, &|| curves::pearson(verdict, scope, result))?,
            kl: draw(any_row && !judged::of_hidden(result), &|| curves::kl(scope, result))?,
            heatmap: heatmap::svg(scope, result),
        })
    }
}

impl From<Layer> for LayerView {
    fn from(layer: Layer) -> Self {
        Self {
            name: layer.name,
            middle: layer.middle.text,
            output: layer.output.text,
            output_p95: layer.output_p95.text,
            local: layer.local.text,
            noise: layer.noise.text,
            first_bad: layer.first_bad.map(|site| site.to_string()),
        }
    }
}

fn first_bad_detail(result: &ScopeResult) -> Option<String> {
    let detail = result.first_bad_site_detail.as_ref()?;
    let error = detail.median_relative_l2.map_or_else(|| "not finite".to_owned(), magnitude);
    let after = detail.after.map_or_else(String::new, |site| format!("; {site} before it is still good"));
    Some(format!("median relative L2 {error}, noise floor {}{after}", or_absent(detail.noise_floor, magnitude)))
}

/// Rows that are not finite first, then those of the lowest Pearson.
fn worst_rows(verdict: &Verdict, result: &ScopeResult) -> Vec<RowView> {
    let mut rows: Vec<&RowResult> = result.rows.iter().collect();
    let pearson = |row: &RowResult| judged::row_similarity(result, row);
    let badness = |row: &RowResult| if row.finite { pearson(row).unwrap_or(1.0) } else { f64::NEG_INFINITY };
    rows.sort_by(|a, b| badness(a).total_cmp(&badness(b)));
    let integer = |value: Option<u32>| value.map_or_else(|| ABSENT.to_owned(), |value| value.to_string());
    let view = |row: &RowResult| RowView {
        prompt: verdict.prompts.get(row.prompt).map_or_else(|| ABSENT.to_owned(), |prompt| printable(&prompt.id)),
        position: row.position,
        token: row.token_id,
        pearson: if row.finite { or_absent(pearson(row), correlation) } else { "not finite".to_owned() },
        plain: or_absent(row.cosine, correlation),
        relative_l2: or_absent(row.relative_l2, magnitude),
        kl: or_absent(row.kl, magnitude),
        reference_choice: integer(row.reference_choice),
        device_choice: integer(row.device_choice),
        rank: integer(row.rank),
    };
    rows.into_iter().take(WORST_ROWS).map(view).collect()
}

fn coverage(result: &ScopeResult) -> Vec<(&'static str, usize)> {
    let coverage = &result.coverage;
    vec![
        ("rows compared", coverage.rows_compared),
        ("rows the device does not have", coverage.rows_missing),
        ("rows fed another token", coverage.rows_other_token),
        ("rows not finite in the reference", coverage.rows_reference_not_finite),
        ("prompts compared", coverage.prompts_compared),
        ("prompts failed or skipped", coverage.prompts_missing),
        ("sites compared", coverage.sites_compared),
        ("sites only the reference has", coverage.sites_missing),
    ]
}
