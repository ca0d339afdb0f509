//! The host's side of a device in another process: starts the worker, gives it deadlines, starts it again where that may
//! help, and says why where it does not.

mod failure;
mod link;
mod rows;
mod settings;

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use fidelity_trace::{Arm, ArmKind, Capture, Request as Asked, Scope, Subject, SubjectError};
use serde_json::{Map, Value, json};

pub use failure::{Attempts, Failure};
pub use settings::{Patience, Settings};

use failure::{Budget, Remedy};
use link::Link;
use rows::Collected;

use crate::{
    session::{Geometry, Job},
    worker::{Inventory, Open, Opened, PROTOCOL, Reply, Request},
};

/// A worker that was killed at the other end of `ssh` takes a moment to give the device back.
const GIVES_BACK: Duration = Duration::from_secs(20);

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
        let mut wait = settings.wait;
        let (link, opened, audit, worker) = loop {
            match connect(&settings, wait, &notes) {
                Ok(ready) => break ready,
                Err(failure) => spend(&mut budget, failure, &notes)?,
            }
            // The worker that failed may still have the device.
            wait = settings.wait.max(GIVES_BACK);
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

    /// Why ties of logits may not be judged as ties, for the notes of a verdict.
    #[must_use]
    pub fn logits_step_note(&self) -> Option<String> {
        self.opened.geometry.logits_step_note(self.settings.vocabulary)
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
    fn prompt<'a>(&self, job: &'a Job) -> Result<Collected<'a>, (Scope, Failure)> {
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

    fn attempt<'a>(&self, slot: &mut Slot, job: &'a Job, scope: &mut Scope) -> Result<Collected<'a>, Failure> {
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
        let patience = self.settings.run.wide.max(self.settings.run.tbt).saturating_add(self.settings.patience.step);
        let mut collected = Collected::of(job, width);
        loop {
            let during = format!("computing scope {scope}");
            let (reply, payload) = link.receive(patience, &during)?;
            match reply {
                Reply::Row { scope: of, position, token_id } => {
                    *scope = of;
                    let added = collected.add(of, position, token_id, &payload);
                    added.map_err(|reason| link.garbled(&reason, &during))?;
                }
                Reply::Step { scope: of } => *scope = of,
                Reply::Busy { .. } => {}
                Reply::Generated { ids } => {
                    collected.generated(ids).map_err(|reason| link.garbled(&reason, &during))?;
                }
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
            "dfc": self.audit["hef"]["compiler"]["version_text"],
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
