//! A gate on a terminal, as Markdown and in one line.

use std::fmt::Write;

use fidelity_trace::Scope;
use fidelity_verdict::{BlessedArm, Discordant, Gate, GateConclusion, GateSide, Metric, MetricComparison, Movement};

use crate::{
    numbers::{ABSENT, correlation, magnitude, or_absent, percent},
    terminal::{Align, Style, labelled, table},
    text::printable,
};

/// The gate in two tables: what is concluded of every metric, and what so many prompts can tell.
#[must_use]
pub fn gate_terminal(gate: &Gate, style: Style) -> String {
    let mut text = labelled("checkpoint  ", &printable(&gate.checkpoint), style);
    text += &labelled("baseline    ", &side(&gate.baseline), style);
    text += &labelled("run         ", &side(&gate.run), style);
    text += &labelled("prompts     ", &prompts(gate), style);
    let word = word(gate.conclusion).to_uppercase();
    text += &format!("\n{}", labelled(&format!("{word}  "), &printable(&gate.reason), style));
    if !gate.scopes.is_empty() {
        text += &format!(
            "\nMeans over prompts; worse by: how much worse the run is, below 0 better\n{}",
            table(&COLUMNS, &rows(gate), style)
        );
        text +=
            &labelled("  p: ", "of being worse by the margin or more; a pass needs alpha or less in every row", style);
        text += &format!("\nWhat {} prompts can tell\n{}", gate.prompts, table(&SPREAD, &spreads(gate), style));
        let said = format!(
            "detectable: the difference found {:.0} % of the time; power: how often an unchanged run passes; p change: of no change, Holm's over all rows",
            100.0 * gate.settings.power
        );
        text += &labelled("  ", &said, style);
    }
    for (scope, metric, found) in comparisons(gate) {
        if let Some(Discordant { lost, won, p }) = found.discordant {
            let said = format!(
                "one row a prompt in {scope}: {} lost {lost}, won {won}, McNemar p {}",
                name(metric),
                magnitude(p)
            );
            text += &labelled("  - ", &said, style);
        }
    }
    for note in &gate.notes {
        text += &labelled("  - ", &printable(note), style);
    }
    text
}

/// The line that ends a gate.
#[must_use]
pub fn gate_line(gate: &Gate) -> String {
    let needed = gate.needed.map_or_else(String::new, |needed| format!(" · {needed} prompts needed"));
    let arm = arm(&gate.run.arm);
    format!(
        "gate {}: {} of {} · {}{needed}",
        word(gate.conclusion),
        arm,
        printable(&gate.checkpoint),
        printable(&gate.reason)
    )
}

