//! The only place that writes to standard output and standard error.

use std::{
    io::{ErrorKind, IsTerminal, Write, stderr, stdout},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use fidelity_reports::{
    ArmReports, Style, annotations, arms_line, arms_terminal, diagnosis_line, gate_line, gate_terminal, printable,
    terminal, verdict_line, without_commands,
};
use fidelity_verdict::{ExitCode, Gate, Verdict};

use crate::{error::CliError, github, recipe_text};

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
    if github::is_reading() && !matches!(form, Form::Json) {
        emit(&annotations(verdict));
    }
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

/// Something could not be written to standard output.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes to standard output what is for people, or JSON.
pub(crate) fn print(text: &str) {
    let is_json = text.starts_with(['{', '[']);
    match github::is_reading() && !is_json {
        true => emit(&without_commands(text)),
        false => emit(text),
    }
}

/// Writes to standard output as it is. A reader that went away is no error of ours; a full disk is one.
pub(crate) fn emit(text: &str) {
    let mut output = stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            LOST.store(true, Ordering::Relaxed);
            warn(&format!("cannot write to standard output: {error}"));
        }
        _ => {}
    }
}

/// What the program exits with: a pass that could not be told is none.
pub(crate) fn exit_code(code: u8) -> u8 {
    match LOST.load(Ordering::Relaxed) && code == ExitCode::Pass.code() {
        true => ExitCode::Device.code(),
        false => code,
    }
}

pub(crate) fn narrate(text: &str) {
    let text = if github::is_reading() { without_commands(text) } else { text.to_owned() };
    let _ = writeln!(stderr().lock(), "{text}");
}

pub(crate) fn warn(text: &str) {
    narrate(&format!("warning: {text}"));
}

pub(crate) fn complain(error: &CliError) {
    match error {
        CliError::Interrupted { .. } => narrate(&error.to_string()),
        CliError::Recipe(error) => narrate(&recipe_text::drawn(error, stderr().is_terminal() && wants_colour())),
        CliError::Gate(error) => {
            // Names of prompts and devices are anyone's.
            let lines: Vec<String> = error.to_string().lines().map(printable).collect();
            narrate(&format!("error: {}", lines.join("\n")));
        }
        other => narrate(&format!("error: {other}")),
    }
}
