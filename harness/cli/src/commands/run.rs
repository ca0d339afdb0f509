//! `fidelity run`: reference, arm, verdict, report.

use std::{fs, path::Path};

use fidelity_references::Reference;
use fidelity_reports::write_all;
use fidelity_trace::{CheckpointRow, Scope, Status, Trace};
use fidelity_verdict::Verdict;

use crate::{
    args::RunArgs,
    arms::{ArmPlan, Target, continuations as own_continuations, record_emulator, record_reference, reference},
    beside::Beside,
    device::Device,
    error::CliError,
    hailo::Hailo,
    inputs::Inputs,
    judge::{Helpers, judge},
    output::{Form, say_verdict},
    progress::Progress,
    replay::Replay,
    run_folder::{RunFolder, command_line},
};

pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    match Device::asked(&args.arm)? {
        Device::Emulator => emulate(args),
        Device::Hailo => hailo(args),
        Device::Replay(trace) => replay(args, &trace),
    }
}

fn emulate(args: &RunArgs) -> Result<u8, CliError> {
    let progress = progress(args);
    progress.say("reading the checkpoint");
    let inputs = Inputs::gather(&args.checkpoint, &args.prompts, &progress)?;
    let plan = ArmPlan::make(&args.arm, &inputs)?;
    let reference = reference(&inputs, true)?;
    let folder = RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name)?;

    let (ours, its) = (folder.path().join("reference"), folder.path().join("arm"));
    let target = |folder, scopes| Target { folder, resume: args.output.resume, scopes };
    let scopes = reference_scopes(&inputs.scopes);
    let ours = record_reference(&reference, None, &inputs, &target(&ours, &scopes), &progress)?;
    refuse_total_failure(&ours)?;
    progress.say("calibrating");
    let emulator = plan.emulator(&inputs, reference.decoder())?;
    let its = record_emulator(&emulator, &own_continuations(&ours), &inputs, &target(&its, &inputs.scopes), &progress)?;

    progress.say("comparing");
    let verdict = judge(&ours, &its, &helpers(&inputs, &reference, inputs.row.as_ref()))?;
    finish(&verdict, &folder, &["reference", "arm"], &inputs, args)
}

/// A compiled model on a device.
fn hailo(args: &RunArgs) -> Result<u8, CliError> {
    let progress = progress(args);
    progress.say("reading the checkpoint");
    let mut inputs = Inputs::gather(&args.checkpoint, &args.prompts, &progress)?;
    let quiet = args.output.quiet || args.json;
    let device = Hailo::open(&args.arm.hailo, &args.prompts, &mut inputs, quiet, &progress)?;
    let plan = args.arm.recipe.as_ref().map(|_| ArmPlan::make(&args.arm, &inputs)).transpose()?;
    let reference = reference(&inputs, true)?;
    let folder = RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name)?;

    let (ours, its) = (folder.path().join("reference"), folder.path().join("arm"));
    let target = |folder, scopes| Target { folder, resume: args.output.resume, scopes };
    let scopes = reference_scopes(&inputs.scopes);
    let ours = record_reference(&reference, None, &inputs, &target(&ours, &scopes), &progress)?;
    refuse_total_failure(&ours)?;
    let fed = own_continuations(&ours);
    let its = device.record(&fed, &inputs, &target(&its, &inputs.scopes), &progress)?;

    progress.say("comparing");
    let mut verdict = judge(&ours, &its, &helpers(&inputs, &reference, inputs.row.as_ref()))?;
    device.sign(&mut verdict);
    let Some(plan) = plan else { return finish(&verdict, &folder, &["reference", "arm"], &inputs, args) };
    let (ours, its) = (&ours, &its);
    let beside = Beside { inputs: &inputs, reference: &reference, ours, its, continuations: &fed, progress: &progress };
    let emulator = folder.path().join("emulator");
    beside.attribute(plan, &target(&emulator, &inputs.scopes), &mut verdict)?;
    finish(&verdict, &folder, &["reference", "arm", "emulator"], &inputs, args)
}

