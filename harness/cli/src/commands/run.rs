//! `fidelity run`: reference, arm, verdict, report.

use std::{fs, path::Path};

use fidelity_reports::write_all;
use fidelity_trace::{Scope, Status, Trace};
use fidelity_verdict::Verdict;

use crate::{
    args::RunArgs,
    arms::{ArmPlan, Target, continuations, record_emulator, record_reference, reference},
    error::CliError,
    inputs::Inputs,
    judge::{Helpers, judge},
    output::{Form, say_verdict},
    progress::Progress,
    run_folder::{RunFolder, command_line},
};

pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    let form = Form::of(args.json, args.output.quiet);
    let progress = Progress::new(args.output.quiet || args.json);
    progress.say("reading the checkpoint");
    let inputs = Inputs::gather(&args.checkpoint, &args.prompts, &progress)?;
    let plan = ArmPlan::make(&args.arm, &inputs)?;
    let reference = reference(&inputs, true)?;
    let folder = RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name)?;

    let (ours, its) = (folder.path().join("reference"), folder.path().join("arm"));
    let target = |folder, scopes| Target { folder, resume: args.output.resume, scopes };
    let scopes = reference_scopes(&inputs.scopes);
    let ours = record_reference(&reference, &inputs, &target(&ours, &scopes), &progress)?;
    refuse_total_failure(&ours)?;
    progress.say("calibrating");
    let emulator = plan.emulator(&inputs, reference.decoder())?;
    let its = record_emulator(&emulator, &continuations(&ours), &inputs, &target(&its, &inputs.scopes), &progress)?;

    progress.say("comparing");
    let helpers = Helpers {
        row: inputs.row.as_ref(),
        decoder: Some(reference.decoder()),
        tokenizer: inputs.checkpoint.tokenizer(),
        jobs: inputs.jobs,
    };
    let verdict = judge(&ours, &its, &helpers)?;
    finish(&verdict, &folder, &inputs, args, form)
}

fn finish(verdict: &Verdict, folder: &RunFolder, inputs: &Inputs, args: &RunArgs, form: Form) -> Result<u8, CliError> {
    write_all(folder.path(), verdict, &command_line())?;
    if args.discard_traces {
        ["reference", "arm"].into_iter().try_for_each(|trace| discard(&folder.path().join(trace)))?;
    }
    folder.describe(&inputs.prompts_origin)?;
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

fn discard(folder: &Path) -> Result<(), CliError> {
    fs::remove_dir_all(folder).map_err(|source| CliError::Io { action: "delete", path: folder.to_owned(), source })
}
