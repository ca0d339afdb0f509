//! `fidelity bless`: the only thing that writes a baseline.

use std::{fmt::Write, fs, path::Path};

use fidelity_compare::{bless as make, replaced};
use fidelity_reports::printable;
use fidelity_verdict::Baseline;

use crate::{
    args::BlessArgs,
    error::CliError,
    gating::{StoredRun, read_baseline},
    output::print,
    resources,
};

pub(crate) fn bless(args: &BlessArgs) -> Result<u8, CliError> {
    let run = StoredRun::open(&args.run)?;
    let baseline = make(&run.verdict, &run.versions)?;
    let path = args.out.clone().unwrap_or_else(|| baseline.path());
    // Only a baseline is written over.
    let before = if path.exists() { Some(read_baseline(&path)?) } else { None };
    write(&path, &baseline)?;
    if !args.quiet {
        print(&said(&baseline, before.as_ref()));
    }
    let how = if before.is_some() { "replaced" } else { "new" };
    let (verdict, reason) = (baseline.verdict, printable(&baseline.reason));
    print(&format!("blessed: {verdict} · {reason} · {how} baseline {}\n", printable(&path.display().to_string())));
    Ok(0)
}

fn write(path: &Path, baseline: &Baseline) -> Result<(), CliError> {
    let failed = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| CliError::Io { action, path, source }
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    let text = baseline.to_json().map_err(fidelity_reports::ReportError::Json)?;
    resources::write(path, text)
}

fn said(baseline: &Baseline, before: Option<&Baseline>) -> String {
    let mut text = String::new();
    for (scope, held) in &baseline.scopes {
        let means = held.means.iter().map(|(metric, found)| format!("{} {:.6}", metric.name(), found.mean));
        let _ = writeln!(text, "{scope}: {} ({} prompts)", means.collect::<Vec<_>>().join(", "), held.prompts.len());
    }
    if let Some(before) = before {
        let replaced = replaced(before, baseline);
        text.push_str(if replaced.is_empty() {
            "The baseline before said the same.\n"
        } else {
            "Otherwise than the baseline before:\n"
        });
        for line in replaced {
            let _ = writeln!(text, "  {}", printable(&line));
        }
    }
    text
}
