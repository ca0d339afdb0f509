//! `fidelity merge`: the shards of one run, recording or sweep, joined.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::Parser;
use fidelity_reports::printable;
use fidelity_trace::{Scope, Status, Taps, Trace};
use fidelity_verdict::ExitCode;

use crate::{
    args::{Arguments, CheckpointArgs, Command, MergeArgs, PromptArgs, RunArgs},
    arms::{ArmPlan, reference},
    beside::Beside,
    commands::run::{Emulated, Judged, helpers, refuse_total_failure},
    diagnosis::Purpose,
    error::CliError,
    inputs::Inputs,
    join::{Part, continuations, join},
    judge::judge,
    output::print,
    progress::Progress,
    run_folder::{RunFolder, command_line},
    shard::Shard,
    sweep,
};

pub(crate) fn merge(args: &MergeArgs) -> Result<u8, CliError> {
    if args.shards.iter().any(|folder| folder.join(sweep::FILE).exists()) {
        return sweep::merge(args);
    }
    let parts = parts(&args.shards)?;
    same_work(&parts)?;
    refuse_missing(&parts)?;
    let work = &parts[0].1.work;
    let folder = RunFolder::create(Some(&args.out), "")?;
    let mut traces = BTreeMap::new();
    for name in work.traces() {
        traces.insert(name, join(name, &parts, folder.path())?);
    }
    match (traces.remove("reference"), traces.remove("arm")) {
        (Some(ours), Some(its)) => conclude(args, &parts, folder, &ours, &its),
        _ => traces.remove("").map_or(Ok(ExitCode::Usage.code()), |trace| recorded(&trace, &folder)),
    }
}

/// Every folder with its shard.json, by number.
fn parts(folders: &[PathBuf]) -> Result<Vec<Part>, CliError> {
    let mut parts: Vec<Part> = Vec::new();
    for folder in folders {
        let Some(shard) = Shard::read(folder)? else {
            let reason = "no shard.json in it: no shard, or one that is not finished (go on with it by --resume)";
            return Err(CliError::NoShard { folder: folder.clone(), reason: reason.to_owned() });
        };
        parts.push((folder.clone(), shard));
    }
    parts.sort_by_key(|(_, shard)| shard.shard.index);
    Ok(parts)
}

/// What differs between shards must be nothing but their prompts.
fn same_work(parts: &[Part]) -> Result<(), CliError> {
    let (a, first) = &parts[0];
    for (b, shard) in &parts[1..] {
        let differing = [
            ("the number of shards", first.shard.of != shard.shard.of),
            ("versions of fidelity", first.fidelity != shard.fidelity),
            ("prompts", (first.prompts, &first.prompts_sha256) != (shard.prompts, &shard.prompts_sha256)),
            ("checkpoints", first.row != shard.row),
            ("scopes or new tokens", (&first.scopes, first.new_tokens) != (&shard.scopes, shard.new_tokens)),
            ("lengths of the device's KV-cache", first.keys != shard.keys),
            ("recipe, calibration, faults or other parts of the command", first.work != shard.work),
        ];
        if let Some((what, _)) = differing.into_iter().find(|(_, differs)| *differs) {
            return Err(CliError::ShardsDiffer { a: a.clone(), b: b.clone(), what: what.to_owned() });
        }
    }
    match parts.windows(2).find(|pair| pair[0].1.shard == pair[1].1.shard) {
        Some([(a, shard), (b, _)]) => {
            Err(CliError::ShardTwice { a: a.clone(), b: b.clone(), shard: shard.shard.to_string() })
        }
        _ => Ok(()),
    }
}

/// A shard without prompts need not be there.
fn refuse_missing(parts: &[Part]) -> Result<(), CliError> {
    let first = &parts[0].1;
    let (of, prompts) = (first.shard.of, first.prompts);
    let there = |index: &usize| parts.iter().any(|(_, shard)| shard.shard.index == *index);
    let missing: Vec<String> =
        (1..=of.min(prompts)).filter(|index| !there(index)).take(20).map(|index| format!("{index}/{of}")).collect();
    match missing.len() {
        0 => Ok(()),
        1 => Err(CliError::ShardsMissing { missing: format!("{} is", missing[0]), of }),
        _ => Err(CliError::ShardsMissing { missing: format!("{} are", missing.join(", ")), of }),
    }
}

