//! `fidelity profile`: the float32 activations of a checkpoint, as a quantiser meets them.

use fidelity_reports::{activations_terminal, duration, magnitude, write_activations};
use fidelity_verdict::ActivationProfile;

use crate::{
    args::{ProfileArgs, PromptArgs},
    error::CliError,
    inputs::Inputs,
    output::{Form, print, style},
    progress::Progress,
    run_folder::RunFolder,
};

pub(crate) fn profile(args: &ProfileArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.quiet || args.json);
    progress.say("reading the checkpoint");
    let asked = PromptArgs {
        prompts: args.prompts.clone(),
        prompt: args.prompt.clone(),
        new_tokens: Some(0),
        scopes: None,
        taps: "default".into(),
        jobs: args.jobs,
        no_cache: true,
    };
    let inputs = Inputs::gather(&args.checkpoint, &asked, &progress)?;
    let decoder = inputs.checkpoint.decoder(&|_, tensor| Ok(tensor))?;
    let folder = RunFolder::create(args.out.as_deref(), &inputs.checkpoint.identity().name)?;
    let bar = progress.bar("profiling", inputs.prompts.len());
    let on_prompts = |done| bar.set_position(done as u64);
    let profile = fidelity_diagnose::profile(&inputs.checkpoint, &decoder, &inputs.prompts, &on_prompts)
        .map_err(|source| CliError::Compute { what: "the profile", source })?;
    bar.finish_and_clear();
    write_activations(folder.path(), &profile)?;
    folder.describe(&inputs.prompts_origin)?;
    let line = || line(&profile, &folder);
    print(&match Form::of(args.json, args.quiet) {
        Form::Json => serde_json::to_string(&profile).unwrap_or_default() + "\n",
        Form::Line => line(),
        Form::Tables => format!("{}\n{}", activations_terminal(&profile, style()), line()),
    });
    Ok(0)
}

fn line(profile: &ActivationProfile, folder: &RunFolder) -> String {
    let massive = profile.massive.first().map_or_else(
        || "no massive activation".to_owned(),
        |first| format!("{} × the median at {} (position {})", magnitude(first.ratio), first.site, first.peak.position),
    );
    let report = folder.path().join("profile.html");
    format!(
        "profiled: {} · {massive} · {} · report {}\n",
        fidelity_reports::printable(&profile.checkpoint.name),
        duration(folder.wall_time()),
        report.display()
    )
}
