//! The host's side of a device in another process: starts the worker, gives it deadlines, starts it again where that may
//! help, and says why where it does not.

mod failure;
mod link;
mod rows;

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use fidelity_trace::{
    Arm, ArmKind, Capture, CheckpointIdentity, Manifest, PromptRecord, Recording, Request as Asked, Scope, Subject,
    SubjectError, Taps, TraceWriter, WriteError, record,
};
use serde_json::{Map, Value, json};

pub use failure::{Attempts, Failure};

use failure::{Budget, Remedy};
use link::Link;
use rows::Collected;

use crate::{
    session::{Deadlines, Geometry, Job, PrefillRows},
    worker::{Inventory, Open, Opened, PROTOCOL, Reply, Request},
};

/// A worker that was killed at the other end of `ssh` takes a moment to give the device back.
const GIVES_BACK: Duration = Duration::from_secs(20);

/// How long the worker may give no sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until it says hello: `ssh` may ask for a password.
    pub start: Duration,
    /// While it audits, sends the file to the device and configures it.
    pub open: Duration,
    /// Beyond a run's own deadline.
    pub step: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { start: Duration::from_secs(60), open: Duration::from_secs(15 * 60), step: Duration::from_secs(60) }
    }
}

/// Which device, which file, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How to start the worker, in a shell's words.
    pub command: String,
    /// The file, on the worker's machine.
    pub hef: String,
    /// SHA-256 it must have.
    pub sha256: Option<String>,
    /// The device; any that is free where absent.
    pub device: Option<String>,
    /// How long to wait for another owner to leave.
    pub wait: Duration,
    /// Go on where the audit fails.
    pub accept_failed_audit: bool,
    /// Which rows of a prompt are computed.
    pub prefill_rows: PrefillRows,
    /// Ids that end a generation.
    pub eos: Vec<u32>,
    /// Ids of the checkpoint; logits after them are padding. All are taken where absent.
    pub vocabulary: Option<usize>,
    /// How long a run may take.
    pub run: Deadlines,
    /// How long the worker may give no sign of life.
    pub patience: Patience,
    /// How often is tried again.
    pub attempts: Attempts,
}

impl Settings {
    /// A file behind a worker, and the defaults.
    #[must_use]
    pub fn new(command: &str, hef: &str) -> Self {
        Self {
            command: command.into(),
            hef: hef.into(),
            sha256: None,
            device: None,
            wait: Duration::ZERO,
            accept_failed_audit: false,
            prefill_rows: PrefillRows::Last,
            eos: Vec::new(),
            vocabulary: None,
            run: Deadlines::default(),
            patience: Patience::default(),
            attempts: Attempts::default(),
        }
    }
}

/// What is told to whoever watches: a worker that is started again, a wait.
pub type Notes = Box<dyn Fn(&str) + Send + Sync>;

/// A HEF on silicon, as an arm.
pub struct HailoArm {
    settings: Settings,
    opened: Opened,
    audit: Value,
    worker: String,
    slot: Mutex<Slot>,
    notes: Notes,
}

/// The worker of the moment.
#[derive(Default)]
struct Slot {
    link: Option<Link>,
    /// The last attempt to open the device again failed: later prompts try once, so that a dead device does not cost each of
    /// them all attempts.
    lost: bool,
}

/// A link, what it opened, its audit, and the worker's version.
type Ready = (Link, Opened, Value, String);

