//! The only place that writes to standard output and standard error.

use std::{
    io::{IsTerminal, Write, stderr, stdout},
    path::Path,
    time::Duration,
};

use fidelity_reports::{
    ArmReports, Style, arms_line, arms_terminal, diagnosis_line, gate_line, gate_terminal, printable, terminal,
    verdict_line,
};
use fidelity_verdict::{Gate, Verdict};

use crate::{error::CliError, recipe_text};

/// How a verdict is said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Tables, then the line.
    Tables,
    /// The line alone.
    Line,
    /// verdict.json alone.
    Json,
}

impl Form {
    pub(crate) const fn of(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Json,
            (false, true) => Self::Line,
            (false, false) => Self::Tables,
        }
    }
}

pub(crate) fn say_verdict(verdict: &Verdict, form: Form, wall_time: Option<Duration>, report: Option<&Path>) {
    say(verdict, form, &verdict_line(verdict, wall_time, report));
}

/// Says a verdict whose diagnosis was asked for.
pub(crate) fn say_diagnosis(verdict: &Verdict, form: Form, wall_time: Option<Duration>, report: Option<&Path>) {
    say(verdict, form, &diagnosis_line(verdict, wall_time, report));
}

fn say(verdict: &Verdict, form: Form, line: &str) {
    let text = match form {
        Form::Json => verdict.to_json().unwrap_or_default(),
        Form::Line => format!("{line}\n"),
        Form::Tables => format!("{}\n{line}\n", terminal(verdict, style())),
    };
    print(&text);
}

/// Says several verdicts; as JSON, one a line.
pub(crate) fn say_arms(arms: &ArmReports<'_>, form: Form, report: Option<&Path>) {
    let line = || arms_line(arms, report) + "\n";
    let text = match form {
        Form::Json => arms.verdicts.iter().map(|verdict| verdict.to_json().unwrap_or_default()).collect(),
        Form::Line => line(),
        Form::Tables => format!("{}\n{}", arms_terminal(arms, style()), line()),
    };
    print(&text);
}

pub(crate) fn say_gate(gate: &Gate, form: Form) {
    let line = || gate_line(gate) + "\n";
    print(&match form {
        Form::Json => serde_json::to_string(gate).unwrap_or_default() + "\n",
        Form::Line => line(),
        Form::Tables => format!("{}\n{}", gate_terminal(gate, style()), line()),
    });
}

pub(crate) fn style() -> Style {
    let colour = stdout().is_terminal() && wants_colour();
    Style { colour, ..Style::default() }
}

fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes to standard output; a reader that went away is no error of ours.
pub(crate) fn print(text: &str) {
    let _ = stdout().lock().write_all(text.as_bytes());
}

pub(crate) fn narrate(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

pub(crate) fn warn(text: &str) {
    narrate(&format!("warning: {text}"));
}

pub(crate) fn complain(error: &CliError) {
    match error {
        CliError::Recipe(error) => narrate(&recipe_text::drawn(error, stderr().is_terminal() && wants_colour())),
        CliError::Gate(error) => {
            // Names of prompts and devices are anyone's.
            let lines: Vec<String> = error.to_string().lines().map(printable).collect();
            narrate(&format!("error: {}", lines.join("\n")));
        }
        other => narrate(&format!("error: {other}")),
    }
}
