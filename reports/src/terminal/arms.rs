//! Several arms in one table.

use std::path::Path;

use fidelity_verdict::Verdict;

use super::{
    Paint, Style, hanging, paint,
    scopes::{cells, columns, first_bad, left_out},
    table::{Align, Column, Row, Table},
};
use crate::{
    arms::{ArmReports, SharedLayer, label, shared_layers},
    identity::{arm_phrase, checkpoint_name, is_expected, name_in_role, prompt_counts},
    judged,
    numbers::ABSENT,
    text::printable,
};

/// Arms beside each other in a table of layers: as many as fit 60 columns.
const ARMS_ACROSS: usize = 4;

/// Several arms in at most [`Style::width`] columns, without the line that ends a comparison ([`arms_line`]).
#[must_use]
pub fn arms_terminal(arms: &ArmReports<'_>, style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let sections = [
        header(arms.verdicts, style),
        scopes(arms.verdicts, style),
        layers(arms.verdicts, style),
        notes(arms.verdicts, style),
    ];
    let sections: Vec<_> =
        sections.into_iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n")).collect();
    sections.join("\n\n") + "\n"
}

/// The last line of a comparison of several arms: the worst verdict, of which arm, why and where the report is.
#[must_use]
pub fn arms_line(arms: &ArmReports<'_>, report: Option<&Path>) -> String {
    let Some((index, worst)) = arms.worst() else { return "inconclusive: no arm was compared".to_owned() };
    let expected = if is_expected(worst) { " (expected)" } else { "" };
    let (count, phrase) = (arms.verdicts.len(), arm_phrase(&worst.arms.device));
    let head = format!("{}{expected}: {} {phrase}, worst of {count} arms", worst.verdict, label(index));
    let reason = Some(printable(&worst.reason)).filter(|reason| !reason.is_empty());
    let report = report.map(|path| format!("report {}", printable(&path.display().to_string())));
    [Some(head), reason, report].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn header(verdicts: &[Verdict], style: Style) -> Vec<String> {
    let Some(first) = verdicts.first() else { return Vec::new() };
    let mut lines = hanging("checkpoint  ", &checkpoint_name(&first.checkpoint), style);
    lines.extend(hanging("reference   ", &name_in_role("reference", &first.arms.reference.arm), style));
    lines.push(String::new());
    for (index, verdict) in verdicts.iter().enumerate() {
        let text = format!("{} ({})", arm_phrase(&verdict.arms.device), prompt_counts(verdict));
        lines.extend(hanging(&format!("{:<4}", label(index)), &text, style));
        let word = verdict.verdict.name();
        let expected = if is_expected(verdict) { " (expected)" } else { "" };
        let mut conclusion = hanging(&format!("    {word}{expected}  "), &printable(&verdict.reason), style);
        if let Some(first) = conclusion.first_mut() {
            *first = first.replacen(word, &paint(word, Paint::of(verdict.verdict), style), 1);
        }
        lines.extend(conclusion);
    }
    lines
}

fn scopes(verdicts: &[Verdict], style: Style) -> Vec<String> {
    let hidden = verdicts.iter().any(judged::is_encoder);
    let columns = std::iter::once(Column { name: "arm", align: Align::Left }).chain(columns(hidden)).collect();
    let rows = verdicts.iter().enumerate().flat_map(|(index, verdict)| {
        verdict.scopes.iter().map(move |(scope, result)| {
            let arm = (label(index), Paint::Strong);
            let cells = std::iter::once(arm).chain(cells(*scope, result, hidden)).collect();
            Row { cells, below: [first_bad(result), left_out(result)].into_iter().flatten().collect() }
        })
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return vec!["No scope was compared.".to_owned()];
    }
    Table { columns, rows }.lines(style)
}

fn layers(verdicts: &[Verdict], style: Style) -> Vec<String> {
    let Some((scope, shared)) = shared_layers(verdicts) else { return Vec::new() };
    let title = format!("Layers of {scope}, arm by arm: median relative L2 (resid_post in a block; ▲ first bad site)");
    let mut lines = hanging("", &title, style);
    let names: Vec<String> = (0..verdicts.len()).map(label).collect();
    for arms in (0..verdicts.len()).collect::<Vec<_>>().chunks(ARMS_ACROSS) {
        let head = [("layer".to_owned(), Paint::Dim)]
            .into_iter()
            .chain(arms.iter().map(|arm| (names[*arm].clone(), Paint::Dim)));
        let columns =
            std::iter::repeat_with(|| Column { name: "", align: Align::Right }).take(arms.len() + 1).collect();
        let rows = std::iter::once(head.collect()).chain(shared.iter().map(|layer| line(layer, arms)));
        let rows = rows.map(|cells| Row { cells, below: Vec::new() }).collect();
        // The table's own header is empty: names of arms are made at run time.
        lines.extend(Table { columns, rows }.lines(style).into_iter().skip(1));
    }
    lines
}

fn line(layer: &SharedLayer, arms: &[usize]) -> Vec<(String, Paint)> {
    let of_arm = |arm: &usize| match &layer.outputs[*arm] {
        None => (ABSENT.to_owned(), Paint::Plain),
        Some((value, true)) => (format!("▲ {}", value.text), Paint::Bad),
        Some((value, false)) => (value.text.clone(), Paint::Plain),
    };
    std::iter::once((layer.name.clone(), Paint::Plain)).chain(arms.iter().map(of_arm)).collect()
}

fn notes(verdicts: &[Verdict], style: Style) -> Vec<String> {
    let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
    for (index, verdict) in verdicts.iter().enumerate() {
        for note in &verdict.notes {
            match notes.iter_mut().find(|(known, _)| known == note) {
                Some((_, arms)) => arms.push(label(index)),
                None => notes.push((note, vec![label(index)])),
            }
        }
    }
    if notes.is_empty() {
        return Vec::new();
    }
    let lines = notes.iter().flat_map(|(note, arms)| {
        let whose = if arms.len() == verdicts.len() { String::new() } else { format!("{}: ", arms.join(", ")) };
        hanging("  - ", &format!("{whose}{}", printable(note)), style)
    });
    std::iter::once(paint("Notes", Paint::Strong, style)).chain(lines).collect()
}
