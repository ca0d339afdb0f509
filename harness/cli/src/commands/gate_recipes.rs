//! `fidelity gate --recipes`: two recipes on the emulator, one against the other.

use std::path::Path;

use fidelity_compare::{as_baseline, gate};
use fidelity_references::Reference;
use fidelity_reports::{write_all, write_gate};
use fidelity_trace::Trace;
use fidelity_verdict::{Change, Verdict};

use crate::{
    args::{ArmArgs, CheckpointArgs, GateArgs, HailoArgs, PromptArgs},
    arms::{ArmPlan, Target, continuations, record_emulator, record_reference, reference as make_reference},
    commands::run::{discard, helpers, reference_scopes, refuse_total_failure},
    error::CliError,
    gating::settings,
    inputs::Inputs,
    judge::judge,
    output::{Form, say_gate},
    progress::Progress,
    run_folder::{RunFolder, command_line},
};

/// Runs both recipes on the same prompts and the same reference. Reports of both are left beside the gate, their traces are not.
pub(crate) fn gate_recipes(args: &GateArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.quiet || args.json);
    progress.say("reading the checkpoint");
    let checkpoint =
        CheckpointArgs { checkpoint: args.checkpoint.clone(), weights: args.weights.clone(), offline: args.offline };
    let inputs = Inputs::gather(&checkpoint, &prompts(args), &progress)?;
    // Both are read before either is computed.
    let plans = args.recipes.iter().map(|recipe| ArmPlan::make(&arm(args, recipe), &inputs));
    let plans: Vec<ArmPlan> = plans.collect::<Result<_, _>>()?;
    let reference = make_reference(&inputs, true)?;
    let folder = RunFolder::create(args.out.as_deref(), &inputs.checkpoint.identity().name)?;
    let own = folder.path().join("reference");
    let scopes = reference_scopes(&inputs.scopes);
    let target = Target { folder: &own, resume: false, scopes: &scopes };
    let ours = record_reference(&reference, None, &inputs, &target, &progress)?;
    refuse_total_failure(&ours)?;

    let sides = ["baseline", "candidate"].map(|side| folder.path().join(side));
    let verdicts =
        plans.iter().zip(&sides).map(|(plan, side)| judged(plan, side, &ours, &reference, &inputs, &progress));
    let verdicts: Vec<Verdict> = verdicts.collect::<Result<_, _>>()?;
    discard(&own)?;
    folder.describe(&inputs.prompts_origin)?;
    let versions = [("fidelity".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into();
    let baseline = as_baseline(&verdicts[0], &versions)?;
    // Float32 has no calibration.
    let allowed = [Change::Recipe, Change::Calibration];
    let gate = gate(&baseline, &verdicts[1], &versions, &settings(&args.margin), &allowed)?;
    write_gate(folder.path(), &gate)?;
    say_gate(&gate, Form::of(args.json, args.quiet));
    Ok(gate.exit_code)
}

fn judged(
    plan: &ArmPlan,
    folder: &Path,
    ours: &Trace,
    reference: &Reference,
    inputs: &Inputs,
    progress: &Progress,
) -> Result<Verdict, CliError> {
    progress.say("calibrating");
    let emulator = plan.emulator(inputs, reference.decoder())?;
    let arm = folder.join("arm");
    let target = Target { folder: &arm, resume: false, scopes: &inputs.scopes };
    let its = record_emulator(&emulator, &continuations(ours), inputs, &target, progress)?;
    let verdict = judge(ours, &its, &helpers(inputs, reference, inputs.row.as_ref()))?;
    write_all(folder, &verdict, &command_line())?;
    discard(&arm)?;
    Ok(verdict)
}

fn arm(args: &GateArgs, recipe: &str) -> ArmArgs {
    ArmArgs {
        device: "emulator".into(),
        recipe: Some(recipe.to_owned()),
        fault: Vec::new(),
        calibration: args.calibration.clone(),
        first_position: None,
        layer_names: args.layer_names.clone(),
        hailo: HailoArgs::default(),
    }
}

fn prompts(args: &GateArgs) -> PromptArgs {
    PromptArgs {
        prompts: args.prompts.clone(),
        prompt: Vec::new(),
        new_tokens: args.new_tokens,
        scopes: args.scopes.clone(),
        taps: "default".into(),
        jobs: args.jobs,
        no_cache: false,
    }
}
