//! `fidelity compare`: two traces, wherever they come from.

use std::thread::available_parallelism;

use fidelity_reports::write_all;
use fidelity_trace::Trace;

use crate::{
    args::CompareArgs,
    error::CliError,
    judge::{Helpers, judge},
    output::{Form, say_verdict},
    replay::is_of,
    resources,
    run_folder::command_line,
};

pub(crate) fn compare(args: &CompareArgs) -> Result<u8, CliError> {
    let (reference, device) = (Trace::open(&args.reference)?, Trace::open(&args.devices[0])?);
    // A checkpoint's own thresholds and expectations hold for its traces too; a name alone proves nothing.
    let registry = resources::registry()?;
    let row = registry.rows.iter().find(|row| is_of(reference.manifest(), row));
    let helpers = Helpers { row, jobs: available_parallelism().map_or(1, Into::into), ..Helpers::default() };
    let verdict = judge(&reference, &device, &helpers)?;
    let report = match &args.out {
        None => None,
        Some(folder) => {
            write_all(folder, &verdict, &command_line())?;
            Some(folder.join("report.html"))
        }
    };
    say_verdict(&verdict, Form::of(args.json, args.quiet), None, report.as_deref());
    Ok(verdict.exit_code)
}
