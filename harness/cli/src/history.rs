//! Appending a run to the history. What fails here fails nothing else: the verdict stands, and so does its exit code.

use std::path::{Path, PathBuf};

use fidelity_history::{History, HistoryError, Occasion, remember};
use fidelity_verdict::{PastRun, Verdict};

use crate::output::warn;

/// Runs before this one that a report shows.
const SHOWN: usize = 60;

/// The history that is asked for: a file, `none`, or `runs/history.db`.
pub(crate) fn place(asked: Option<&str>) -> Option<PathBuf> {
    match asked.filter(|asked| !asked.is_empty()) {
        None => Some(Path::new("runs").join("history.db")),
        Some("none") => None,
        Some(file) => Some(file.into()),
    }
}

/// The run of this id after the last ones of the same checkpoint and arm before it; nothing where the history does not know it.
pub(crate) fn until(asked: Option<&str>, id: &str) -> Vec<PastRun> {
    let variable = std::env::var("FIDELITY_HISTORY").ok();
    let runs = place(asked.or(variable.as_deref())).and_then(|path| History::existing(&path).ok()?.runs(None).ok());
    let mut runs = runs.unwrap_or_default();
    match runs.iter().find(|run| run.id == id).cloned() {
        Some(run) => before(&mut runs, &run),
        None => Vec::new(),
    }
}

/// Appends a run, and gives it back after the last ones of the same checkpoint and arm before it.
pub(crate) fn append(asked: Option<&str>, verdict: &Verdict, occasion: Occasion) -> Vec<PastRun> {
    let Some(path) = place(asked) else { return Vec::new() };
    let run = remember(verdict, occasion);
    let kept = || -> Result<Vec<PastRun>, HistoryError> {
        let mut history = History::open(&path)?;
        history.append(&run)?;
        history.runs(Some(&run.checkpoint))
    };
    let mut runs = kept().unwrap_or_else(|error| {
        warn(&format!("the run is not in the history: {error}"));
        Vec::new()
    });
    before(&mut runs, &run)
}

/// Of these, the last ones of one series up to `run`.
fn before(runs: &mut Vec<PastRun>, run: &PastRun) -> Vec<PastRun> {
    runs.retain(|it| it.series() == run.series() && it.begun <= run.begun);
    runs.split_off(runs.len().saturating_sub(SHOWN))
}
