//! `fidelity advise`: which quantisers hurt, what to promote, and the proof on prompts that the search did not see.

use std::path::Path;

use fidelity_diagnose::{Advising, Split, advise as search, conclude_advice, inconclusive_advice, proven, split};
use fidelity_emulator::{CalibrationSet, Emulator, LayerNames, Recipe};
use fidelity_references::Reference;
use fidelity_reports::{advice_line, advice_terminal, write_advice, write_all};
use fidelity_trace::{Network, PromptRecord, Trace, WriteError};
use fidelity_verdict::{Advice, AdvicePrompts, AdviceProof, AdviceTarget, Proven, Thresholds};

use super::run::{discard, refuse_total_failure};
use crate::{
    args::{AdviseArgs, PromptArgs},
    arms::{Target, continuations, record_emulator, record_reference},
    error::CliError,
    inputs::Inputs,
    judge::{Helpers, judge},
    output::{Form, print, style},
    progress::Progress,
    resources,
    run_folder::{RunFolder, command_line},
};

/// The advised recipe, ready to be given to `--recipe`.
const ADVISED: &str = "advised.alls";

pub(crate) fn advise(args: &AdviseArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.quiet || args.json);
    progress.say("reading the checkpoint");
    let mut inputs = Inputs::gather(&args.checkpoint, &asked(args), &progress)?;
    let resource = resources::recipe(&args.recipe)?;
    let recipe = Recipe::parse(&resource.text, &resource.name, &resource.origin)?;
    let names = match &args.layer_names {
        Some(file) => LayerNames::parse(&resources::read(file)?, &file.display().to_string())?,
        None => LayerNames::default(),
    };
    recipe.plan(inputs.checkpoint.architecture(), &names)?;
    let set = inputs.calibration(args.calibration.as_deref())?;
    let thresholds = Thresholds::compiled_in().with(inputs.row.as_ref().and_then(|row| row.thresholds.as_ref()))?;
    let target = target(args, &inputs, &thresholds);
    let parts = split(&inputs.prompts, &set.prompts);
    let prompts = named(&parts, &inputs.prompts_origin);
    let folder = RunFolder::create(args.out.as_deref(), &inputs.checkpoint.identity().name)?;
    // What an interrupted run left is refused now, and not after the search.
    for left in ["reference", "recipe/arm", "advised/arm"].map(|name| folder.path().join(name)) {
        if left.join("trace.json").exists() {
            return Err(WriteError::Exists { path: left }.into());
        }
    }
    if let Some(reason) = parts.too_small(thresholds.minimum_rows) {
        let of = [recipe.name.clone(), recipe.sha256.clone(), set.describe()];
        let advice = inconclusive_advice(inputs.checkpoint.identity().clone(), of, target, prompts, reason);
        return finish(&advice, &folder, &inputs, args);
    }
    let reference = Reference::with_noise(inputs.checkpoint.decoder(&|_, tensor| Ok(tensor))?);
    let bar = progress.trials();
    let on_trial = |done: usize, expected: usize| {
        bar.set_length(expected.max(done) as u64);
        bar.set_position(done as u64);
    };
    let advising = Advising {
        checkpoint: &inputs.checkpoint,
        float32: reference.decoder(),
        recipe: &recipe,
        names: &names,
        set: &set,
        search: &parts.search,
        target,
        jobs: inputs.jobs,
        on_trial: &on_trial,
    };
    let advice = search(&advising, prompts)?;
    bar.finish_and_clear();
    inputs.prompts = renumbered(&parts.held_out);
    let (proof, everything) = prove(&advice, &recipe, &names, &set, &reference, &inputs, &folder, &progress)?;
    finish(&conclude_advice(advice, proof, everything), &folder, &inputs, args)
}

/// Whole prompts; nothing is generated.
fn asked(args: &AdviseArgs) -> PromptArgs {
    PromptArgs {
        prompts: args.prompts.clone(),
        prompt: Vec::new(),
        new_tokens: Some(0),
        scopes: Some("base".into()),
        taps: "default".into(),
        jobs: args.jobs,
        no_cache: false,
    }
}

fn target(args: &AdviseArgs, inputs: &Inputs, thresholds: &Thresholds) -> AdviceTarget {
    let decoder = inputs.checkpoint.architecture().network() == Network::Decoder;
    match args.target {
        Some(similarity) => AdviceTarget { similarity, top1: None },
        None => {
            AdviceTarget { similarity: thresholds.faithful_pearson, top1: decoder.then_some(thresholds.faithful_top1) }
        }
    }
}