/// Judges the joined traces as a run judges its own.
fn conclude(args: &MergeArgs, parts: &[Part], folder: RunFolder, ours: &Trace, its: &Trace) -> Result<u8, CliError> {
    let progress = Progress::new(args.quiet || args.json);
    let shard = &parts[0].1;
    refuse_total_failure(ours)?;
    progress.say("reading the checkpoint");
    let mut inputs = inputs(args, shard, ours, &progress)?;
    if shard.work.device == "hailo" && shard.work.taps == "default" {
        inputs.taps = Taps::List(Vec::new());
    }
    let plan = shard.work.arm.clone().map(|request| ArmPlan::of(request, &inputs)).transpose()?;
    let reference = reference(&inputs, true)?;
    let run = run_args(args)?;
    let purpose = Purpose::Verdict { diagnosed: shard.work.diagnosed };
    let ran = match plan {
        Some(plan) if shard.work.device != "hailo" => {
            Emulated { inputs: &inputs, plan: &plan, reference: &reference, ours, its }
                .conclude(folder, &run, purpose, &progress)?
        }
        plan => {
            progress.say("comparing");
            let mut verdict = judge(ours, its, &helpers(&inputs, &reference, inputs.row.as_ref()))?;
            // As the shards' own notes, each once.
            for note in parts.iter().flat_map(|(_, shard)| &shard.told.notes) {
                if !verdict.notes.contains(note) {
                    verdict.notes.push(note.clone());
                }
            }
            let fed = continuations(parts);
            let (inputs, reference, progress) = (&inputs, &reference, &progress);
            let beside = Beside { inputs, reference, ours, its, continuations: &fed, progress };
            Judged { beside, verdict, plan, traces: vec!["reference", "arm"], again: None }
                .conclude(folder, &run, purpose)?
        }
    };
    Ok(ran.say(&run, purpose))
}

/// The checkpoint at hand, which must be the shards', and their prompts.
fn inputs(args: &MergeArgs, shard: &Shard, ours: &Trace, progress: &Progress) -> Result<Inputs, CliError> {
    let manifest = ours.manifest();
    let CheckpointArgs { checkpoint, weights, offline } = &args.checkpoint;
    let checkpoint = CheckpointArgs {
        checkpoint: checkpoint.clone().or_else(|| shard.row.clone()),
        weights: weights.clone(),
        offline: *offline,
    };
    if checkpoint.checkpoint.is_none() && checkpoint.weights.is_none() {
        return Err(CliError::ShardWeights);
    }
    let asked = PromptArgs {
        prompts: None,
        prompt: Vec::new(),
        new_tokens: Some(shard.new_tokens),
        scopes: Some(shard.scopes.iter().map(|scope| Scope::name(*scope)).collect::<Vec<_>>().join(",")),
        taps: shard.work.taps.clone(),
        jobs: args.jobs,
        no_cache: true,
    };
    let origin = shard.prompts_origin.clone();
    let mut inputs = Inputs::gather_from(&checkpoint, &asked, &manifest.prompts, origin, progress)?;
    if let Some(keys) = shard.keys {
        inputs.limit_keys(keys);
    }
    let (own, its) = (inputs.checkpoint.identity(), &manifest.checkpoint);
    let differing = [
        ("weights", own.weights_sha256 != its.weights_sha256),
        ("configs", own.config != its.config),
        ("revisions", own.revision != its.revision),
        ("names or sources", own != its),
    ];
    match differing.into_iter().find(|(_, differs)| *differs) {
        None => Ok(inputs),
        Some((what, _)) => {
            Err(CliError::OtherCheckpoint { name: printable(&own.name), source_name: printable(&own.source), what })
        }
    }
}

/// What a run of it all would have been given of output.
fn run_args(args: &MergeArgs) -> Result<RunArgs, CliError> {
    let mut words: Vec<OsString> = ["run", "--device", "emulator", "--resume", "--out"].map(OsString::from).to_vec();
    words.push(args.out.clone().into());
    words.extend(args.json.then(|| "--json".into()));
    words.extend(args.quiet.then(|| "--quiet".into()));
    let mut run = parse_run(words)?;
    run.command = Some(command_line());
    Ok(run)
}

/// The arguments of `fidelity run`, as its command line would have them.
pub(crate) fn parse_run(words: Vec<OsString>) -> Result<RunArgs, CliError> {
    let words = std::iter::once(OsString::from("fidelity")).chain(words);
    let wrong = |reason: String| CliError::ShardArm { what: "command", reason };
    match Arguments::try_parse_from(words).map_err(|error| wrong(error.to_string()))?.command {
        Command::Run(run) => Ok(run),
        _ => Err(wrong("not a run".to_owned())),
    }
}

fn recorded(trace: &Trace, folder: &RunFolder) -> Result<u8, CliError> {
    refuse_total_failure(trace)?;
    let prompts = &trace.manifest().prompts;
    // Damage is told here, and not when somebody compares.
    for index in (0..prompts.len()).filter(|index| prompts[*index].status == Status::Ok) {
        trace.prompt(index)?;
    }
    let computed = prompts.iter().filter(|prompt| prompt.status == Status::Ok).count();
    let place = printable(&folder.path().display().to_string());
    print(&format!("merged: {computed} of {} prompts recorded · trace {place}\n", prompts.len()));
    Ok(if computed == prompts.len() { ExitCode::Pass.code() } else { ExitCode::Device.code() })
}
