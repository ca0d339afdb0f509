//! Why the arm is wrong.

use fidelity_verdict::{CLEAN, Diagnosis, UNEXPLAINED, Verdict};

use super::{
    Paint, Style, hanging, paint,
    table::{Align, Column, Row, Table},
};
use crate::{
    diagnosis::{explanations, facts, scopes, title, verdict_of},
    text::printable,
};

pub(super) fn section(verdict: &Verdict, style: Style) -> Vec<String> {
    let Some(diagnosis) = &verdict.diagnosis else { return Vec::new() };
    let mut lines = conclusion(verdict, diagnosis, style);
    lines.extend(table(diagnosis, style));
    let mut entry = |name: &str, text: &str| lines.extend(hanging(&format!("{name:<15}"), text, style));
    facts(diagnosis).iter().for_each(|(name, text)| entry(name, text));
    let scopes = scopes(verdict, diagnosis);
    if !scopes.is_empty() {
        let said = scopes.iter().map(|scope| format!("{} {} ({})", scope.scope, scope.nmse, verdict_of(scope)));
        entry("NMSE by scope", &said.collect::<Vec<_>>().join(", "));
    }
    if !diagnosis.remedy.is_empty() {
        entry("change", &printable(&diagnosis.remedy));
    }
    lines.extend(list("Evidence", &diagnosis.evidence, |_| "  - ".to_owned(), style));
    lines.extend(list("Next", &diagnosis.next, |index| format!("{:>3}. ", index + 1), style));
    if let Some(command) = &diagnosis.confirm {
        lines.extend(hanging("Confirm  ", &printable(command), style));
    }
    lines
}

fn conclusion(verdict: &Verdict, diagnosis: &Diagnosis, style: Style) -> Vec<String> {
    let colour = match diagnosis.name.as_str() {
        CLEAN => Paint::Strong,
        UNEXPLAINED => Paint::Doubtful,
        _ => Paint::Bad,
    };
    let text = format!("{}: {}", title(verdict, diagnosis), printable(&diagnosis.sentence));
    let mut lines = hanging("WHY  ", &text, style);
    if let Some(first) = lines.first_mut() {
        *first = first.replacen("WHY", &paint("WHY", colour, style), 1);
    }
    lines
}

fn table(diagnosis: &Diagnosis, style: Style) -> Vec<String> {
    let column = |(name, align)| Column { name, align };
    let columns =
        [("explanation", Align::Left), ("Pearson", Align::Right), ("residual (NMSE)", Align::Right)].map(column);
    let rows = explanations(diagnosis).into_iter().map(|explanation| {
        let painted = if explanation.named { Paint::Strong } else { Paint::Plain };
        let cells = [explanation.fault, explanation.score, explanation.residual];
        Row { cells: cells.map(|cell| (cell, painted)).into(), below: Vec::new() }
    });
    Table { columns: columns.into(), rows: rows.collect() }.lines(style)
}

fn list(title: &str, items: &[String], mark: impl Fn(usize) -> String, style: Style) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    let items = items.iter().enumerate().flat_map(|(index, item)| hanging(&mark(index), &printable(item), style));
    std::iter::once(paint(title, Paint::Strong, style)).chain(items).collect()
}
