//! `fidelity compare`: traces, wherever they come from.

use std::{path::Path, thread::available_parallelism};

use fidelity_reports::{ArmReports, arm_folders, write_all, write_arms};
use fidelity_trace::Trace;
use fidelity_verdict::{Verdict, worst};

use crate::{
    args::CompareArgs,
    error::CliError,
    judge::{Helpers, judge},
    output::{Form, say_arms, say_verdict},
    replay::is_of,
    resources,
    run_folder::command_line,
};

pub(crate) fn compare(args: &CompareArgs) -> Result<u8, CliError> {
    let reference = Trace::open(&args.reference)?;
    let devices: Vec<Trace> = args.devices.iter().map(|device| Trace::open(device)).collect::<Result<_, _>>()?;
    // A checkpoint's own thresholds and expectations hold for its traces too; a name alone proves nothing.
    let registry = resources::registry()?;
    let row = registry.rows.iter().find(|row| is_of(reference.manifest(), row));
    let helpers = Helpers { row, jobs: available_parallelism().map_or(1, Into::into), ..Helpers::default() };
    if let [device] = &devices[..] {
        return one(&judge(&reference, device, &helpers)?, args);
    }
    let judged = devices
        .iter()
        .zip(&args.devices)
        .map(|(device, path)| judge(&reference, device, &helpers).map_err(|error| of_trace(error, path)));
    several(&judged.collect::<Result<Vec<_>, _>>()?, args)
}

fn one(verdict: &Verdict, args: &CompareArgs) -> Result<u8, CliError> {
    let report = match &args.out {
        None => None,
        Some(folder) => {
            write_all(folder, verdict, &command_line())?;
            Some(folder.join("report.html"))
        }
    };
    say_verdict(verdict, Form::of(args.json, args.quiet), None, report.as_deref());
    Ok(verdict.exit_code)
}

fn several(verdicts: &[Verdict], args: &CompareArgs) -> Result<u8, CliError> {
    let folders = if args.out.is_some() { arm_folders(verdicts) } else { Vec::new() };
    let arms = ArmReports { verdicts, folders: &folders };
    if let Some(folder) = &args.out {
        write_arms(folder, &arms, &command_line())?;
    }
    let report = args.out.as_ref().map(|folder| folder.join("report.html"));
    say_arms(&arms, Form::of(args.json, args.quiet), report.as_deref());
    Ok(worst(verdicts).map_or(0, |index| verdicts[index].exit_code))
}

/// Of several traces, which one it was.
fn of_trace(error: CliError, trace: &Path) -> CliError {
    match error {
        CliError::NothingInCommon => CliError::UnfitTrace { trace: trace.to_owned(), reason: error.to_string() },
        other => other,
    }
}
