//! A stored trace in the place of the arm, for `fidelity run` and `fidelity diagnose`.

use std::path::Path;

use fidelity_trace::Trace;

use crate::{
    again::Again,
    args::RunArgs,
    arms::{ArmPlan, Target, continuations as own_continuations, record_reference, reference},
    beside::Beside,
    commands::run::{Judged, Ran, helpers, progress, reference_scopes, refuse_total_failure},
    diagnosis::Purpose,
    error::CliError,
    inputs::Inputs,
    judge::{Helpers, judge},
    replay::Replay,
    run_folder::RunFolder,
};

/// The trace decides the prompts, scopes and sites, and what the reference is fed. Its arm may be run `again` for a diagnosis.
pub(crate) fn replay(
    args: &RunArgs,
    path: &Path,
    replay: &Replay,
    again: Option<&Again>,
    purpose: Purpose,
) -> Result<Ran, CliError> {
    let progress = progress(args);
    let asked = replay.asked(&args.prompts)?;
    progress.say("reading the checkpoint");
    let own_prompts = args.prompts.prompts.is_none() && args.prompts.prompt.is_empty();
    let mut inputs = if own_prompts {
        let prompts = &replay.trace.manifest().prompts;
        Inputs::gather_from(&args.checkpoint, &asked, prompts, path.display().to_string(), &progress)?
    } else {
        Inputs::gather(&args.checkpoint, &asked, &progress)?
    };
    let out = args.output.out.as_deref();
    replay.check(&inputs, &out.unwrap_or(Path::new("runs")).join("reference"))?;
    let plan = args.arm.recipe.as_ref().map(|_| ArmPlan::make(&args.arm, &inputs)).transpose()?;
    let reference = reference(&inputs, true)?;
    let quiet = args.output.quiet || args.json;
    let again = again.map(|again| again.open(&mut inputs, &asked, &reference, quiet, &progress)).transpose()?;
    let folder = RunFolder::create(out, &inputs.checkpoint.identity().name)?;

    let ours = folder.path().join("reference");
    let scopes = reference_scopes(&inputs.scopes);
    let target = Target { folder: &ours, resume: args.output.resume, scopes: &scopes };
    let continuations = replay.continuations(&inputs);
    let ours = record_reference(&reference, continuations.as_deref(), &inputs, &target, &progress)?;
    refuse_total_failure(&ours)?;

    progress.say("comparing");
    let row = inputs.row.as_ref();
    let helpers = Helpers { scopes: Some(&inputs.scopes), ..helpers(&inputs, &reference, replay.own_row(row)) };
    let mut verdict = judge(&ours, &replay.trace, &helpers)?;
    replay.sign(&mut verdict, row, ours.manifest(), continuations.as_deref(), inputs.new_tokens);
    let fed = continuations.unwrap_or_else(|| own_continuations(&ours));
    let (ours, its): (&Trace, &Trace) = (&ours, &replay.trace);
    let beside = Beside { inputs: &inputs, reference: &reference, ours, its, continuations: &fed, progress: &progress };
    Judged { beside, verdict, plan, traces: vec!["reference"], again }.conclude(folder, args, purpose)
}
