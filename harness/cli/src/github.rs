//! What GitHub Actions is told beyond the exit code.

use std::{env, fs::OpenOptions, io::Write};

use fidelity_reports::markdown;
use fidelity_verdict::Verdict;

use crate::{output::warn, run_folder::command_line};

/// Whether a job of GitHub Actions reads what is printed.
pub(crate) fn is_reading() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Appends to the page of the job, if there is one. Other steps write there too.
pub(crate) fn summarise(verdict: &Verdict) {
    let Some(path) = env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else { return };
    let text = markdown(verdict, &command_line());
    let appended =
        OpenOptions::new().append(true).create(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(error) = appended {
        warn(&format!("cannot write the summary of the job to {}: {error}", path.display()));
    }
}
