//! `fidelity report`: a run's report again, from its verdict.json alone.

use std::path::Path;

use fidelity_reports::{write_reports, write_verdict};
use fidelity_verdict::Verdict;

use crate::{
    args::ReportArgs,
    described::{Described, gate_of},
    error::CliError,
    output::{Form, say_verdict},
    resources::read,
};

pub(crate) fn report(args: &ReportArgs) -> Result<u8, CliError> {
    let file = if args.run.is_dir() { args.run.join("verdict.json") } else { args.run.clone() };
    let verdict = Verdict::parse(&read(&file)?, &file.display().to_string())?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write_verdict(folder, &verdict)?;
    let described = Described::read(folder);
    let (reproduce, past, gate) = (described.command(), described.past(None), gate_of(folder));
    write_reports(folder, &verdict, &described.circumstances(&reproduce, &past, gate.as_ref()))?;
    say_verdict(&verdict, Form::of(args.json, args.quiet), None, Some(&folder.join("report.html")));
    Ok(verdict.exit_code)
}
