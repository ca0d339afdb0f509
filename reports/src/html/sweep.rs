//! A sweep as a page: every cell with a link to its run, and fidelity against each covariate, never pooled.

use std::collections::BTreeMap;

use fidelity_trace::Scope;
use fidelity_verdict::{Cell, CellScope, Covariate, Outcome};
use serde::Serialize;

use super::{
    axes::{decades, nines, on_decades, to_nines},
    page::symbol,
    plot::{Axis, Ink, Mark, Plot},
};
use crate::{
    ReportError,
    numbers::{correlation, magnitude, or_absent, percent},
    text::printable,
};

/// Largest over smallest value from which an axis is logarithmic.
const LOGARITHMIC: f64 = 8.0;

#[derive(Serialize)]
pub(super) struct SweepPage {
    title: String,
    rows: Vec<CellRow>,
    groups: Vec<Group>,
    reproduce: String,
}

#[derive(Serialize)]
struct CellRow {
    checkpoint: String,
    link: Option<String>,
    arm: String,
    recipe: String,
    scope: String,
    class: String,
    word: String,
    symbol: &'static str,
    pearson: String,
    interval: String,
    top1: String,
    kl: String,
    reason: String,
}

#[derive(Serialize)]
struct Group {
    title: String,
    charts: Vec<Figure>,
}

#[derive(Serialize)]
struct Figure {
    title: String,
    svg: String,
}

impl SweepPage {
    pub(super) fn of(cells: &[Cell], reproduce: &str) -> Result<Self, ReportError> {
        Ok(Self {
            title: format!("Sweep of {} cells", cells.len()),
            rows: cells.iter().flat_map(rows).collect(),
            groups: groups(cells)?,
            reproduce: printable(reproduce),
        })
    }
}

fn rows(cell: &Cell) -> Vec<CellRow> {
    let scopes: Vec<_> = cell.scopes.iter().map(Some).collect();
    let scopes = if scopes.is_empty() { vec![None] } else { scopes };
    scopes.into_iter().map(|scope| row(cell, scope)).collect()
}

fn row(cell: &Cell, scope: Option<(&Scope, &CellScope)>) -> CellRow {
    let found = scope.map(|(_, found)| found);
    let outcome = found.map(|found| found.verdict).or(cell.verdict);
    let value = |value: Option<fidelity_verdict::Measured>, write: fn(f64) -> String| {
        or_absent(value.map(|it| it.value), write)
    };
    let pearson = found.and_then(|found| found.pearson);
    let interval = pearson.and_then(|pearson| pearson.interval);
    CellRow {
        checkpoint: printable(&cell.checkpoint),
        link: cell.verdict.map(|_| format!("{}/report.html", cell.run)),
        arm: printable(&cell.arm),
        recipe: printable(&cell.recipe),
        scope: scope.map_or_else(String::new, |(scope, _)| scope.to_string()),
        class: outcome.map_or("inconclusive", Outcome::name).to_owned(),
        word: outcome.map_or(cell.state.name(), Outcome::name).to_owned(),
        symbol: symbol(outcome.unwrap_or(Outcome::Inconclusive)),
        pearson: value(pearson, correlation),
        interval: interval
            .map_or_else(String::new, |[low, high]| format!("{} to {}", correlation(low), correlation(high))),
        top1: value(found.and_then(|found| found.top1), percent),
        kl: value(found.and_then(|found| found.kl), magnitude),
        reason: printable(found.map_or(&cell.reason, |found| &found.reason)),
    }
}

/// A cell's fidelity.
struct Point<'a> {
    cell: &'a Cell,
    pearson: f64,
    passes: bool,
}

/// By arm, recipe and scope, those with at least two checkpoints.
fn groups(cells: &[Cell]) -> Result<Vec<Group>, ReportError> {
    let mut grouped: BTreeMap<(&str, &str, Option<&str>, Scope), Vec<Point<'_>>> = BTreeMap::new();
    for cell in cells {
        for (scope, found) in &cell.scopes {
            let Some(pearson) = found.pearson else { continue };
            let key = (cell.key.device.as_str(), cell.recipe.as_str(), cell.recipe_sha256.as_deref(), *scope);
            let passes = found.verdict == Outcome::Faithful;
            grouped.entry(key).or_default().push(Point { cell, pearson: pearson.value, passes });
        }
    }
    let several = grouped.into_iter().filter(|(_, points)| points.len() > 1);
    let drawn = several.map(|((device, recipe, _, scope), points)| {
        let charts = Covariate::ALL.into_iter().map(|covariate| chart(covariate, &points));
        let charts = charts.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
        Ok(Group { title: printable(&format!("{device}, {recipe}, {scope}")), charts })
    });
    drawn.collect()
}

/// Fidelity against a covariate that is known of at least two of the cells and not the same of all.
fn chart(covariate: Covariate, points: &[Point<'_>]) -> Result<Option<Figure>, ReportError> {
    let known = points.iter().filter_map(|point| Some((*point.cell.covariates.get(&covariate)?, point)));
    let known: Vec<(f64, &Point<'_>)> = known.collect();
    let lowest = known.iter().map(|(value, _)| *value).fold(f64::INFINITY, f64::min);
    let highest = known.iter().map(|(value, _)| *value).fold(f64::NEG_INFINITY, f64::max);
    if known.len() < 2 || lowest >= highest {
        return Ok(None);
    }
    let logarithmic = lowest > 0.0 && highest / lowest >= LOGARITHMIC;
    let x = match logarithmic {
        true => decades(covariate.name(), [lowest, highest].into_iter(), -9..39),
        false => linear(covariate.name(), &known.iter().map(|(value, _)| *value).collect::<Vec<_>>()),
    };
    let y = nines("Pearson", known.iter().map(|(_, point)| point.pearson));
    let at = |(value, point): &(f64, &Point<'_>)| {
        let across = if logarithmic { on_decades(*value, &x) } else { *value };
        (across, to_nines(point.pearson).clamp(y.range.start, y.range.end))
    };
    let of = |passes: bool| known.iter().filter(|(_, point)| point.passes == passes).map(at).collect::<Vec<_>>();
    let marks = vec![Mark::Dots(Ink::Value, of(true)), Mark::Crosses(of(false))];
    let description = format!("Pearson against {}; results.csv holds the same numbers.", covariate.name());
    let svg = Plot { name: "covariate", description, height: 200, x, y, marks }.svg()?;
    Ok(Some(Figure { title: covariate.name().to_owned(), svg }))
}

/// A linear axis a little wider than its values, with ticks at them where they are few.
fn linear(caption: &str, values: &[f64]) -> Axis {
    let mut ticks = values.to_vec();
    ticks.sort_by(f64::total_cmp);
    let (lowest, highest) = (ticks[0], ticks[ticks.len() - 1]);
    let margin = (highest - lowest) * 0.05;
    // Closer ones would be written over each other.
    ticks.dedup_by(|next, last| *next - *last < margin * 2.0);
    let written = |at: f64| if at.fract().abs() < 1e-9 && at < 1e6 { format!("{at:.0}") } else { magnitude(at) };
    let range = lowest - margin..highest + margin;
    Axis { caption: caption.to_owned(), range, ticks: ticks.into_iter().map(|at| (at, written(at))).collect() }
}
