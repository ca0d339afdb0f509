//! Verb: shows a verdict. One output format per file.
//!
//! Everything is made from the [`Verdict`] alone: this crate must not know traces, devices or metrics and computes no
//! number, it only formats those it is given.

mod activations;
mod advice;
mod advice_csv;
mod annotations;
mod arms;
mod bisection;
mod csv;
mod diagnosis;
mod explanation;
mod forging;
mod gate;
mod generated;
mod history;
mod html;
mod identity;
mod json;
mod judged;
mod junit;
mod layers;
mod markdown;
mod numbers;
mod self_test;
mod sweep_csv;
mod terminal;
mod text;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use fidelity_trace::write_atomically;
use fidelity_verdict::{ActivationProfile, Advice, Cell, Gate, PastRun, Verdict};

pub use crate::{
    activations::{
        activation_channels_csv, activation_positions_csv, activation_sites_csv, activations_terminal, massive_csv,
        sinks_csv,
    },
    advice::{advice_line, advice_terminal},
    advice_csv::{advice_kinds_csv, advice_sites_csv, advice_steps_csv},
    annotations::{annotations, without_commands},
    arms::{ArmReports, arm_folders},
    bisection::{bisection_line, bisection_terminal},
    csv::{arms_csv, layers_csv, positions_csv},
    explanation::{explanation_line, explanation_terminal},
    forging::{forging_line, forging_terminal},
    gate::{gate_line, gate_markdown, gate_terminal},
    history::{history_csv, history_terminal},
    html::{activations_html, advice_html, arms_html, history_html, html, html_among, sweep_html},
    json::json,
    junit::junit,
    markdown::markdown,
    numbers::magnitude,
    self_test::{self_test_markdown, self_test_text},
    sweep_csv::sweep_csv,
    terminal::{
        Align, Style, arms_line, arms_terminal, diagnosis_line, duration, labelled, sweep_line, sweep_terminal, table,
        terminal, verdict_line,
    },
    text::{printable, wrapped},
};

/// What a report shows beside the verdict and is not of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances<'a> {
    /// The command line shown as the way to repeat the run.
    pub reproduce: &'a str,
    /// Runs of the same checkpoint and arm, the run itself the last of them; nothing where it is alone.
    pub past: &'a [PastRun],
    /// Where and when it ran, where that is known.
    pub machine: Option<&'a Machine>,
    /// What a gate concluded of it, where one was asked.
    pub gate: Option<&'a Gate>,
}

/// Where and when a run was computed, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The version of this program.
    pub fidelity: String,
    /// Operating system, architecture and number of cores.
    pub host: String,
    /// When the run began.
    pub begun: String,
}

