//! A compiled model on a device, behind its worker.

use std::{env, fs::File, io::Read, path::Path, time::Duration};

use fidelity_device::{
    audit::{Check, CheckId, Part, State, audit},
    hef::{Hef, HefError},
    session::{Feeding, Geometry},
    supervisor::{HailoArm, Settings},
};
use fidelity_diagnose::Rerun;
use fidelity_reports::printable;
use fidelity_trace::{PromptRecord, Scope, Taps, Trace, hex};
use fidelity_verdict::Verdict;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    args::{HailoArgs, PromptArgs, WorkerArgs},
    arms::{Target, record_subject_fed},
    audit_text::id,
    commands::audit::facts,
    error::CliError,
    inputs::Inputs,
    output,
    progress::Progress,
};

/// An open device, and what was learned on the way.
pub(crate) struct Hailo {
    arm: HailoArm,
    notes: Vec<String>,
}

impl Hailo {
    /// Audits the file where it is at hand, opens it on the device, and fits `inputs` to what it can compute.
    pub(crate) fn open(
        args: &HailoArgs,
        asked: &PromptArgs,
        inputs: &mut Inputs,
        quiet: bool,
        progress: &Progress,
    ) -> Result<Self, CliError> {
        let hef = args.hef.as_deref().ok_or(CliError::NoHef)?;
        let command = worker_command(&args.worker)?;
        let mut notes = Vec::new();
        let mut settings = Settings::new(&command, hef);
        if Path::new(hef).is_file() {
            progress.say("auditing the HEF");
            notes.extend(audited(Path::new(hef), inputs, args.accept_failed_audit)?);
            // The worker's file may be another of that name.
            settings.sha256 = Some(sha256(Path::new(hef))?);
        } else {
            notes.push("the HEF is not on this machine: it was not held against the checkpoint".to_owned());
        }
        progress.say("opening the device");
        let architecture = inputs.checkpoint.architecture();
        settings.device.clone_from(&args.device_id);
        settings.wait = Duration::from_secs(args.wait.unwrap_or(0));
        settings.accept_failed_audit = args.accept_failed_audit;
        settings.prefill_rows = args.prefill_rows.unwrap_or(settings.prefill_rows);
        settings.eos.clone_from(&architecture.eos);
        settings.vocabulary = Some(architecture.vocabulary);
        if let Some(seconds) = args.step_timeout {
            settings.run.wide = Duration::from_secs(seconds);
            settings.run.tbt = Duration::from_secs(seconds);
        }
        let watch = move |line: &str| {
            if !quiet {
                output::narrate(&format!("device: {}", printable(line)));
            }
        };
        let arm = HailoArm::open(settings, Box::new(watch)).map_err(Box::new)?;
        fit_scopes(arm.scopes(), asked, inputs)?;
        notes.extend(fit_length(arm.geometry(), inputs)?);
        // Nothing else leaves a compiled model.
        if asked.taps == "default" {
            inputs.taps = Taps::List(Vec::new());
        }
        Ok(Self { arm, notes })
    }

    pub(crate) fn record(
        &self,
        continuations: &[Vec<u32>],
        inputs: &Inputs,
        target: &Target<'_>,
        progress: &Progress,
    ) -> Result<Trace, CliError> {
        let environment = self.arm.environment();
        record_subject_fed(&self.arm, continuations, inputs, target, progress, |manifest| {
            manifest.logits_step = self.arm.logits_step();
            manifest.environment.extend(environment);
        })
    }

    /// The same, to be run again.
    pub(crate) fn rerun(&self, budget: usize) -> Rerun<'_> {
        let geometry = self.arm.geometry();
        Rerun {
            arm: &self.arm,
            scopes: self.arm.scopes(),
            prompt_tokens_a_step: geometry.prefill_rows,
            capacity: geometry.cache_length,
            budget,
        }
    }

    /// What whoever reads the verdict must know of the file.
    pub(crate) fn sign(&self, verdict: &mut Verdict) {
        verdict.notes.extend(self.notes());
    }

    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let step = self.arm.logits_step_note();
        self.notes.iter().cloned().chain(unsettled(self.arm.audit())).chain(step)
    }
}

/// How the worker is started: as asked for, else this program where it can be one, else `fidelity-worker`.
pub(crate) fn worker_command(args: &WorkerArgs) -> Result<String, CliError> {
    if let Some(command) = &args.worker {
        return Ok(command.clone());
    }
    let quoted = |path: &Path| {
        let path = path.to_str().and_then(|path| shlex::try_quote(path).ok());
        path.map(|path| path.into_owned()).ok_or(CliError::NoWorker)
    };
    let program = env::current_exe().map_err(|_| CliError::NoWorker)?;
    if cfg!(feature = "hailo") {
        return Ok(format!("{} worker", quoted(&program)?));
    }
    let beside = program.with_file_name("fidelity-worker");
    if beside.is_file() {
        return quoted(&beside);
    }
    let on_path = env::var_os("PATH").and_then(|path| {
        env::split_paths(&path).map(|folder| folder.join("fidelity-worker")).find(|program| program.is_file())
    });
    quoted(&on_path.ok_or(CliError::NoWorker)?)
}

