//! `fidelity run`: reference, arm, verdict, report.

use std::{fs, path::Path};

use fidelity_references::Reference;
use fidelity_reports::{write_reports, write_verdict};
use fidelity_trace::{CheckpointRow, Scope, Status, Trace};
use fidelity_verdict::Verdict;

use crate::{
    args::RunArgs,
    arms::{ArmPlan, Target, continuations as own_continuations, record_emulator, record_reference, reference},
    beside::Beside,
    commands::replay::replay,
    device::Device,
    diagnosis::{Patient, Purpose},
    error::CliError,
    github,
    hailo::Hailo,
    history,
    inputs::Inputs,
    interrupt,
    judge::{Helpers, judge},
    output::{Form, say_diagnosis, say_verdict},
    progress::Progress,
    replay::Replay,
    run_folder::{RunFolder, command_line},
};

pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    let purpose = Purpose::Verdict { diagnosed: !args.no_diagnosis };
    match Device::asked(&args.arm)? {
        Device::Emulator => emulate(args, purpose),
        Device::Hailo => hailo(args, purpose),
        Device::Replay(trace) => replay(args, &trace, &Replay::open(&trace)?, purpose),
    }
}

fn emulate(args: &RunArgs, purpose: Purpose) -> Result<u8, CliError> {
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
    interrupt::check()?;
    progress.say("calibrating");
    let emulator = plan.emulator(&inputs, reference.decoder())?;
    let its = record_emulator(&emulator, &own_continuations(&ours), &inputs, &target(&its, &inputs.scopes), &progress)?;

    progress.say("comparing");
    let mut verdict = judge(&ours, &its, &helpers(&inputs, &reference, inputs.row.as_ref()))?;
    if purpose.asks(&mut verdict) {
        interrupt::check()?;
        // What was injected is for the search to find.
        drop(emulator);
        let own = plan.recipe().map(|_| plan.without_faults(&inputs, reference.decoder())).transpose()?;
        let emulated = own.as_ref().zip(plan.recipe());
        let patient = Patient { inputs: &inputs, device: &its, emulated, progress: &progress };
        patient.diagnose(&mut verdict, purpose)?;
    }
    finish(&verdict, &folder, &["reference", "arm"], &inputs, args, purpose)
}

/// A compiled model on a device.
fn hailo(args: &RunArgs, purpose: Purpose) -> Result<u8, CliError> {
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
    let (ours, its) = (&ours, &its);
    let beside = Beside { inputs: &inputs, reference: &reference, ours, its, continuations: &fed, progress: &progress };
    Judged { beside, verdict, plan, traces: vec!["reference", "arm"] }.conclude(&folder, args, purpose)
}

/// A device that was judged: what ran is told in `beside`.
pub(crate) struct Judged<'a> {
    pub(crate) beside: Beside<'a>,
    pub(crate) verdict: Verdict,
    /// Of an emulator to be run beside it.
    pub(crate) plan: Option<ArmPlan>,
    /// The traces of the run's folder.
    pub(crate) traces: Vec<&'static str>,
}

impl Judged<'_> {
    /// Runs the emulator beside it, looks for the fault, and writes and says what is concluded.
    pub(crate) fn conclude(mut self, folder: &RunFolder, args: &RunArgs, purpose: Purpose) -> Result<u8, CliError> {
        let (Beside { inputs, its, progress, .. }, verdict) = (&self.beside, &mut self.verdict);
        let own = folder.path().join("emulator");
        let target = Target { folder: &own, resume: args.output.resume, scopes: &inputs.scopes };
        let attributed = self.plan.as_ref().map(|plan| self.beside.attribute(plan, &target, verdict)).transpose()?;
        self.traces.extend(attributed.is_some().then_some("emulator"));
        if purpose.asks(verdict) {
            interrupt::check()?;
            let emulated = attributed.as_ref().zip(self.plan.as_ref().and_then(ArmPlan::recipe));
            Patient { inputs, device: its, emulated, progress }.diagnose(verdict, purpose)?;
        }
        finish(verdict, folder, &self.traces, inputs, args, purpose)
    }
}

pub(crate) fn progress(args: &RunArgs) -> Progress {
    Progress::new(args.output.quiet || args.json)
}

pub(crate) fn helpers<'a>(inputs: &'a Inputs, reference: &'a Reference, row: Option<&'a CheckpointRow>) -> Helpers<'a> {
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
    purpose: Purpose,
) -> Result<u8, CliError> {
    write_verdict(folder.path(), verdict)?;
    let occasion = folder.describe_run(&inputs.prompts_origin, args.output.resume)?;
    // A diagnosis of a stored trace is no run.
    let remembered = (purpose != Purpose::Diagnosis).then_some(occasion);
    let past = remembered.map(|occasion| history::append(args.history.as_deref(), verdict, occasion));
    write_reports(folder.path(), verdict, &command_line(), &past.unwrap_or_default())?;
    github::summarise(verdict);
    if args.discard_traces {
        traces.iter().try_for_each(|trace| discard(&folder.path().join(trace)))?;
    }
    let form = Form::of(args.json, args.output.quiet);
    let say = if purpose == Purpose::Diagnosis { say_diagnosis } else { say_verdict };
    say(verdict, form, Some(folder.wall_time()), Some(&folder.path().join("report.html")));
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