/// The gate as Markdown, for the summary of a job.
#[must_use]
pub fn gate_markdown(gate: &Gate) -> String {
    let mut page =
        format!("### Gate {}: {}\n\n{}\n\n", word(gate.conclusion), cell(&gate.checkpoint), cell(&gate.reason));
    let _ = write!(
        page,
        "- baseline: {}\n- run: {}\n- prompts: {}\n",
        cell(&side(&gate.baseline)),
        cell(&side(&gate.run)),
        prompts(gate)
    );
    for note in &gate.notes {
        let _ = writeln!(page, "- {}", cell(note));
    }
    if gate.scopes.is_empty() {
        return page;
    }
    let header = COLUMNS.iter().chain(&SPREAD[2..]);
    let _ = writeln!(page, "\n| {} |", header.clone().map(|(name, _)| *name).collect::<Vec<_>>().join(" | "));
    let rule = header.map(|(_, align)| if *align == Align::Right { "---:" } else { "---" });
    let _ = writeln!(page, "|{}|", rule.collect::<Vec<_>>().join("|"));
    for (row, spread) in rows(gate).into_iter().zip(spreads(gate)) {
        let cells: Vec<String> = row.into_iter().chain(spread.into_iter().skip(2)).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
    page
}

const COLUMNS: [(&str, Align); 8] = [
    ("scope", Align::Left),
    ("metric", Align::Left),
    ("baseline", Align::Right),
    ("run", Align::Right),
    ("worse by", Align::Right),
    ("margin", Align::Right),
    ("p", Align::Right),
    ("result", Align::Left),
];

const SPREAD: [(&str, Align); 7] = [
    ("scope", Align::Left),
    ("metric", Align::Left),
    ("95 % interval", Align::Left),
    ("detectable", Align::Right),
    ("power", Align::Right),
    ("p change", Align::Right),
    ("changed", Align::Left),
];

fn comparisons(gate: &Gate) -> impl Iterator<Item = (Scope, Metric, &MetricComparison)> {
    gate.scopes.iter().flat_map(|(scope, metrics)| metrics.iter().map(move |(metric, found)| (*scope, *metric, found)))
}

pub(crate) fn rows(gate: &Gate) -> Vec<Vec<String>> {
    let row = |(scope, metric, found): (Scope, Metric, &MetricComparison)| {
        vec![
            scope.to_string(),
            name(metric).to_owned(),
            value(metric, found.baseline),
            value(metric, found.run),
            magnitude(found.difference),
            found.margin.to_string(),
            magnitude(found.p_not_worse),
            result(found),
        ]
    };
    comparisons(gate).map(row).collect()
}

pub(crate) fn spreads(gate: &Gate) -> Vec<Vec<String>> {
    let row = |(scope, metric, found): (Scope, Metric, &MetricComparison)| {
        let interval = found.interval.map(|[low, high]| format!("[{}, {}]", magnitude(low), magnitude(high)));
        vec![
            scope.to_string(),
            name(metric).to_owned(),
            interval.unwrap_or_else(|| ABSENT.to_owned()),
            or_absent(found.detectable, magnitude),
            or_absent(found.power, percent),
            magnitude(found.p_changed_holm),
            moved(found.movement).to_owned(),
        ]
    };
    comparisons(gate).map(row).collect()
}

fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Top1 => percent(value),
        Metric::Pearson | Metric::CentredCosine => correlation(value),
        Metric::Kl | Metric::Nmse => magnitude(value),
    }
}

const fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::Top1 => "top-1",
        Metric::Pearson => "Pearson",
        Metric::CentredCosine => "cosine",
        Metric::Kl => "KL",
        Metric::Nmse => "NMSE",
    }
}

fn result(found: &MetricComparison) -> String {
    match (found.conclusion, found.needed) {
        (GateConclusion::Inconclusive, Some(needed)) => format!("needs {needed}"),
        (conclusion, _) => word(conclusion).to_owned(),
    }
}

pub(crate) const fn word(conclusion: GateConclusion) -> &'static str {
    match conclusion {
        GateConclusion::DeviceFailure => "device failure",
        other => other.name(),
    }
}

const fn moved(movement: Movement) -> &'static str {
    match movement {
        Movement::Same => "same",
        Movement::Worse => "worse",
        Movement::Better => "better",
        Movement::Unclear => "unclear",
    }
}

pub(crate) fn side(side: &GateSide) -> String {
    format!("{}, {} by itself", arm(&side.arm), side.verdict)
}

fn arm(arm: &BlessedArm) -> String {
    let kind = arm.kind.to_string();
    let device = if arm.device == kind { kind } else { format!("{kind} {}", arm.device) };
    let recipe = arm.recipe.as_ref().map(|recipe| format!(" {}", recipe.name)).unwrap_or_default();
    printable(&format!("{device}{recipe}"))
}

pub(crate) fn prompts(gate: &Gate) -> String {
    format!(
        "{}, the unit of every test; what harms fewer than {:.0} % of prompts may be in none of them",
        gate.prompts,
        100.0 * gate.unseen_share
    )
}

/// Text in a cell or a line of Markdown: nothing in it is markup.
fn cell(text: &str) -> String {
    let mut escaped = String::new();
    for character in printable(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' => escaped.extend(['\\', character]),
            other => escaped.push(other),
        }
    }
    escaped
}