/// Holds the file against the checkpoint and refuses one that is not of it. What the worker's own audit looks at is left to it, and
/// what matters only to a host that turns text into ids is said.
fn audited(path: &Path, inputs: &Inputs, accept: bool) -> Result<Vec<String>, CliError> {
    let failed = |source: HefError| CliError::Hef { path: printable(&path.display().to_string()), source };
    let mut hef = Hef::open(path).map_err(failed)?;
    let mut facts = facts(&inputs.checkpoint, inputs.row.as_ref())?;
    let audit = audit(&mut hef, Some(&mut facts)).map_err(failed)?;
    let failing = audit.in_state(State::Fail).filter(|check| check.part == Part::Checkpoint);
    let of_text = |check: &&Check| matches!(check.id, CheckId::CheckpointTokenizer | CheckId::CheckpointBos);
    let (text, wrong): (Vec<_>, Vec<_>) = failing.partition(of_text);
    if let (Some(first), false) = (wrong.first(), accept) {
        return Err(CliError::AuditFails { path: printable(&path.display().to_string()), first: said(first) });
    }
    let wrong = wrong.into_iter().map(|check| format!("the HEF is not of this checkpoint: {}", said(check)));
    let text =
        text.into_iter().map(|check| format!("a host that feeds text would feed this HEF other ids: {}", said(check)));
    Ok(wrong.chain(text).collect())
}

fn sha256(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

fn said(check: &Check) -> String {
    format!("{}: {}", id(check), printable(&check.found))
}

/// Checks of the worker's audit that did not pass, as a note.
fn unsettled(audit: &Value) -> Option<String> {
    let checks = audit["checks"].as_array()?;
    let open = |state: &str| {
        let of = checks.iter().filter(|check| check["state"] == state);
        of.filter_map(|check| check["id"].as_str()).map(printable).collect::<Vec<_>>().join(", ")
    };
    let parts = [("fail", open("fail")), ("cannot be told", open("unknown"))];
    let said: Vec<_> =
        parts.iter().filter(|(_, ids)| !ids.is_empty()).map(|(what, ids)| format!("{what}: {ids}")).collect();
    (!said.is_empty()).then(|| format!("checks of the HEF's audit that {}", said.join("; that ")))
}

/// Leaves the scopes that the file can compute; asking for another is an error.
fn fit_scopes(offered: &[Scope], asked: &PromptArgs, inputs: &mut Inputs) -> Result<(), CliError> {
    let names = || offered.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", ");
    match inputs.scopes.iter().find(|scope| !offered.contains(scope)) {
        Some(scope) if asked.scopes.is_some() => {
            Err(CliError::ScopeNotOffered { scope: scope.name(), offered: names() })
        }
        Some(_) | None => {
            inputs.scopes.retain(|scope| offered.contains(scope));
            match inputs.scopes.is_empty() {
                true => Err(CliError::ScopeNotOffered { scope: "none of those asked for", offered: names() }),
                false => Ok(()),
            }
        }
    }
}

/// A prompt must fit into the ring. Where generation goes round it, the reference sees no more keys than the ring has.
fn fit_length(geometry: &Geometry, inputs: &mut Inputs) -> Result<Option<String>, CliError> {
    let cache = geometry.cache_length;
    let steps = inputs.scopes.iter().any(|scope| matches!(scope, Scope::Tbt | Scope::TbtFree | Scope::TbtSelf));
    // The last generated id is never fed.
    let generated = if steps { inputs.new_tokens.saturating_sub(1) } else { 0 };
    let reach = |prompt: &PromptRecord| prompt.token_ids.len() + generated;
    // Without steps of one token every chunk feeds earlier rows again, which then see less than they did.
    let goes_round = geometry.feeding == Feeding::PrefillAndTbt;
    let too_long = |prompt: &&PromptRecord| prompt.token_ids.len() > cache || (!goes_round && reach(prompt) > cache);
    if let Some(prompt) = inputs.prompts.iter().find(too_long) {
        return Err(CliError::PromptTooLong {
            prompt: prompt.id.clone(),
            found: prompt.token_ids.len(),
            generated: if generated > 0 { format!(" and is fed {generated} more") } else { String::new() },
            limit_name: "what the HEF holds",
            limit: cache,
            remedy: if generated > 0 { " or --new-tokens" } else { "" },
        });
    }
    if inputs.prompts.iter().all(|prompt| reach(prompt) <= cache) {
        return Ok(None);
    }
    inputs.limit_keys(cache as u32);
    Ok(Some(format!(
        "generation goes past the {cache} entries of the device's KV-cache: the reference attends to the last {cache} tokens, as the device does"
    )))
}