/// A stored trace in the place of the arm: it decides the prompts, scopes and sites, and what the reference is fed.
fn replay(args: &RunArgs, path: &Path) -> Result<u8, CliError> {
    let progress = progress(args);
    let replay = Replay::open(path)?;
    let asked = replay.asked(&args.prompts)?;
    progress.say("reading the checkpoint");
    let own_prompts = args.prompts.prompts.is_none() && args.prompts.prompt.is_empty();
    let inputs = if own_prompts {
        let prompts = &replay.trace.manifest().prompts;
        Inputs::gather_from(&args.checkpoint, &asked, prompts, path.display().to_string(), &progress)?
    } else {
        Inputs::gather(&args.checkpoint, &asked, &progress)?
    };
    let out = args.output.out.as_deref();
    replay.check(&inputs, &out.unwrap_or(Path::new("runs")).join("reference"))?;
    let plan = args.arm.recipe.as_ref().map(|_| ArmPlan::make(&args.arm, &inputs)).transpose()?;
    let reference = reference(&inputs, true)?;
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
    let Some(plan) = plan else { return finish(&verdict, &folder, &["reference"], &inputs, args) };
    let fed = continuations.unwrap_or_else(|| own_continuations(&ours));
    let (ours, its) = (&ours, &replay.trace);
    let beside = Beside { inputs: &inputs, reference: &reference, ours, its, continuations: &fed, progress: &progress };
    let emulator = folder.path().join("emulator");
    let target = Target { folder: &emulator, resume: args.output.resume, scopes: &inputs.scopes };
    beside.attribute(plan, &target, &mut verdict)?;
    finish(&verdict, &folder, &["reference", "emulator"], &inputs, args)
}

fn progress(args: &RunArgs) -> Progress {
    Progress::new(args.output.quiet || args.json)
}

fn helpers<'a>(inputs: &'a Inputs, reference: &'a Reference, row: Option<&'a CheckpointRow>) -> Helpers<'a> {
    Helpers {
        row,
        decoder: Some(reference.decoder()),
        tokenizer: inputs.checkpoint.tokenizer(),
        scopes: None,
        jobs: inputs.jobs,
    }
}

/// Writes what is concluded and says it. `traces` are those of the run's folder, which are its own to delete.
fn finish(
    verdict: &Verdict,
    folder: &RunFolder,
    traces: &[&str],
    inputs: &Inputs,
    args: &RunArgs,
) -> Result<u8, CliError> {
    write_all(folder.path(), verdict, &command_line())?;
    if args.discard_traces {
        traces.iter().try_for_each(|trace| discard(&folder.path().join(trace)))?;
    }
    folder.describe(&inputs.prompts_origin)?;
    let form = Form::of(args.json, args.output.quiet);
    say_verdict(verdict, form, Some(folder.wall_time()), Some(&folder.path().join("report.html")));
    Ok(verdict.exit_code)
}

/// The arm's `tbt` and `tbt_self` are fed the reference's greedy ids, so the reference generates whenever they are asked for.
pub(crate) fn reference_scopes(scopes: &[Scope]) -> Vec<Scope> {
    let generates = scopes.iter().any(|scope| matches!(scope, Scope::Tbt | Scope::TbtSelf | Scope::TbtFree));
    Scope::ALL.into_iter().filter(|scope| scopes.contains(scope) || (generates && *scope == Scope::TbtFree)).collect()
}

/// Without a single reference there is nothing to judge by.
pub(crate) fn refuse_total_failure(trace: &Trace) -> Result<(), CliError> {
    let prompts = &trace.manifest().prompts;
    if prompts.iter().any(|prompt| prompt.status == Status::Ok) {
        return Ok(());
    }
    let error = prompts.iter().find_map(|prompt| prompt.error.clone()).unwrap_or_default();
    Err(CliError::EveryPromptFailed(error))
}

pub(crate) fn discard(folder: &Path) -> Result<(), CliError> {
    fs::remove_dir_all(folder).map_err(|source| CliError::Io { action: "delete", path: folder.to_owned(), source })
}