fn named(parts: &Split, origin: &str) -> AdvicePrompts {
    let ids = |prompts: &[PromptRecord]| prompts.iter().map(|prompt| prompt.id.clone()).collect();
    AdvicePrompts {
        search: ids(&parts.search),
        held_out: ids(&parts.held_out),
        repeated: parts.repeated.clone(),
        origin: origin.to_owned(),
    }
}

/// The same prompts as those of a trace of their own.
fn renumbered(prompts: &[PromptRecord]) -> Vec<PromptRecord> {
    let own = |(index, prompt): (usize, &PromptRecord)| {
        PromptRecord::new(index, prompt.id.clone(), prompt.text.clone(), prompt.token_ids.clone())
    };
    prompts.iter().enumerate().map(own).collect()
}

/// Both recipes on the held-out prompts, as `run` computes and judges them; the advised one is read from the file that is left. Where it
/// does not hold there, everything promoted takes its place in that file, and is computed too.
#[allow(clippy::too_many_arguments, reason = "all of one run")]
fn prove(
    advice: &Advice,
    recipe: &Recipe,
    names: &LayerNames,
    set: &CalibrationSet,
    reference: &Reference,
    inputs: &Inputs,
    folder: &RunFolder,
    progress: &Progress,
) -> Result<(AdviceProof, Option<Proven>), CliError> {
    let own = folder.path().join("reference");
    let target = Target { folder: &own, resume: false, scopes: &inputs.scopes };
    let ours = record_reference(reference, None, inputs, &target, progress)?;
    refuse_total_failure(&ours)?;
    let under = |recipe: &Recipe, name: &str| -> Result<Proven, CliError> {
        let plan = recipe.plan(inputs.checkpoint.architecture(), names)?;
        let float32 = reference.decoder();
        let emulator = Emulator::quantised(&inputs.checkpoint, recipe, &plan, float32, set, None)?;
        judged(&emulator, &ours, reference, inputs, &folder.path().join(name), progress)
            .map(|verdict| proven(&verdict, &recipe.sha256, advice.target))
    };
    let of_recipe = under(recipe, "recipe")?;
    let of_text = |text: &str| {
        let path = folder.path().join(ADVISED);
        resources::write(&path, text)?;
        under(&Recipe::parse(&resources::read(&path)?, "advised", ADVISED)?, "advised")
    };
    let advised = advice.advised.as_ref().map(|advised| of_text(&advised.text)).transpose()?;
    let failed = advised.as_ref().is_some_and(|proven| !proven.reached);
    let everything = advice.everything.as_ref().filter(|_| failed);
    let everything = everything.map(|everything| of_text(&everything.text)).transpose()?;
    discard(&own)?;
    Ok((AdviceProof { recipe: of_recipe, advised }, everything))
}

fn judged(
    emulator: &Emulator,
    ours: &Trace,
    reference: &Reference,
    inputs: &Inputs,
    folder: &Path,
    progress: &Progress,
) -> Result<fidelity_verdict::Verdict, CliError> {
    let arm = folder.join("arm");
    let target = Target { folder: &arm, resume: false, scopes: &inputs.scopes };
    let its = record_emulator(emulator, &continuations(ours), inputs, &target, progress)?;
    let helpers = Helpers {
        row: inputs.row.as_ref(),
        decoder: Some(reference.decoder()),
        tokenizer: inputs.checkpoint.tokenizer(),
        scopes: None,
        jobs: inputs.jobs,
    };
    let verdict = judge(ours, &its, &helpers)?;
    write_all(folder, &verdict, &command_line())?;
    discard(&arm)?;
    Ok(verdict)
}

fn finish(advice: &Advice, folder: &RunFolder, inputs: &Inputs, args: &AdviseArgs) -> Result<u8, CliError> {
    write_advice(folder.path(), advice)?;
    folder.describe(&inputs.prompts_origin)?;
    let line = || advice_line(advice, folder.wall_time(), &folder.path().join("advise.html")) + "\n";
    print(&match Form::of(args.json, args.quiet) {
        Form::Json => serde_json::to_string(advice).unwrap_or_default() + "\n",
        Form::Line => line(),
        Form::Tables => format!("{}\n{}", advice_terminal(advice, style()), line()),
    });
    Ok(advice.exit_code)
}
