//! What was bisected, on a terminal.

use std::{path::Path, time::Duration};

use fidelity_verdict::{Bisection, BisectionAxis, Finding, Measurement};

use crate::{
    terminal::{Align, Style, duration, labelled, table},
    text::printable,
};

/// Every measurement in the order it was made, and what remains to be known.
#[must_use]
pub fn bisection_terminal(bisection: &Bisection, style: Style) -> String {
    let columns =
        [(size(bisection.by), Align::Right), ("Pearson", Align::Right), ("interval", Align::Left), ("", Align::Left)];
    let row = |it: &Measurement, size: String| {
        let again = if it.again { " (again)" } else { "" };
        vec![
            size,
            it.pearson.map_or_else(|| "none".to_owned(), |value| format!("{value:.5}")),
            it.interval.map_or_else(String::new, |[low, high]| format!("{low:.5} to {high:.5}")),
            format!("{}{again}", it.standing),
        ]
    };
    let mut rows: Vec<_> = bisection.measured.iter().map(|it| row(it, it.size.to_string())).collect();
    rows.extend(bisection.skipped.as_ref().map(|it| row(it, format!("without {}", it.size))));
    let mut text = table(&columns, &rows, style);
    text += &format!("\ngood is a mean Pearson of {} or more in every scope\n", bisection.threshold);
    for note in notes(bisection) {
        text += &labelled("  - ", note, style);
    }
    text
}

fn notes(bisection: &Bisection) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if bisection.finding == Finding::NotMonotone {
        notes
            .push("a bisection finds a threshold only where there is one: measure every size, or look for noise first");
    }
    if let Some(skipped) = &bisection.skipped {
        notes.push(match skipped.standing {
            fidelity_verdict::Standing::Good => "without that block the network is good: it is that block",
            _ => "without that block the network is not good either: it is not that block alone",
        });
    }
    if bisection.by == BisectionAxis::Head {
        notes.push("the other heads were silenced in reference and arm alike");
    }
    notes
}

const fn size(by: BisectionAxis) -> &'static str {
    match by {
        BisectionAxis::Block => "blocks",
        BisectionAxis::Position => "tokens",
        BisectionAxis::Head => "heads",
        BisectionAxis::Hidden => "hidden",
    }
}

/// The last line of `fidelity bisect`.
#[must_use]
pub fn bisection_line(bisection: &Bisection, wall_time: Duration, folder: &Path) -> String {
    let measurements = bisection.measured.len() + usize::from(bisection.skipped.is_some());
    let compiles = match bisection.compiles {
        0 => String::new(),
        1 => ", 1 checkpoint".to_owned(),
        count => format!(", {count} checkpoints"),
    };
    format!(
        "bisect {}: {} · {measurements} measurements{compiles} · {} · {}",
        bisection.by,
        bisection.sentence,
        duration(wall_time),
        printable(&folder.display().to_string())
    )
}
