//! The report on a terminal, and the one line that ends a run.

mod arms;
mod diagnosis;
mod generated;
mod history;
mod layers;
mod plain;
mod scopes;
mod sweep;
mod table;

pub use plain::{Align, labelled, table};

use std::{path::Path, time::Duration};

use fidelity_verdict::{Outcome, Verdict};

use crate::{
    diagnosis::{cause, label, reason},
    identity::{arm_phrase, checkpoint_name, deviation, is_expected, name_in_role, on_device, prompt_counts},
    text::{printable, wrapped},
};

pub(crate) use self::history::history_tables;
pub use self::{
    arms::{arms_line, arms_terminal},
    sweep::{sweep_line, sweep_terminal},
};

/// How a terminal is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns available; fewer than 60 are taken as 60.
    pub width: usize,
    /// Whether to colour with ANSI escapes. Colour never says anything that words do not.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, colour: false }
    }
}

/// The report in at most [`Style::width`] columns, without the line that ends a run ([`verdict_line`]).
#[must_use]
pub fn terminal(verdict: &Verdict, style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let sections = [
        header(verdict, style),
        diagnosis::section(verdict, style),
        scopes::section(verdict, style),
        layers::section(verdict, style),
        generated::section(verdict, style),
        notes(verdict, style),
    ];
    let sections: Vec<_> =
        sections.into_iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n")).collect();
    sections.join("\n\n") + "\n"
}

/// The last line of a run: the verdict, of which arm, why, what was diagnosed, how long it took and where the report is.
#[must_use]
pub fn verdict_line(verdict: &Verdict, wall_time: Option<Duration>, report: Option<&Path>) -> String {
    let expected = if is_expected(verdict) { " (expected)" } else { "" };
    let head = format!("{}{expected}: {}", verdict.verdict, arm_phrase(&verdict.arms.device));
    let reason = Some(printable(&verdict.reason)).filter(|reason| !reason.is_empty());
    line([Some(head), reason, cause(verdict), wall_time.map(duration), report.map(report_at)])
}

/// The last line of a diagnosis: what was found, why, how long it took and where the report is.
#[must_use]
pub fn diagnosis_line(verdict: &Verdict, wall_time: Option<Duration>, report: Option<&Path>) -> String {
    let (head, why) = match &verdict.diagnosis {
        Some(diagnosis) => (format!("diagnosed: {}", label(diagnosis)), reason(diagnosis)),
        None => ("not diagnosed".to_owned(), printable(&verdict.reason)),
    };
    line([Some(head), Some(why), wall_time.map(duration), report.map(report_at)])
}

fn report_at(path: &Path) -> String {
    format!("report {}", printable(&path.display().to_string()))
}

fn line<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// A wall time in seconds, minutes or hours.
#[must_use]
pub fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.2} s", time.as_secs_f64()),
        10..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn header(verdict: &Verdict, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let mut entry = |name: &str, text: &str| lines.extend(hanging(&format!("{name:<12}"), text, style));
    entry("checkpoint", &checkpoint_name(&verdict.checkpoint));
    for (role, identity) in [("reference", &verdict.arms.reference), ("device", &verdict.arms.device)] {
        entry(role, &name_in_role(role, &identity.arm));
        on_device(&identity.arm).iter().for_each(|facts| entry("", facts));
        identity.deviations.iter().for_each(|applied| entry("", &deviation(applied)));
    }
    entry("prompts", &prompt_counts(verdict));
    let word = verdict.verdict.name().to_uppercase();
    let mut conclusion = hanging(&format!("{word}  "), &printable(&verdict.reason), style);
    if let Some(first) = conclusion.first_mut() {
        *first = first.replacen(&word, &paint(&word, Paint::of(verdict.verdict), style), 1);
    }
    lines.push(String::new());
    lines.extend(conclusion);
    if is_expected(verdict) {
        lines.push(format!("This verdict is expected of this checkpoint: exit code {}.", verdict.exit_code));
    }
    lines
}

fn notes(verdict: &Verdict, style: Style) -> Vec<String> {
    if verdict.notes.is_empty() {
        return Vec::new();
    }
    let notes = verdict.notes.iter().flat_map(|note| hanging("  - ", &printable(note), style));
    std::iter::once(paint("Notes", Paint::Strong, style)).chain(notes).collect()
}

/// Text wrapped behind a label, its later lines indented as far.
fn hanging(label: &str, text: &str, style: Style) -> Vec<String> {
    let indent = label.chars().count();
    let lines = wrapped(text, style.width.saturating_sub(indent)).into_iter().enumerate();
    lines
        .map(|(index, line)| if index == 0 { format!("{label}{line}") } else { format!("{:indent$}{line}", "") })
        .collect()
}

/// What a piece of text is painted as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Paint {
    Plain,
    Strong,
    Dim,
    Good,
    Doubtful,
    Bad,
}

impl Paint {
    const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Faithful => Self::Good,
            Outcome::Inconclusive | Outcome::Degraded => Self::Doubtful,
            Outcome::Broken => Self::Bad,
        }
    }

    /// The parameters of the escape sequence that begins it.
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Dim => Some("2"),
            Self::Good => Some("1;32"),
            Self::Doubtful => Some("1;33"),
            Self::Bad => Some("1;31"),
        }
    }
}

fn paint(text: &str, paint: Paint, style: Style) -> String {
    match paint.code().filter(|_| style.colour) {
        Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        None => text.to_owned(),
    }
}
