//! Runs over time on a page: a curve and a table a series.

use fidelity_verdict::PastRun;
use serde::Serialize;

use super::{
    axes::{nines, to_nines},
    page::symbol,
    plot::{Axis, Ink, Mark, Plot},
};
use crate::{
    ReportError,
    history::{changes, minute, series, series_name, similarity_name, told},
    text::printable,
};

/// Runs of a series that are drawn and listed.
const SHOWN: usize = 200;
/// Labels on an axis.
const LABELS: usize = 6;

/// What the template of the page is filled with.
#[derive(Serialize)]
pub(super) struct HistoryPage {
    runs: usize,
    all: Vec<SeriesView>,
}

/// The runs of a checkpoint on an arm.
#[derive(Serialize)]
pub(super) struct SeriesView {
    name: String,
    similarity: &'static str,
    /// Absent where no run has the deciding similarity.
    chart: Option<String>,
    shown: usize,
    left_out: usize,
    /// The latest first.
    runs: Vec<RunView>,
}

#[derive(Serialize)]
struct RunView {
    begun: String,
    verdict: &'static str,
    symbol: &'static str,
    scope: String,
    value: String,
    interval: String,
    top1: String,
    diagnosis: String,
    changes: Vec<String>,
    folder: String,
}

impl HistoryPage {
    pub(super) fn of(runs: &[PastRun]) -> Result<Self, ReportError> {
        let all = series(runs).iter().rev().map(|runs| SeriesView::of(runs)).collect::<Result<_, _>>()?;
        Ok(Self { runs: runs.len(), all })
    }
}

impl SeriesView {
    /// Of runs in the order they began, at least one.
    pub(super) fn of(runs: &[&PastRun]) -> Result<Self, ReportError> {
        let left_out = runs.len().saturating_sub(SHOWN);
        let before = |index: usize| index.checked_sub(1).map(|before| runs[before]);
        let views = runs.iter().enumerate().skip(left_out).rev().map(|(index, run)| RunView::of(run, before(index)));
        let similarity = similarity_name(runs);
        Ok(Self {
            name: runs.last().map_or_else(String::new, |run| series_name(run)),
            similarity,
            chart: chart(&runs[left_out..], before(left_out), similarity)?,
            shown: runs.len() - left_out,
            left_out,
            runs: views.collect(),
        })
    }
}

impl RunView {
    fn of(run: &PastRun, before: Option<&PastRun>) -> Self {
        let told = told(run);
        Self {
            begun: minute(run),
            verdict: run.verdict.name(),
            symbol: symbol(run.verdict),
            scope: told.scope,
            value: told.value,
            interval: told.interval,
            top1: told.top1,
            diagnosis: run.diagnosis.as_deref().map(printable).unwrap_or_default(),
            changes: changes(run, before),
            folder: printable(&run.folder),
        }
    }
}

/// The deciding similarity, run by run.
fn chart(runs: &[&PastRun], before: Option<&PastRun>, similarity: &str) -> Result<Option<String>, ReportError> {
    let at = |index: usize| index as f64 + 0.5;
    let values: Vec<(usize, f64)> =
        runs.iter().enumerate().filter_map(|(index, run)| Some((index, told(run).similarity?))).collect();
    if values.is_empty() {
        return Ok(None);
    }
    let caption = format!("{similarity}, mean (0.9, 0.99 … equally far apart)");
    let y = nines(&caption, values.iter().map(|(_, value)| *value));
    let points: Vec<(f64, f64)> =
        values.iter().map(|(index, value)| (at(*index), to_nines(*value).clamp(y.range.start, y.range.end))).collect();
    let changed = runs.iter().enumerate().filter_map(|(index, run)| {
        let before = index.checked_sub(1).map(|before| runs[before]).or(before)?;
        // Names are ours; what they changed from and to is in the table.
        let names: Vec<_> = run.changes(before).map(|(name, ..)| name).collect();
        (!names.is_empty()).then(|| Mark::Upright(index as f64, names.join(", ")))
    });
    let mut marks = vec![Mark::Line(Ink::Value, vec![points.clone()]), Mark::Dots(Ink::Value, points)];
    marks.extend(changed);
    let step = runs.len().div_ceil(LABELS).max(1);
    // Digits and signs alone, so that it needs no escaping.
    let date = |run: &PastRun| run.begun.chars().take(10).filter(|c| c.is_ascii_digit() || *c == '-').collect();
    let ticks = runs.iter().enumerate().step_by(step).map(|(index, run)| (at(index), date(run)));
    let x = Axis { caption: "run".into(), range: 0.0..runs.len() as f64, ticks: ticks.collect() };
    let description =
        format!("{similarity} of {} runs in the order they began; the table holds the same numbers.", runs.len());
    Plot { name: "history", description, height: 220, x, y, marks }.svg().map(Some)
}
