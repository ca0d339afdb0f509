//! Baselines and runs as files: what `gate`, `bless` and `run --gate` share.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use fidelity_compare::{baseline_path, gate};
use fidelity_reports::write_gate;
use fidelity_verdict::{BASELINE_LIMIT_BYTES, Baseline, GateSettings, Metric, Verdict, worst_exit_code};
use serde_json::Value;

use crate::{
    described::show_gate,
    error::CliError,
    output::{Form, say_gate},
    resources::read,
};

/// A run as it lies in its folder.
pub(crate) struct StoredRun {
    pub(crate) verdict: Verdict,
    pub(crate) folder: PathBuf,
    pub(crate) versions: BTreeMap<String, String>,
}

impl StoredRun {
    /// `run` is a folder, or the verdict.json in it.
    pub(crate) fn open(run: &Path) -> Result<Self, CliError> {
        let file = if run.is_dir() { run.join("verdict.json") } else { run.to_owned() };
        let verdict = Verdict::parse(&read(&file)?, &file.display().to_string())?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        Ok(Self { verdict, versions: versions(&folder), folder })
    }
}

/// The version that computed a run, which run.json says; a run without one has none.
fn versions(folder: &Path) -> BTreeMap<String, String> {
    let described: Option<Value> =
        fs::read_to_string(folder.join("run.json")).ok().and_then(|text| serde_json::from_str(&text).ok());
    let version = described.as_ref().and_then(|it| it["fidelity"].as_str());
    version.map(|version| ("fidelity".to_owned(), version.to_owned())).into_iter().collect()
}

/// Reads a baseline; its size is looked at first.
pub(crate) fn read_baseline(path: &Path) -> Result<Baseline, CliError> {
    let about = fs::metadata(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    if !about.is_file() || about.len() > BASELINE_LIMIT_BYTES {
        return Err(CliError::NotABaseline { path: path.to_owned(), limit: BASELINE_LIMIT_BYTES });
    }
    Ok(Baseline::parse(&read(path)?, &path.display().to_string())?)
}

/// The baseline that is named, else the one where `bless` would write this run's.
pub(crate) fn baseline_for(run: &StoredRun, named: Option<&Path>, flag: &'static str) -> Result<Baseline, CliError> {
    if let Some(path) = named {
        return read_baseline(path);
    }
    let path = baseline_path(&run.verdict)?;
    if path.exists() { read_baseline(&path) } else { Err(CliError::NoBaseline { path, flag }) }
}

/// The settings compiled in, with the margins that were asked for.
pub(crate) fn settings(margins: &[(Metric, f64)]) -> GateSettings {
    let mut settings = GateSettings::compiled_in();
    settings.margins.extend(margins.iter().copied());
    settings
}

/// Gates a run that has just been written; the exit code is the worse one.
pub(crate) fn gate_run(
    verdict: &Verdict,
    folder: &Path,
    named: Option<&Path>,
    history: Option<&str>,
    form: Form,
) -> Result<u8, CliError> {
    let run = StoredRun { verdict: verdict.clone(), folder: folder.to_owned(), versions: versions(folder) };
    let baseline = baseline_for(&run, named, "gate")?;
    let gate = gate(&baseline, verdict, &run.versions, &settings(&[]), &[])?;
    write_gate(folder, &gate)?;
    show_gate(folder, verdict, &gate, history)?;
    // Standard output is verdict.json's.
    if !matches!(form, Form::Json) {
        say_gate(&gate, form);
    }
    Ok(worst_exit_code([verdict.exit_code, gate.exit_code]))
}
