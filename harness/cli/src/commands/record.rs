//! `fidelity reference` and `fidelity record`: one arm into a trace.

use std::path::Path;

use fidelity_trace::{Scope, Status, Trace};

use crate::{
    args::{RecordArgs, ReferenceArgs, Slice},
    arms::{ArmPlan, Target, continuations, record_emulator, record_reference, reference as make_reference},
    commands::run::{reference_scopes, refuse_total_failure},
    device::Device,
    error::CliError,
    hailo::Hailo,
    inputs::Inputs,
    output::{print, warn},
    progress::Progress,
    run_folder::RunFolder,
    shard::{Cut, Told, Work},
};

pub(crate) fn reference(args: &ReferenceArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.output.quiet);
    let inputs = Inputs::gather(&args.checkpoint, &args.prompts, &progress)?;
    let reference = make_reference(&inputs, !args.no_noise)?;
    let folder = RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name)?;
    let target =
        Target { folder: folder.path(), resume: args.output.resume, scopes: &reference_scopes(&inputs.scopes) };
    let trace = record_reference(&reference, None, &inputs, &target, &progress)?;
    say(&trace, &folder)
}

/// An arm before it computes.
enum Arm {
    Emulator(Box<ArmPlan>),
    Hailo(Box<Hailo>),
}

pub(crate) fn record(args: &RecordArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.output.quiet);
    let device = Device::asked(&args.arm)?;
    if let Device::Replay(trace) = device {
        return Err(CliError::RecordReplay { trace });
    }
    let given = args.reference.as_deref().map(Trace::open).transpose()?;
    let mut inputs = match (&given, &args.reference) {
        (Some(trace), Some(path)) => inputs_of(trace, path, args, &progress)?,
        _ => Inputs::gather(&args.checkpoint, &args.prompts, &progress)?,
    };
    let arm = match device {
        Device::Hailo => Arm::Hailo(Box::new(Hailo::open(
            &args.arm.hailo,
            &args.prompts,
            &mut inputs,
            args.output.quiet,
            &progress,
        )?)),
        Device::Emulator | Device::Replay(_) => Arm::Emulator(Box::new(ArmPlan::make(&args.arm, &inputs)?)),
    };
    if let (Some(trace), Some(path), Some(keys)) = (&given, &args.reference, inputs.keys) {
        let its = trace.manifest().other.get("settings").and_then(|settings| settings["keys"].as_u64());
        if its != Some(keys.into()) {
            let found = its.map_or_else(|| "all tokens".to_owned(), |its| format!("the last {its} tokens"));
            return Err(CliError::OtherKeys { trace: path.clone(), found, keys });
        }
    }
    if let Arm::Hailo(device) = &arm {
        device.notes().for_each(|note| warn(&note));
    }
    let all = given.as_ref().map(continuations);
    let cut = args.shard.map(|shard| Cut::of(shard, &mut inputs));
    let folder = RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name)?;
    let plan = match &arm {
        Arm::Emulator(plan) => Some(&**plan),
        Arm::Hailo(_) => None,
    };
    let work = Work::record(args, plan);
    if let Some(cut) = cut.as_ref().filter(|cut| cut.is_empty()) {
        return Ok(cut.finish(folder, &work, &inputs, Told::default())?.say());
    }
    let reference = make_reference(&inputs, false)?;
    let continuations = match all {
        Some(all) => own(all, args.shard),
        None if inputs.scopes.iter().all(|scope| matches!(scope, Scope::Base | Scope::Prefill)) => {
            vec![Vec::new(); inputs.prompts.len()]
        }
        None => {
            let ours = folder.path().join("reference");
            let target = Target { folder: &ours, resume: args.output.resume, scopes: &[Scope::TbtFree] };
            let trace = record_reference(&reference, None, &inputs, &target, &progress)?;
            refuse_total_failure(&trace)?;
            continuations(&trace)
        }
    };
    let target = Target { folder: folder.path(), resume: args.output.resume, scopes: &inputs.scopes };
    let trace = match arm {
        Arm::Emulator(ref plan) => {
            progress.say("calibrating");
            let emulator = plan.emulator(&inputs, reference.decoder())?;
            record_emulator(&emulator, &continuations, &inputs, &target, &progress)?
        }
        Arm::Hailo(ref device) => device.record(&continuations, &inputs, &target, &progress)?,
    };
    match cut {
        None => say(&trace, &folder),
        Some(cut) => {
            refuse_total_failure(&trace)?;
            let notes = if let Arm::Hailo(device) = &arm { device.notes().collect() } else { Vec::new() };
            Ok(cut.finish(folder, &work, &inputs, Told { notes, continuations })?.say())
        }
    }
}

/// What is of the shard.
fn own<T>(all: Vec<T>, shard: Option<Slice>) -> Vec<T> {
    let held = |place: usize| shard.is_none_or(|shard| shard.holds(place));
    all.into_iter().enumerate().filter(|(place, _)| held(*place)).map(|(_, one)| one).collect()
}

/// The prompts of a reference trace, so that the two traces can be compared.
fn inputs_of(trace: &Trace, path: &Path, args: &RecordArgs, progress: &Progress) -> Result<Inputs, CliError> {
    let prompts = &trace.manifest().prompts;
    let inputs = Inputs::gather_from(&args.checkpoint, &args.prompts, prompts, path.display().to_string(), progress)?;
    let steps = inputs.scopes.iter().any(|scope| matches!(scope, Scope::Tbt | Scope::TbtSelf));
    match prompts.iter().find(|prompt| steps && prompt.generated.is_none()) {
        Some(prompt) => Err(CliError::NoContinuation { trace: path.to_owned(), prompt: prompt.id.clone() }),
        None => Ok(inputs),
    }
}

fn say(trace: &Trace, folder: &RunFolder) -> Result<u8, CliError> {
    refuse_total_failure(trace)?;
    let manifest = trace.manifest();
    let computed = manifest.prompts.iter().filter(|prompt| prompt.status == Status::Ok).count();
    print(&format!(
        "recorded: {} {} of {} · {computed} of {} prompts · {:.1} s · trace {}\n",
        manifest.arm.kind,
        manifest.arm.name,
        manifest.checkpoint.name,
        manifest.prompts.len(),
        folder.wall_time().as_secs_f64(),
        folder.path().display(),
    ));
    Ok(if computed == manifest.prompts.len() { 0 } else { fidelity_verdict::ExitCode::Device.code() })
}
