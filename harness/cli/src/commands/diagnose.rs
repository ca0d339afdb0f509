//! `fidelity diagnose`: why a stored trace is what it is.

use fidelity_trace::Site;

use crate::{
    again::Again,
    args::{ArmArgs, CheckpointArgs, DiagnoseArgs, HailoArgs, OutputArgs, PromptArgs, RunArgs},
    commands::replay::replay,
    diagnosis::Purpose,
    error::CliError,
    replay::Replay,
    resources,
};

pub(crate) fn diagnose(args: &DiagnoseArgs) -> Result<u8, CliError> {
    let stored = Replay::open(&args.trace)?;
    if !stored.holds(Site::Logits) {
        return Err(stored.wrong("it holds no logits, by which faults are told apart"));
    }
    let checkpoint = CheckpointArgs {
        checkpoint: match (&args.checkpoint, &args.weights) {
            (None, None) => Some(stored.own_name(&resources::registry()?)?),
            (name, _) => name.clone(),
        },
        weights: args.weights.clone(),
        offline: args.offline,
    };
    let stored_arm = ArmArgs {
        device: format!("replay={}", args.trace.display()),
        recipe: args.recipe.clone(),
        fault: Vec::new(),
        calibration: args.calibration.clone(),
        first_position: None,
        layer_names: args.layer_names.clone(),
        hailo: HailoArgs::default(),
    };
    let again = args.device.clone().map(|device| Again {
        arm: ArmArgs { device, fault: args.fault.clone(), hailo: args.hailo.clone(), ..stored_arm.clone() },
        budget: args.budget,
    });
    let run = RunArgs {
        checkpoint,
        arm: stored_arm,
        prompts: PromptArgs {
            prompts: None,
            prompt: Vec::new(),
            new_tokens: None,
            scopes: args.scopes.clone(),
            taps: "default".into(),
            jobs: args.jobs,
            no_cache: args.no_cache,
        },
        output: OutputArgs { out: args.out.clone(), resume: false, quiet: args.quiet },
        json: args.json,
        discard_traces: false,
        no_diagnosis: false,
        shard: None,
        command: None,
        gate: None,
        history: Some("none".into()),
    };
    Ok(replay(&run, &args.trace, &stored, again.as_ref(), Purpose::Diagnosis)?.say(&run, Purpose::Diagnosis))
}
