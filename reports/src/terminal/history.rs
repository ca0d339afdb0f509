//! Runs over time, with a bar each.

use fidelity_verdict::{Outcome, PastRun};

use super::{
    Paint, Style, hanging, paint,
    table::{Align, Column, Row, Table},
};
use crate::{
    history::{changes, minute, series_name, similarity_name, told},
    text::printable,
};

/// Runs of a series that are shown; all are in the CSV.
const SHOWN: usize = 30;
/// Columns of a bar; a column is half a nine: 0.9 fills two, 0.99 four.
const BAR: f64 = 14.0;

/// A table a series, and a line that sums up.
pub(crate) fn history_tables(series: &[Vec<&PastRun>], style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let sections: Vec<String> = series.iter().map(|runs| table(runs, style).join("\n") + "\n").collect();
    sections.join("\n")
}

fn table(runs: &[&PastRun], style: Style) -> Vec<String> {
    let Some(last) = runs.last() else { return Vec::new() };
    let left_out = runs.len().saturating_sub(SHOWN);
    let count = match left_out {
        0 if runs.len() == 1 => "1 run".to_owned(),
        0 => format!("{} runs", runs.len()),
        _ => format!("the last {SHOWN} of {} runs", runs.len()),
    };
    let mut lines = hanging("", &format!("{}: {count}", series_name(last)), style);
    if let Some(first) = lines.first_mut() {
        *first = paint(first, Paint::Strong, style);
    }
    let rows = runs.iter().enumerate().skip(left_out).map(|(index, run)| {
        let before = index.checked_sub(1).map(|before| runs[before]);
        row(run, before)
    });
    let columns = [
        ("began, UTC", Align::Left),
        ("verdict", Align::Left),
        ("scope", Align::Left),
        (similarity_name(runs), Align::Right),
        ("top-1", Align::Right),
        ("0 0.9 0.99 …", Align::Left),
    ];
    let columns = columns.into_iter().map(|(name, align)| Column { name, align }).collect();
    lines.extend(Table { columns, rows: rows.collect() }.lines(style));
    lines
}

fn row(run: &PastRun, before: Option<&PastRun>) -> Row {
    let told = told(run);
    let cells = vec![
        (minute(run), Paint::Plain),
        (run.verdict.to_string(), Paint::of(run.verdict)),
        (told.scope, Paint::Plain),
        (told.value, Paint::Plain),
        (told.top1, Paint::Plain),
        (told.similarity.map_or_else(String::new, bar), Paint::Plain),
    ];
    let changed = changes(run, before);
    let changed = (!changed.is_empty()).then(|| format!("changed: {}", changed.join(", ")));
    let diagnosed = run.diagnosis.as_ref().filter(|_| run.verdict != Outcome::Faithful);
    let diagnosed = diagnosed.map(|diagnosis| format!("diagnosed {}", printable(diagnosis)));
    Row { cells, below: changed.into_iter().chain(diagnosed).collect() }
}

/// As many columns as the similarity has half nines.
fn bar(similarity: f64) -> String {
    let nines = -(1.0 - similarity).max(1e-9).log10();
    "█".repeat((nines * 2.0).round().clamp(0.0, BAR) as usize)
}
