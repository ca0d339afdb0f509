//! `fidelity run`: reference, arm, verdict, report.

use std::{fs, path::Path};

use fidelity_diagnose::Numerics;
use fidelity_references::Reference;
use fidelity_reports::{write_reports, write_verdict};
use fidelity_trace::{CheckpointRow, Scope, Status, Trace};
use fidelity_verdict::Verdict;
use serde_json::{Map, Value};

use crate::{
    again::Opened,
    args::RunArgs,
    arms::{ArmPlan, Target, continuations as own_continuations, record_emulator, record_reference, reference},
    beside::Beside,
    commands::replay::replay,
    described::Described,
    device::Device,
    diagnosis::{Patient, Purpose},
    error::CliError,
    gating, github,
    hailo::Hailo,
    history,
    inputs::Inputs,
    interrupt,
    judge::{Helpers, judge},
    output::{Form, say_diagnosis, say_verdict},
    progress::Progress,
    replay::Replay,
    run_folder::{RunFolder, command_line},
    shard::{Cut, RecordedShard, Told, Work},
};

pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    match run_one(args)? {
        Ended::Judged(ran) => {
            let code = ran.say(args, Purpose::Verdict { diagnosed: !args.no_diagnosis });
            let form = Form::of(args.json, args.output.quiet);
            let history = args.history.as_deref();
            args.gate.as_ref().map_or(Ok(code), |file| {
                gating::gate_run(&ran.verdict, ran.folder.path(), file.as_deref(), history, form)
            })
        }
        Ended::Recorded(shard) => Ok(shard.say()),
    }
}

/// Runs and writes everything; says nothing of the result.
pub(crate) fn run_one(args: &RunArgs) -> Result<Ended, CliError> {
    let purpose = Purpose::Verdict { diagnosed: !args.no_diagnosis };
    if let Some(Some(file)) = &args.gate {
        // What cannot be read is said before anything is computed.
        gating::read_baseline(file)?;
    }
    match Device::asked(&args.arm)? {
        Device::Emulator => emulate(args, purpose),
        Device::Hailo => hailo(args, purpose),
        Device::Replay(trace) if args.shard.is_some() => Err(CliError::ShardOfReplay { trace }),
        Device::Replay(trace) => {
            replay(args, &trace, &Replay::open(&trace)?, None, purpose).map(|ran| Ended::Judged(Box::new(ran)))
        }
    }
}

/// How a run ended.
pub(crate) enum Ended {
    Judged(Box<Ran>),
    /// A shard has traces and no verdict.
    Recorded(RecordedShard),
}

/// A run whose results are written.
pub(crate) struct Ran {
    pub(crate) verdict: Verdict,
    pub(crate) folder: RunFolder,
    /// Versions of what computed the arm, as its trace says.
    pub(crate) environment: Map<String, Value>,
    /// Shards of the arm's logits, where they lie on a grid.
    pub(crate) logit_shards: Option<usize>,
}

impl Ran {
    /// Says the verdict and returns the exit code.
    pub(crate) fn say(&self, args: &RunArgs, purpose: Purpose) -> u8 {
        let form = Form::of(args.json, args.output.quiet);
        let say = if purpose == Purpose::Diagnosis { say_diagnosis } else { say_verdict };
        say(&self.verdict, form, Some(self.folder.wall_time()), Some(&self.folder.path().join("report.html")));
        self.verdict.exit_code
    }
}

