//! Tables and paragraphs for what is shown on a terminal and is no verdict.

pub use super::table::Align;
use super::{
    Paint, Style, hanging,
    table::{Column, Row, Table},
};

/// A table in at most [`Style::width`] columns: a header, then rows of as many cells. What does not fit is left out from the right.
#[must_use]
pub fn table(columns: &[(&'static str, Align)], rows: &[Vec<String>], style: Style) -> String {
    let columns = columns.iter().map(|(name, align)| Column { name, align: *align }).collect();
    let cells = |row: &Vec<String>| row.iter().map(|text| (text.clone(), Paint::Plain)).collect();
    let rows = rows.iter().map(|row| Row { cells: cells(row), below: Vec::new() }).collect();
    joined(Table { columns, rows }.lines(style))
}

/// Text wrapped behind a label, its later lines indented as far.
#[must_use]
pub fn labelled(label: &str, text: &str, style: Style) -> String {
    joined(hanging(label, text, style))
}

fn joined(lines: Vec<String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}
