//! A plain table: a header, aligned cells, and lines below a row that explain it.

use super::{Paint, Style, hanging, paint};
use crate::text::columns;

/// Rows under named columns.
pub(super) struct Table {
    /// Most important first: a narrow terminal drops the last ones.
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) align: Align,
}

/// The side cells of a column are flush with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// One row.
pub(super) struct Row {
    /// As many as there are columns.
    pub(super) cells: Vec<(String, Paint)>,
    /// Notes in full width under the row.
    pub(super) below: Vec<String>,
}

impl Table {
    pub(super) fn lines(&self, style: Style) -> Vec<String> {
        let (widths, gap) = self.fit(style);
        let header = self.columns.iter().map(|column| (column.name.to_owned(), Paint::Dim));
        let mut lines = vec![self.line(&header.collect::<Vec<_>>(), &widths, gap, style)];
        for row in &self.rows {
            lines.push(self.line(&row.cells, &widths, gap, style));
            lines.extend(row.below.iter().flat_map(|note| hanging("    ", note, style)));
        }
        lines
    }

    /// The widths of the columns that fit, and the gap between them.
    fn fit(&self, style: Style) -> (Vec<usize>, usize) {
        let width = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index));
            cells.map(|(text, _)| columns(text)).chain([columns(column.name)]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(width).collect();
        loop {
            let gaps = widths.len().saturating_sub(1);
            let cells: usize = widths.iter().sum();
            match [2, 1].into_iter().find(|gap| cells + gaps * gap <= style.width) {
                Some(gap) => return (widths, gap),
                None => widths.truncate(gaps),
            }
        }
    }

    fn line(&self, cells: &[(String, Paint)], widths: &[usize], gap: usize, style: Style) -> String {
        let mut line = String::new();
        for (index, (((text, painted), column), width)) in cells.iter().zip(&self.columns).zip(widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(columns(text)));
            let text = paint(text, *painted, style);
            line.push_str(&" ".repeat(if index == 0 { 0 } else { gap }));
            match column.align {
                Align::Left => line.extend([text, padding]),
                Align::Right => line.extend([padding, text]),
            }
        }
        line.trim_end().to_owned()
    }
}