impl HailoArm {
    /// Starts the worker and opens the file on the device, trying again as often as the settings say.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(settings: Settings, notes: Notes) -> Result<Self, Failure> {
        let mut budget = Budget::new(settings.attempts);
        let (link, opened, audit, worker) = loop {
            match connect(&settings, settings.wait, &notes) {
                Ok(ready) => break ready,
                Err(failure) => spend(&mut budget, failure, &notes)?,
            }
        };
        let width = opened.geometry.logits();
        if let Some(vocabulary) = settings.vocabulary.filter(|vocabulary| *vocabulary > width) {
            let message = format!("the HEF gives {width} logits, fewer than the vocabulary of {vocabulary}");
            return Err(Failure::Refused { message });
        }
        Ok(Self { settings, opened, audit, worker, slot: Mutex::new(Slot { link: Some(link), lost: false }), notes })
    }

    /// What is open.
    #[must_use]
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The dimensions of the file.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.opened.geometry
    }

    /// Scopes it computes.
    #[must_use]
    pub fn scopes(&self) -> &'static [Scope] {
        self.opened.geometry.feeding.scopes()
    }

    /// The file's audit, as docs/AUDIT.md says; null where it was too large to be sent.
    #[must_use]
    pub const fn audit(&self) -> &Value {
        &self.audit
    }

    /// The step of the logit grid by shard.
    #[must_use]
    pub fn logits_step(&self) -> Option<Vec<f64>> {
        self.opened.geometry.logits_step(self.settings.vocabulary)
    }

    /// Versions that decide no number.
    #[must_use]
    pub fn environment(&self) -> Map<String, Value> {
        let environment = json!({"fidelity": env!("CARGO_PKG_VERSION"), "fidelity_worker": self.worker});
        match environment {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// Computes a prompt, from the beginning in a new process where that may help.
    fn prompt(&self, job: &Job) -> Result<Collected, (Scope, Failure)> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let attempts = if slot.lost { Attempts::none() } else { self.settings.attempts };
        let mut budget = Budget::new(attempts);
        loop {
            let mut scope = job.scopes.first().copied().unwrap_or(Scope::Prefill);
            let failure = match self.attempt(&mut slot, job, &mut scope) {
                Ok(collected) => return Ok(collected),
                Err(failure) => failure,
            };
            if !failure.leaves_worker_usable() {
                slot.link = None;
            }
            spend(&mut budget, failure, &self.notes).map_err(|failure| (scope, failure))?;
        }
    }

    fn attempt(&self, slot: &mut Slot, job: &Job, scope: &mut Scope) -> Result<Collected, Failure> {
        let link = match &mut slot.link {
            Some(link) => link,
            empty => {
                slot.lost = true;
                let link = empty.insert(self.reconnect()?);
                slot.lost = false;
                link
            }
        };
        link.send(&Request::Prompt(job.clone()))?;
        let width = self.settings.vocabulary.unwrap_or(self.opened.geometry.logits());
        let patience = self.settings.run.wide.max(self.settings.run.tbt) + self.settings.patience.step;
        let mut collected = Collected::default();
        loop {
            let during = format!("computing scope {scope}");
            let (reply, payload) = link.receive(patience, &during)?;
            match reply {
                Reply::Row { scope: of, position, token_id } => {
                    *scope = of;
                    let added = collected.add(of, position, token_id, &payload, width);
                    added.map_err(|reason| link.garbled(&reason, &during))?;
                }
                Reply::Step { scope: of } => *scope = of,
                Reply::Busy { .. } => {}
                Reply::Generated { ids } => collected.generated = Some(ids),
                Reply::Done => return Ok(collected),
                Reply::Failed(failed) => return Err(failed.into()),
                Reply::Hello { .. } | Reply::Inventory(_) | Reply::Opened(_) => {
                    return Err(link.garbled("an answer to another request", &during));
                }
            }
        }
    }

    /// A new worker, which must have opened the same.
    fn reconnect(&self) -> Result<Link, Failure> {
        let (link, opened, ..) = connect(&self.settings, self.settings.wait.max(GIVES_BACK), &self.notes)?;
        let before = &self.opened;
        let differing = [
            ("HEF", opened.sha256 != before.sha256 || opened.geometry != before.geometry),
            ("library", opened.versions != before.versions || opened.driver != before.driver),
            ("firmware", opened.device.firmware != before.device.firmware),
            ("kind of device", opened.device.architecture != before.device.architecture),
        ];
        match differing.into_iter().find(|(_, differs)| *differs) {
            Some((what, _)) => Err(Failure::Changed { what }),
            None => Ok(link),
        }
    }
}

/// Waits as the budget says, or gives the failure back.
fn spend(budget: &mut Budget, failure: Failure, notes: &Notes) -> Result<(), Failure> {
    let Some((remedy, wait)) = budget.spend(&failure) else { return Err(failure) };
    match remedy {
        Remedy::Process => notes(&format!("{failure}; trying again in a new process")),
        Remedy::Wait => notes(&format!("{failure}; trying again in {} s", wait.as_secs_f32())),
    }
    thread::sleep(wait);
    Ok(())
}

fn connect(settings: &Settings, wait: Duration, notes: &Notes) -> Result<Ready, Failure> {
    let (mut link, worker) = greet(&settings.command, settings.patience.start)?;
    link.send(&Request::Open(Open {
        hef: settings.hef.clone(),
        sha256: settings.sha256.clone(),
        device: settings.device.clone(),
        wait_ms: milliseconds(wait),
        accept_failed_audit: settings.accept_failed_audit,
        wide_ms: milliseconds(settings.run.wide),
        tbt_ms: milliseconds(settings.run.tbt),
    }))?;
    let during = "opening the HEF";
    loop {
        match link.receive(settings.patience.open, during)? {
            (Reply::Busy { with }, _) => notes(&crate::text::plain(&with)),
            (Reply::Opened(opened), payload) => {
                let audit = match payload.is_empty() {
                    true => Value::Null,
                    false => {
                        serde_json::from_slice(&payload).map_err(|error| link.garbled(&error.to_string(), during))?
                    }
                };
                return Ok((link, *opened, audit, worker));
            }
            (Reply::Failed(failed), _) => return Err(failed.into()),
            _ => return Err(link.garbled("an answer to another request", during)),
        }
    }
}

