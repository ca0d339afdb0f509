//! `fidelity reference --check`: how right the reference is.

use fidelity_references::{CheckOutcome, ReferenceCheck, Wiring, check_reference};
use fidelity_verdict::ExitCode;

use crate::{
    args::{PromptArgs, ReferenceArgs},
    check_text,
    error::CliError,
    inputs::Inputs,
    output::{Form, print, style},
    progress::Progress,
    resources,
    run_folder::RunFolder,
};

const FILE: &str = "check.json";

pub(crate) fn check(args: &ReferenceArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.output.quiet || args.json);
    // Nothing is generated, so that nothing but the prompt itself must fit.
    let asked = PromptArgs { new_tokens: Some(0), ..args.prompts.clone() };
    let inputs = Inputs::gather(&args.checkpoint, &asked, &progress)?;
    let decoder = inputs.checkpoint.decoder(&|_, tensor| Ok(tensor))?;
    let folder = RunFolder::create(args.output.out.as_deref(), &inputs.checkpoint.identity().name)?;
    let prompts: Vec<_> = inputs.prompts.iter().map(|prompt| (prompt.id.clone(), prompt.token_ids.clone())).collect();
    // Each is computed once for the engine against itself, once for the second opinion.
    let bar = progress.bar("checking", 2 * prompts.len());
    let on_prompt = |done| bar.set_position(done as u64);
    let check = check_reference(&inputs.checkpoint, &decoder, &Wiring::default(), &prompts, inputs.jobs, &on_prompt)?;
    bar.finish_and_clear();
    finish(&check, &folder, &inputs, Form::of(args.json, args.output.quiet))
}

fn finish(check: &ReferenceCheck, folder: &RunFolder, inputs: &Inputs, form: Form) -> Result<u8, CliError> {
    let json = serde_json::to_string(check).unwrap_or_default() + "\n";
    let path = folder.path().join(FILE);
    resources::write(&path, &json)?;
    folder.describe(&inputs.prompts_origin)?;
    let line = || check_text::line(check, folder.wall_time(), &path);
    print(&match form {
        Form::Json => json,
        Form::Line => line(),
        Form::Tables => format!("{}\n{}", check_text::tables(check, style()), line()),
    });
    Ok(exit_code(check.outcome).code())
}

/// Too little compared is never a pass.
const fn exit_code(outcome: CheckOutcome) -> ExitCode {
    match outcome {
        CheckOutcome::Pass => ExitCode::Pass,
        CheckOutcome::Incomplete | CheckOutcome::NotApplicable => ExitCode::Inconclusive,
        CheckOutcome::Fail => ExitCode::FidelityFailure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_pass_exits_0() {
        let codes = [CheckOutcome::Pass, CheckOutcome::Incomplete, CheckOutcome::NotApplicable, CheckOutcome::Fail];
        assert_eq!(codes.map(|outcome| exit_code(outcome).code()), [0, 3, 3, 1]);
    }
}
