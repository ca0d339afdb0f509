//! `fidelity report`: a run's report again, from its verdict.json alone.

use std::path::Path;

use fidelity_reports::write_all;
use fidelity_verdict::Verdict;

use crate::{
    args::ReportArgs,
    error::CliError,
    output::{Form, say_verdict},
    resources::read,
    run_folder::command_line,
};

pub(crate) fn report(args: &ReportArgs) -> Result<u8, CliError> {
    let file = if args.run.is_dir() { args.run.join("verdict.json") } else { args.run.clone() };
    let verdict = Verdict::parse(&read(&file)?, &file.display().to_string())?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write_all(folder, &verdict, &command_line())?;
    say_verdict(&verdict, Form::of(args.json, args.quiet), None, Some(&folder.join("report.html")));
    Ok(verdict.exit_code)
}
