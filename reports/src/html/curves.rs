//! The charts of one scope: error by layer, and what was judged by position.

use fidelity_trace::{BlockSite, Scope, Site};
use fidelity_verdict::{RowResult, ScopeResult, Verdict};

use super::{
    axes::{Columns, Network, decades, nines, on_decades, to_nines},
    plot::{Ink, Mark, Plot},
};
use crate::{ReportError, judged, layers::noise_floor};

/// Whether a site is drawn by layer and in the heat map.
pub(super) fn is_drawn(site: Site) -> bool {
    match site {
        Site::Embed | Site::FinalNorm | Site::Logits | Site::Pooled => true,
        Site::Block(_, kind) => matches!(kind, BlockSite::ResidMid | BlockSite::ResidPost),
    }
}

/// Relative L2 by layer: median, 95th percentile, the block's own, and the reference's noise.
pub(super) fn by_layer(verdict: &Verdict, scope: Scope, result: &ScopeResult) -> Result<String, ReportError> {
    let network = Network::of(result);
    let summaries: Vec<_> = result.sites.iter().filter(|(site, _)| is_drawn(**site)).collect();
    let series = |pick: fn(&fidelity_verdict::Summary) -> f64| -> Vec<(Site, Option<f64>)> {
        summaries.iter().map(|(site, found)| (**site, found.relative_l2.as_ref().map(pick))).collect()
    };
    let (median, spread) = (series(|summary| summary.p50), series(|summary| summary.p95));
    let noise: Vec<_> = summaries.iter().map(|(site, _)| (**site, noise_floor(verdict, **site))).collect();
    let bad = verdict.thresholds.bad_site_relative_l2;
    let local = || result.blocks.iter().filter_map(|block| Some((block.block, block.local?)));
    let drawn = [&median, &spread, &noise].into_iter().flatten().filter_map(|(_, value)| *value);
    let drawn = drawn.chain(local().map(|(_, value)| value));
    let y = decades("relative L2 (log scale)", drawn.chain([bad]), -9..3);
    let points = |series: &[(Site, Option<f64>)]| -> Vec<Option<(f64, f64)>> {
        series.iter().map(|(site, value)| value.map(|value| (network.at(*site), on_decades(value, &y)))).collect()
    };
    let across = |block, value| network.across(block).map(|x| (x, on_decades(value, &y))).to_vec();
    let lost = summaries.iter().filter(|(_, found)| found.relative_l2.is_none() && found.non_finite_rows > 0);
    let lost = lost.map(|(site, _)| (network.at(**site), y.range.end)).collect();
    let mut marks = vec![
        Mark::Line(Ink::Noise, segments(points(&noise))),
        Mark::Line(Ink::Spread, segments(points(&spread))),
        Mark::Line(Ink::Local, local().map(|(block, value)| across(block, value)).collect()),
        Mark::Line(Ink::Value, segments(points(&median))),
        Mark::Dots(Ink::Value, points(&median).into_iter().flatten().collect()),
        Mark::Crosses(lost),
        Mark::Rule(on_decades(bad, &y), format!("bad above {bad}")),
    ];
    marks.extend(result.first_bad_site.map(|site| Mark::Upright(network.at(site), format!("first bad site: {site}"))));
    let description = format!("Relative L2 by layer in scope {scope}; the table of layers holds the same numbers.");
    Plot { name: "layers", description, height: 300, x: network.axis(), y, marks }.svg()
}

/// The deciding similarity by position, a dot a row.
pub(super) fn pearson(verdict: &Verdict, scope: Scope, result: &ScopeResult) -> Result<String, ReportError> {
    let thresholds = &verdict.thresholds;
    let (faithful, broken) = (thresholds.faithful_pearson, thresholds.broken_pearson);
    let of_row = |row: &RowResult| judged::row_similarity(result, row);
    let what = match judged::of_hidden(result) {
        true => format!("Centred cosine of {}", result.judged_site),
        false => "Pearson of logits".to_owned(),
    };
    let values = result.rows.iter().filter_map(of_row);
    let y = nines(&format!("{what} (0.9, 0.99 … equally far apart)"), values.chain([faithful, broken]));
    let place = |value: f64| to_nines(value).clamp(y.range.start, y.range.end);
    let rules = [
        Mark::Rule(place(faithful), format!("mean of a faithful scope ≥ {faithful}")),
        Mark::Rule(place(broken), format!("mean of a broken scope &lt; {broken}")),
    ];
    let marks = by_position(result, |row| of_row(row).map(place), y.range.start);
    let description = format!("{what} by position in scope {scope}; positions.csv holds the same numbers.");
    let x = Columns::of(result).axis();
    Plot { name: "pearson", description, height: 240, x, y, marks: marks.into_iter().chain(rules).collect() }.svg()
}

/// KL divergence by position, a dot a row.
pub(super) fn kl(scope: Scope, result: &ScopeResult) -> Result<String, ReportError> {
    let values = result.rows.iter().filter_map(|row| row.kl);
    let y = decades("KL(reference ‖ device) of logits, nats (log scale)", values, -10..3);
    let marks = by_position(result, |row| row.kl.map(|value| on_decades(value, &y)), y.range.end);
    let description = format!("KL of logits by position in scope {scope}; positions.csv holds the same numbers.");
    let x = Columns::of(result).axis();
    Plot { name: "kl", description, height: 220, x, y, marks: marks.into() }.svg()
}

/// A dot a row; a cross at the bad edge where the row is not finite.
fn by_position(result: &ScopeResult, place: impl Fn(&RowResult) -> Option<f64>, bad_edge: f64) -> [Mark; 2] {
    let columns = Columns::of(result);
    let dots = result.rows.iter().filter_map(|row| Some((columns.middle(row.position), place(row)?)));
    let lost = result.rows.iter().filter(|row| !row.finite).map(|row| (columns.middle(row.position), bad_edge));
    [Mark::Dots(Ink::Value, dots.collect()), Mark::Crosses(lost.collect())]
}

/// Runs of points without a gap.
fn segments(points: Vec<Option<(f64, f64)>>) -> Vec<Vec<(f64, f64)>> {
    let runs = points.split(Option::is_none).map(|run| run.iter().flatten().copied().collect::<Vec<_>>());
    runs.filter(|run| !run.is_empty()).collect()
}
