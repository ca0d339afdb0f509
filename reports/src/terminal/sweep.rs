//! The cells of a sweep as one table.

use std::{path::Path, time::Duration};

use fidelity_trace::Scope;
use fidelity_verdict::{Cell, CellScope, CellState, Outcome};

use super::{
    Align, Paint, Style, duration, line, report_at,
    table::{Column, Row, Table},
};
use crate::{
    numbers::{correlation, magnitude, or_absent, percent},
    text::{printable, truncated},
};

/// Columns of a checkpoint's name.
const NAME: usize = 22;
/// Columns of a recipe's name.
const RECIPE: usize = 12;

/// One line a cell and scope; a cell without a verdict says why.
#[must_use]
pub fn sweep_terminal(cells: &[Cell], style: Style) -> String {
    let columns = [
        ("checkpoint", Align::Left),
        ("arm", Align::Left),
        ("recipe", Align::Left),
        ("scope", Align::Left),
        ("verdict", Align::Left),
        ("Pearson", Align::Right),
        ("top-1", Align::Right),
        ("KL", Align::Right),
    ];
    let columns = columns.map(|(name, align)| Column { name, align }).into();
    let rows = cells.iter().flat_map(|cell| {
        let scopes: Vec<_> = cell.scopes.iter().map(Some).collect();
        let scopes = if scopes.is_empty() { vec![None] } else { scopes };
        scopes.into_iter().enumerate().map(|(index, scope)| row(cell, scope, index == 0)).collect::<Vec<_>>()
    });
    let lines = Table { columns, rows: rows.collect() }.lines(style);
    lines.into_iter().map(|line| line + "\n").collect()
}

fn row(cell: &Cell, scope: Option<(&Scope, &CellScope)>, first: bool) -> Row {
    let found = scope.map(|(_, found)| found);
    let once = |text: &str, width| if first { truncated(&printable(text), width) } else { String::new() };
    let (word, paint) = match found {
        Some(found) => (found.verdict.name(), Paint::of(found.verdict)),
        None if cell.state == CellState::Done => (Outcome::Inconclusive.name(), Paint::Doubtful),
        None => (cell.state.name(), Paint::Doubtful),
    };
    let plain = |text: String| (text, Paint::Plain);
    let value = |value: Option<fidelity_verdict::Measured>, write: fn(f64) -> String| {
        or_absent(value.map(|it| it.value), write)
    };
    Row {
        cells: vec![
            plain(once(&cell.checkpoint, NAME)),
            plain(once(&cell.key.device, 8)),
            plain(once(&cell.recipe, RECIPE)),
            plain(scope.map_or_else(String::new, |(scope, _)| scope.to_string())),
            (word.to_owned(), paint),
            plain(value(found.and_then(|it| it.pearson), correlation)),
            plain(value(found.and_then(|it| it.top1), percent)),
            plain(value(found.and_then(|it| it.kl), magnitude)),
        ],
        below: if found.is_none() { vec![printable(&cell.reason)] } else { Vec::new() },
    }
}

/// The last line: how many cells ended how, and where the report is.
#[must_use]
pub fn sweep_line(cells: &[Cell], exit_code: u8, wall_time: Duration, report: &Path) -> String {
    let verdicts = [Outcome::Faithful, Outcome::Inconclusive, Outcome::Degraded, Outcome::Broken];
    let of_verdict = verdicts.map(|it| (it.name(), cells.iter().filter(|cell| cell.verdict == Some(it)).count()));
    let states = [CellState::Failed, CellState::NotRun];
    let of_state = states.map(|it| (it.name(), cells.iter().filter(|cell| cell.state == it).count()));
    let counts = of_verdict.into_iter().chain(of_state).filter(|(_, count)| *count > 0);
    let counts = counts.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ");
    let head = format!("swept {} cells: {counts}", cells.len());
    line([Some(head), Some(format!("exit code {exit_code}")), Some(duration(wall_time)), Some(report_at(report))])
}
