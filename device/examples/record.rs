//! Records a trace on a device, fed what a reference's trace was fed: `record WORKER HEF REFERENCE OUT [PREFILL_ROWS]`.
//! `fidelity compare REFERENCE OUT` judges it.
#![expect(clippy::print_stderr, reason = "a program")]

use std::{env, error::Error, path::Path, process::ExitCode};

use fidelity_device::supervisor::{HailoArm, Settings, Task, record_trace};
use fidelity_trace::{PromptRecord, Scope, Status, Trace};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match &words[..] {
        [worker, hef, reference, out] => record(worker, hef, reference, out, "last"),
        [worker, hef, reference, out, rows] => record(worker, hef, reference, out, rows),
        _ => Err("usage: record WORKER HEF REFERENCE OUT [PREFILL_ROWS]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record(worker: &str, hef: &str, reference: &str, out: &str, rows: &str) -> Result<(), Box<dyn Error>> {
    let reference = Trace::open(Path::new(reference))?.into_manifest();
    let settings = Settings {
        prefill_rows: rows.parse()?,
        device: env::var("FIDELITY_DEVICE_ID").ok(),
        ..Settings::new(worker, hef)
    };
    let arm = HailoArm::open(settings, Box::new(|note| eprintln!("{note}")))?;
    eprintln!("{:?}\n{:?}\naudit: {}", arm.geometry(), arm.opened().device, arm.opened().audit);
    let generated = |prompt: &PromptRecord| prompt.generated.as_ref().map_or_else(Vec::new, |own| own.ids.clone());
    let continuations: Vec<_> = reference.prompts.iter().map(generated).collect();
    let fresh =
        |prompt: PromptRecord| PromptRecord { status: Status::Skipped, generated: None, sha256: None, ..prompt };
    let asked = reference.prompts.first().map_or(&[][..], |prompt| &prompt.scopes);
    // Ids that were generated are compared whenever there are some.
    let offered = |scope: &Scope| *scope == Scope::TbtFree || asked.iter().any(|name| name == scope.name());
    let scopes: Vec<_> = arm.scopes().iter().copied().filter(offered).collect();
    let task = Task {
        checkpoint: reference.checkpoint,
        prompts: reference.prompts.into_iter().map(fresh).collect(),
        scopes: &scopes,
        new_tokens: continuations.iter().map(Vec::len).max().unwrap_or_default(),
        continuations: &continuations,
        on_prompt: &|done| eprintln!("{done} prompts"),
    };
    Ok(record_trace(&arm, task, Path::new(out), true)?)
}