fn emulate(args: &RunArgs, purpose: Purpose) -> Result<Ended, CliError> {
    let progress = progress(args);
    progress.say("reading the checkpoint");
    let mut inputs = Inputs::gather(&args.checkpoint, &args.prompts, &progress)?;
    let plan = ArmPlan::make(&args.arm, &inputs)?;
    let cut = args.shard.map(|shard| Cut::of(shard, &mut inputs));
    let folder = || RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name);
    if let Some(cut) = cut.as_ref().filter(|cut| cut.is_empty()) {
        return cut.finish(folder()?, &Work::run(args, Some(&plan)), &inputs, Told::default()).map(Ended::Recorded);
    }
    // Weights that cannot be read leave no folder behind.
    let reference = reference(&inputs, true)?;
    let folder = folder()?;

    let (ours, its) = (folder.path().join("reference"), folder.path().join("arm"));
    let target = |folder, scopes| Target { folder, resume: args.output.resume, scopes };
    let scopes = reference_scopes(&inputs.scopes);
    let ours = record_reference(&reference, None, &inputs, &target(&ours, &scopes), &progress)?;
    refuse_total_failure(&ours)?;
    interrupt::check()?;
    progress.say("calibrating");
    let emulator = plan.emulator(&inputs, reference.decoder())?;
    let its = record_emulator(&emulator, &own_continuations(&ours), &inputs, &target(&its, &inputs.scopes), &progress)?;
    if let Some(cut) = cut {
        let told = Told { continuations: own_continuations(&ours), ..Told::default() };
        return cut.finish(folder, &Work::run(args, Some(&plan)), &inputs, told).map(Ended::Recorded);
    }
    // What was injected is for the search to find.
    drop(emulator);
    let emulated = Emulated { inputs: &inputs, plan: &plan, reference: &reference, ours: &ours, its: &its };
    emulated.conclude(folder, args, purpose, &progress).map(|ran| Ended::Judged(Box::new(ran)))
}

/// An emulator's trace and what it is judged by.
pub(crate) struct Emulated<'a> {
    pub(crate) inputs: &'a Inputs,
    pub(crate) plan: &'a ArmPlan,
    pub(crate) reference: &'a Reference,
    /// The reference's trace.
    pub(crate) ours: &'a Trace,
    pub(crate) its: &'a Trace,
}

impl Emulated<'_> {
    /// Judges, looks for the fault, and writes what is concluded.
    pub(crate) fn conclude(
        &self,
        folder: RunFolder,
        args: &RunArgs,
        purpose: Purpose,
        progress: &Progress,
    ) -> Result<Ran, CliError> {
        progress.say("comparing");
        let Self { inputs, plan, reference, ours, its } = *self;
        let mut verdict = judge(ours, its, &helpers(inputs, reference, inputs.row.as_ref()))?;
        if purpose.asks(&mut verdict) {
            interrupt::check()?;
            let own = plan.recipe().map(|_| plan.without_faults(inputs, reference.decoder())).transpose()?;
            let numerics = plan.numerics(own.as_ref());
            Patient { inputs, device: its, numerics, again: None, progress }.diagnose(&mut verdict, purpose)?;
        }
        finish(verdict, folder, &["reference", "arm"], inputs, its, args)
    }
}

/// A compiled model on a device.
fn hailo(args: &RunArgs, purpose: Purpose) -> Result<Ended, CliError> {
    let progress = progress(args);
    progress.say("reading the checkpoint");
    let mut inputs = Inputs::gather(&args.checkpoint, &args.prompts, &progress)?;
    let quiet = args.output.quiet || args.json;
    let device = Hailo::open(&args.arm.hailo, &args.prompts, &mut inputs, quiet, &progress)?;
    let plan = args.arm.recipe.as_ref().map(|_| ArmPlan::make(&args.arm, &inputs)).transpose()?;
    // What the device can compute was fitted to all prompts, so that every shard has the same settings.
    let cut = args.shard.map(|shard| Cut::of(shard, &mut inputs));
    let folder = || RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name);
    if let Some(cut) = cut.as_ref().filter(|cut| cut.is_empty()) {
        return cut.finish(folder()?, &Work::run(args, plan.as_ref()), &inputs, Told::default()).map(Ended::Recorded);
    }
    let reference = reference(&inputs, true)?;
    let folder = folder()?;

    let (ours, its) = (folder.path().join("reference"), folder.path().join("arm"));
    let target = |folder, scopes| Target { folder, resume: args.output.resume, scopes };
    let scopes = reference_scopes(&inputs.scopes);
    let ours = record_reference(&reference, None, &inputs, &target(&ours, &scopes), &progress)?;
    refuse_total_failure(&ours)?;
    let fed = own_continuations(&ours);
    let its = device.record(&fed, &inputs, &target(&its, &inputs.scopes), &progress)?;
    let beside = Beside {
        inputs: &inputs,
        reference: &reference,
        ours: &ours,
        its: &its,
        continuations: &fed,
        progress: &progress,
    };
    if let Some(cut) = cut {
        if let Some(plan) = &plan {
            let own = folder.path().join("emulator");
            beside.record(plan, &target(&own, &inputs.scopes))?;
        }
        let told = Told { notes: device.notes().collect(), continuations: fed };
        return cut.finish(folder, &Work::run(args, plan.as_ref()), &inputs, told).map(Ended::Recorded);
    }

    progress.say("comparing");
    let mut verdict = judge(&ours, &its, &helpers(&inputs, &reference, inputs.row.as_ref()))?;
    device.sign(&mut verdict);
    let judged = Judged { beside, verdict, plan, traces: vec!["reference", "arm"], again: None };
    judged.conclude(folder, args, purpose).map(|ran| Ended::Judged(Box::new(ran)))
}