/// A report that could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file system said no.
    #[error("cannot write {path}: {source}; check rights and free space")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The verdict does not form JSON: a fault of ours.
    #[error("cannot write the verdict as JSON: {0}; this is a fault of fidelity, report it")]
    Json(#[from] serde_json::Error),
    /// The page template does not fit its data: a fault of ours.
    #[error("cannot fill the page: {0}; this is a fault of fidelity, report it")]
    Template(#[from] minijinja::Error),
    /// The document for CI systems does not form: a fault of ours.
    #[error("cannot write JUnit XML: {reason}; this is a fault of fidelity, report it")]
    Junit {
        /// What the library says.
        reason: String,
    },
    /// A chart cannot be drawn: a fault of ours.
    #[error("cannot draw the chart `{chart}`: {reason}; this is a fault of fidelity, report it")]
    Chart {
        /// Which.
        chart: &'static str,
        /// What the drawing library says.
        reason: String,
    },
}

/// Writes `verdict.json` and everything that is made of it into `folder`, which is created if needed. `reproduce` is the command
/// line shown as the way to repeat the run.
///
/// # Errors
/// A report cannot be made, or the file system says no.
pub fn write_all(folder: &Path, verdict: &Verdict, reproduce: &str) -> Result<(), ReportError> {
    write_verdict(folder, verdict)?;
    write_reports(folder, verdict, &Circumstances { reproduce, ..Circumstances::default() })
}

/// Writes `verdict.json` alone into `folder`, which is created if needed. The gate of another verdict that was there goes: it says
/// nothing of this one.
///
/// # Errors
/// It cannot be made, or the file system says no.
pub fn write_verdict(folder: &Path, verdict: &Verdict) -> Result<(), ReportError> {
    let text = json(verdict)?;
    let same = fs::read_to_string(folder.join("verdict.json")).is_ok_and(|before| before == text);
    for path in ["gate.json", "gate.md"].map(|name| folder.join(name)).into_iter().filter(|path| !same && path.exists())
    {
        fs::remove_file(&path).map_err(|source| ReportError::Io { path, source })?;
    }
    write(folder, [("verdict.json", text)])
}

/// Writes what is made of a verdict: `positions.csv`, `layers.csv`, `junit.xml`, `summary.md` and `report.html`.
///
/// # Errors
/// A report cannot be made, or the file system says no.
pub fn write_reports(folder: &Path, verdict: &Verdict, among: &Circumstances<'_>) -> Result<(), ReportError> {
    let files = [
        ("positions.csv", positions_csv(verdict)),
        ("layers.csv", layers_csv(verdict)),
        ("junit.xml", junit(verdict)?),
        ("summary.md", markdown(verdict, among.reproduce)),
        ("report.html", html_among(verdict, among)?),
    ];
    write(folder, files)
}

/// Writes `report.html` alone, into a folder that is there.
///
/// # Errors
/// It cannot be made, or the file system says no.
pub fn write_page(folder: &Path, verdict: &Verdict, among: &Circumstances<'_>) -> Result<(), ReportError> {
    write(folder, [("report.html", html_among(verdict, among)?)])
}

/// Writes `arms.csv` and `report.html` with all arms into `folder`, and the files of [`write_all`] of each arm into a folder of
/// its own there.
///
/// # Errors
/// A report cannot be made, or the file system says no.
pub fn write_arms(folder: &Path, arms: &ArmReports<'_>, reproduce: &str) -> Result<(), ReportError> {
    let files = [("arms.csv", arms_csv(arms)), ("report.html", arms_html(arms, reproduce)?)];
    arms.verdicts
        .iter()
        .zip(arms.folders)
        .try_for_each(|(verdict, own)| write_all(&folder.join(own), verdict, reproduce))?;
    write(folder, files)
}

/// Writes `profile.json`, `profile.html` and the tables of an activation profile into `folder`, which is created if needed.
///
/// # Errors
/// A report cannot be made, or the file system says no.
pub fn write_activations(folder: &Path, profile: &ActivationProfile) -> Result<(), ReportError> {
    let files = [
        ("profile.json", serde_json::to_string(profile)? + "\n"),
        ("profile.html", activations_html(profile)?),
        ("sites.csv", activation_sites_csv(profile)),
        ("positions.csv", activation_positions_csv(profile)),
        ("channels.csv", activation_channels_csv(profile)),
        ("massive.csv", massive_csv(profile)),
        ("sinks.csv", sinks_csv(profile)),
    ];
    write(folder, files)
}

/// Writes `advice.json`, `advise.html`, `kinds.csv`, `steps.csv` and `sites.csv` into `folder`, which is created if needed.
///
/// # Errors
/// A report cannot be made, or the file system says no.
pub fn write_advice(folder: &Path, advice: &Advice) -> Result<(), ReportError> {
    let files = [
        ("advice.json", serde_json::to_string(advice)? + "\n"),
        ("advise.html", advice_html(advice)?),
        ("kinds.csv", advice_kinds_csv(advice)),
        ("steps.csv", advice_steps_csv(advice)),
        ("sites.csv", advice_sites_csv(advice)),
    ];
    write(folder, files)
}

/// Writes `results.csv` and `sweep.html` into `folder`, which is created if needed.
///
/// # Errors
/// A report cannot be made, or the file system says no.
pub fn write_sweep(folder: &Path, cells: &[Cell], reproduce: &str) -> Result<(), ReportError> {
    write(folder, [("results.csv", sweep_csv(cells)), ("sweep.html", sweep_html(cells, reproduce)?)])
}

/// Writes `gate.json` and `gate.md` into `folder`, which is created if needed.
///
/// # Errors
/// A report cannot be made, or the file system says no.
pub fn write_gate(folder: &Path, gate: &Gate) -> Result<(), ReportError> {
    write(folder, [("gate.json", serde_json::to_string(gate)? + "\n"), ("gate.md", gate_markdown(gate))])
}

fn write<const N: usize>(folder: &Path, files: [(&str, String); N]) -> Result<(), ReportError> {
    fs::create_dir_all(folder).map_err(|source| ReportError::Io { path: folder.to_owned(), source })?;
    files.into_iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        write_atomically(&path, text.as_bytes()).map_err(|source| ReportError::Io { path, source })
    })
}
