//! `fidelity forge`: checkpoints derived from others, proved on writing.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use fidelity_diagnose::{Step, forge as forged, forge_ladder};
use fidelity_references::Checkpoint;
use fidelity_reports::{forging_line, forging_terminal};
use fidelity_trace::CheckpointRow;
use fidelity_verdict::Forging;

use crate::{
    args::ForgeArgs,
    error::CliError,
    forge_steps::Asked,
    inputs,
    output::{self, Form, print, style},
    progress::Progress,
    threads,
};

pub(crate) fn forge(args: &ForgeArgs) -> Result<u8, CliError> {
    let clock = Instant::now();
    let progress = Progress::new(args.quiet || args.json);
    progress.say("reading the checkpoint");
    let (checkpoint, row) = inputs::open(&args.checkpoint, &progress)?;
    checkpoint.warnings().iter().for_each(|warning| output::warn(warning));
    threads::use_cores(args.jobs);
    let form = Form::of(args.json, args.quiet);
    let said = |forging: &Forging, folder: &Path| {
        let line = || forging_line(forging, clock.elapsed(), folder) + "\n";
        print(&match form {
            Form::Json => serde_json::to_string(forging).unwrap_or_default() + "\n",
            Form::Line => line(),
            Form::Tables => format!("{}\n{}", forging_terminal(forging, style()), line()),
        });
    };
    progress.say("forging and proving");
    match &with_prompts(args, &checkpoint, row.as_ref())? {
        Asked::One(steps) => said(&forged(&checkpoint, steps, &args.out)?, &args.out),
        Asked::Ladder { before, ladder, after } => {
            let folder = |forging: &Forging| -> PathBuf { args.out.join(&forging.name) };
            let mut each = |forging: &Forging| said(forging, &folder(forging));
            let all = forge_ladder(&checkpoint, before, *ladder, after, row.as_ref(), &args.out, &mut each)?;
            if form == Form::Tables {
                let folder = fidelity_reports::printable(&args.out.display().to_string());
                print(&format!("forged: {} checkpoints, named in {folder}/checkpoints.toml\n", all.len()));
            }
        }
    }
    Ok(0)
}

/// The steps, with prompts for those that measure.
fn with_prompts(args: &ForgeArgs, checkpoint: &Checkpoint, row: Option<&CheckpointRow>) -> Result<Asked, CliError> {
    let mut asked = args.steps.0.clone();
    let calms = asked.steps_mut().any(|step| matches!(step, Step::Calm(_)));
    if !calms {
        return if args.calibration.is_some() { Err(CliError::CalibrationWithoutCalm) } else { Ok(asked) };
    }
    let (_, records) = inputs::calibration_prompts(checkpoint, row, args.calibration.as_deref())?;
    records.iter().try_for_each(|prompt| inputs::check_ids(checkpoint, &prompt.id, &prompt.token_ids))?;
    let prompts: Vec<Vec<u32>> = records.into_iter().map(|prompt| prompt.token_ids).collect();
    for step in asked.steps_mut() {
        if let Step::Calm(measured) = step {
            measured.clone_from(&prompts);
        }
    }
    Ok(asked)
}