/// A device that was judged: what ran is told in `beside`.
pub(crate) struct Judged<'a> {
    pub(crate) beside: Beside<'a>,
    pub(crate) verdict: Verdict,
    /// Of an emulator to be run beside it.
    pub(crate) plan: Option<ArmPlan>,
    /// The traces of the run's folder.
    pub(crate) traces: Vec<&'static str>,
    /// The arm, where it can be run again.
    pub(crate) again: Option<Opened>,
}

impl Judged<'_> {
    /// Runs the emulator beside it, looks for the fault, and writes what is concluded.
    pub(crate) fn conclude(mut self, folder: RunFolder, args: &RunArgs, purpose: Purpose) -> Result<Ran, CliError> {
        let (Beside { inputs, its, progress, .. }, verdict) = (&self.beside, &mut self.verdict);
        let own = folder.path().join("emulator");
        let target = Target { folder: &own, resume: args.output.resume, scopes: &inputs.scopes };
        let attributed = self.plan.as_ref().map(|plan| self.beside.attribute(plan, &target, verdict)).transpose()?;
        self.traces.extend(attributed.is_some().then_some("emulator"));
        if purpose.asks(verdict) {
            interrupt::check()?;
            let numerics = self.plan.as_ref().map_or(Numerics::Unknown, |plan| plan.numerics(attributed.as_ref()));
            let again = self.again.as_ref().map(Opened::rerun);
            Patient { inputs, device: its, numerics, again, progress }.diagnose(verdict, purpose)?;
        }
        let (inputs, its) = (*inputs, *its);
        finish(self.verdict, folder, &self.traces, inputs, its, args)
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

/// Writes what is concluded. `traces` are those of the run's folder, which are its own to delete.
fn finish(
    verdict: Verdict,
    folder: RunFolder,
    traces: &[&str],
    inputs: &Inputs,
    its: &Trace,
    args: &RunArgs,
) -> Result<Ran, CliError> {
    write_verdict(folder.path(), &verdict)?;
    let occasion = folder.describe_run(&inputs.prompts_origin, args.output.resume)?;
    let past = history::append(args.history.as_deref(), &verdict, occasion);
    let command = args.command.clone().unwrap_or_else(command_line);
    let described = Described::read(folder.path());
    write_reports(folder.path(), &verdict, &described.circumstances(&command, &past, None))?;
    github::summarise(&verdict);
    if args.discard_traces {
        traces.iter().try_for_each(|trace| discard(&folder.path().join(trace)))?;
    }
    let manifest = its.manifest();
    let logit_shards = manifest.logits_step.as_ref().map(Vec::len);
    Ok(Ran { verdict, folder, environment: manifest.environment.clone(), logit_shards })
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
