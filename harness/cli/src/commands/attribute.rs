//! `fidelity attribute`: which covariate of several checkpoints goes with who passes.

use std::{fs, path::Path};

use fidelity_diagnose::{PUBLISHED, explain, read_results};
use fidelity_reports::{explanation_line, explanation_terminal, printable};

use crate::{
    args::AttributeArgs,
    error::CliError,
    output::{Form, print, style},
    resources,
};

/// Results above this are refused before they are read.
const MOST_BYTES: u64 = 64 << 20;

pub(crate) fn attribute(args: &AttributeArgs) -> Result<u8, CliError> {
    let (text, origin) = match &args.results {
        Some(path) => (bounded(path)?, printable(&path.display().to_string())),
        None => (PUBLISHED.to_owned(), "published.csv".to_owned()),
    };
    let explanation = explain(&read_results(&text, &origin)?, &origin)?;
    let line = || explanation_line(&explanation) + "\n";
    print(&match Form::of(args.json, args.quiet) {
        Form::Json => serde_json::to_string(&explanation).unwrap_or_default() + "\n",
        Form::Line => line(),
        Form::Tables => format!("{}\n{}", explanation_terminal(&explanation, style()), line()),
    });
    Ok(0)
}

fn bounded(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    match fs::metadata(path).map_err(failed)? {
        file if file.len() > MOST_BYTES => Err(CliError::UnfitTrace {
            trace: path.to_owned(),
            reason: format!("{} bytes, at most {MOST_BYTES} are read", file.len()),
        }),
        _ => resources::read(path),
    }
}