/// A worker of the same version, and the version of its program.
fn greet(command: &str, patience: Duration) -> Result<(Link, String), Failure> {
    let mut link = Link::start(command)?;
    link.send(&Request::Hello { protocol: PROTOCOL })?;
    match link.receive(patience, "starting")? {
        (Reply::Hello { protocol: PROTOCOL, version }, _) => Ok((link, crate::text::plain(&version))),
        (Reply::Hello { protocol, version }, _) => {
            Err(Failure::Version { version: crate::text::plain(&version), theirs: protocol })
        }
        _ => Err(link.garbled("its first answer is no hello", "starting")),
    }
}

/// What is installed on a worker's machine.
///
/// # Errors
/// The worker cannot be started or understood.
pub fn inquire(command: &str, patience: Duration) -> Result<Inventory, Failure> {
    let (mut link, _) = greet(command, patience)?;
    link.send(&Request::Inquire)?;
    loop {
        match link.receive(patience, "looking for devices")? {
            (Reply::Inventory(inventory), _) => return Ok(inventory),
            (Reply::Busy { .. }, _) => {}
            (Reply::Failed(failed), _) => return Err(failed.into()),
            _ => return Err(link.garbled("an answer to another request", "looking for devices")),
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Subject for HailoArm {
    /// What decides numbers: a trace of another file, library or firmware is not continued.
    fn arm(&self) -> Arm {
        let Opened { sha256, audit, device, versions, driver, .. } = &self.opened;
        let detail = json!({
            "hef_sha256": sha256,
            "audit": audit,
            "architecture": device.architecture,
            "firmware": device.firmware,
            "hailort": versions.library,
            "driver": driver,
            "prefill_rows": self.settings.prefill_rows.to_string(),
        });
        let detail = match detail {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        Arm { kind: ArmKind::Hailo, name: device.architecture.to_lowercase(), detail }
    }

    fn run(&self, requests: &[Asked<'_>], captures: &mut [Capture]) -> Result<(), SubjectError> {
        for (request, capture) in requests.iter().zip(captures) {
            let job = Job {
                token_ids: request.token_ids.to_vec(),
                scopes: request.scopes.to_vec(),
                continuation: request.continuation.map(<[u32]>::to_vec),
                new_tokens: request.new_tokens,
                eos: self.settings.eos.clone(),
                vocabulary: self.settings.vocabulary,
                prefill_rows: self.settings.prefill_rows,
            };
            let collected =
                self.prompt(&job).map_err(|(scope, failure)| SubjectError { scope, message: failure.to_string() })?;
            collected.write(capture);
        }
        Ok(())
    }
}

/// What to record on a device.
pub struct Task<'a> {
    /// The checkpoint that the file is said to be made of.
    pub checkpoint: CheckpointIdentity,
    /// The prompts.
    pub prompts: Vec<PromptRecord>,
    /// The reference's greedy ids by prompt.
    pub continuations: &'a [Vec<u32>],
    /// Scopes to run.
    pub scopes: &'a [Scope],
    /// How many ids to generate.
    pub new_tokens: usize,
    /// Called when prompts are done, with the number done so far.
    pub on_prompt: &'a dyn Fn(usize),
}

/// Records a trace into `folder`; with `resume`, prompts that an earlier run finished are kept. Prompts that fail are recorded
/// as failed and the others go on.
///
/// # Errors
/// The trace cannot be written, or the one there is of something else.
pub fn record_trace(arm: &HailoArm, task: Task<'_>, folder: &std::path::Path, resume: bool) -> Result<(), WriteError> {
    let mut manifest = Manifest::new(arm.arm(), task.checkpoint);
    manifest.prompts = task.prompts;
    manifest.logits_step = arm.logits_step();
    manifest.environment = arm.environment();
    let scopes: Vec<_> = task.scopes.iter().map(|scope| scope.name()).collect();
    let settings = json!({
        "scopes": scopes,
        "new_tokens": task.new_tokens,
        "eos": arm.settings.eos,
        "vocabulary": arm.settings.vocabulary,
        "continuations": task.continuations,
    });
    manifest.other.insert("settings".into(), settings);
    let writer = TraceWriter::open(folder, manifest, resume)?;
    let recording = Recording {
        scopes: task.scopes,
        taps: &Taps::List(Vec::new()),
        new_tokens: task.new_tokens,
        continuations: Some(task.continuations),
        on_prompt: task.on_prompt,
    };
    record(arm, &recording, writer)
}
