//! Answers requests, one after another.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use fidelity_trace::{Scope, hex};
use sha2::{Digest, Sha256};

use super::{
    frame::{Frame, FrameError, MAX_PAYLOAD_BYTES, write_frame},
    inventory::{driver, inventory},
    lock::{DeviceLock, LockError},
    message::{Failed, FailureKind, Open, Opened, PROTOCOL, Reply, Request},
};
use crate::{
    audit::{Audit, CheckId, State, audit},
    chip::{ChipError, Device, Library, Status},
    hef::Hef,
    session::{Deadlines, Feeding, Job, Session, SessionError, Sink},
};

/// How often it is looked whether another owner has left.
const POLL: Duration = Duration::from_millis(200);
/// How often it is said that something takes long.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// Read at once of a file that is hashed.
const HASHED_BYTES: usize = 1 << 20;

/// How the answers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody asks any more.
    Closed,
    /// The device may still write into this process: it must end at once, without cleaning up.
    Poisoned,
}

/// Answers requests into `output`.
pub struct Desk<'a> {
    library: Option<&'a dyn Library>,
    locks: PathBuf,
    output: &'a mut dyn Write,
    session: Option<(Session, DeviceLock)>,
}

/// A device that is ours.
type Taken = (Box<dyn Device>, DeviceLock);

/// Why a request has no answer of its own.
enum Trouble {
    /// The supervisor is told.
    Told(Failed),
    /// The pipe broke.
    Pipe(FrameError),
}

impl From<FrameError> for Trouble {
    fn from(error: FrameError) -> Self {
        Self::Pipe(error)
    }
}

impl From<SessionError> for Trouble {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Chip(chip) => chip.into(),
            SessionError::Sink(error) => Self::Pipe(error.into()),
            other => refused(other.to_string()),
        }
    }
}

impl From<ChipError> for Trouble {
    fn from(chip: ChipError) -> Self {
        let kind = FailureKind::Device;
        Self::Told(Failed { kind, message: chip.to_string(), chip: Some(chip), device_present: true, ends: false })
    }
}

fn refused(message: String) -> Trouble {
    let kind = FailureKind::Refused;
    Trouble::Told(Failed { kind, message, chip: None, device_present: false, ends: false })
}

impl<'a> Desk<'a> {
    /// A desk; without a library it says so to whoever wants a device. Locks are files in `locks`.
    pub fn new(library: Option<&'a dyn Library>, locks: &Path, output: &'a mut dyn Write) -> Self {
        Self { library, locks: locks.to_owned(), output, session: None }
    }

    /// Answers frames until there are no more, one asks for the end, or the device makes it necessary.
    ///
    /// # Errors
    /// The answers go nowhere.
    pub fn serve(&mut self, frames: impl IntoIterator<Item = Frame>) -> Result<End, FrameError> {
        for frame in frames {
            let request = match serde_json::from_slice(&frame.header) {
                Ok(Request::Close) => break,
                Ok(request) => request,
                Err(error) => {
                    self.fail(&refused(format!("the request cannot be read: {error}")))?;
                    continue;
                }
            };
            if let Err(trouble) = self.answer(request) {
                self.fail(&trouble)?;
                if let Trouble::Pipe(error) = trouble {
                    return Err(error);
                }
            }
            if self.is_poisoned() {
                return Ok(End::Poisoned);
            }
        }
        Ok(End::Closed)
    }

    fn is_poisoned(&self) -> bool {
        self.session.as_ref().is_some_and(|(session, _)| session.is_poisoned())
    }

    fn fail(&mut self, trouble: &Trouble) -> Result<(), FrameError> {
        let Trouble::Told(failed) = trouble else { return Ok(()) };
        let failed = Failed { ends: self.is_poisoned(), ..failed.clone() };
        self.say(&Reply::Failed(failed))
    }

    fn say(&mut self, reply: &Reply) -> Result<(), FrameError> {
        write_frame(self.output, reply, &[])
    }

    fn answer(&mut self, request: Request) -> Result<(), Trouble> {
        match request {
            Request::Hello { .. } => {
                let version = env!("CARGO_PKG_VERSION").into();
                Ok(self.say(&Reply::Hello { protocol: PROTOCOL, version })?)
            }
            Request::Inquire => {
                let inventory = inventory(self.library, &self.locks);
                Ok(self.say(&Reply::Inventory(inventory))?)
            }
            Request::Open(open) => self.open(&open),
            Request::Prompt(job) => self.prompt(&job),
            Request::Close => Ok(()),
        }
    }

    fn open(&mut self, open: &Open) -> Result<(), Trouble> {
        let library = self.library.ok_or_else(|| {
            refused(
                "this worker was built without HailoRT; build it with --features hailo on the device's machine".into(),
            )
        })?;
        self.session = None;
        let path = Path::new(&open.hef);
        let unreadable = |reason: String| refused(format!("{}: {reason}", crate::text::plain(&open.hef)));
        let sha256 = self.hash(path)?.map_err(|error| unreadable(format!("cannot read it: {error}")))?;
        if let Some(expected) = open.sha256.as_ref().filter(|expected| **expected != sha256) {
            return Err(unreadable(format!("its SHA-256 is {sha256}, expected {}", crate::text::plain(expected))));
        }
        self.say(&Reply::Busy { with: "auditing the HEF".into() })?;
        let mut hef = Hef::open(path).map_err(|error| unreadable(error.to_string()))?;
        let audit = audit(&mut hef, None).map_err(|error| unreadable(error.to_string()))?;
        // What would be refused anyway is refused before a device is taken.
        let geometry = Session::geometry_of(&mut hef);
        let whole = matches!(&geometry, Ok(geometry) if geometry.feeding == Feeding::Whole);
        if let Some(failures) = failures(&audit, whole).filter(|_| !open.accept_failed_audit) {
            return Err(unreadable(failures));
        }
        let geometry = geometry?;
        let (device, lock) = self.take(library, open)?;
        let info = device.info();
        self.say(&Reply::Busy { with: "configuring the device".into() })?;
        let deadlines =
            Deadlines { wide: Duration::from_millis(open.wide_ms), tbt: Duration::from_millis(open.tbt_ms) };
        let session = Session::configure(hef, path, device, deadlines)?;
        self.session = Some((session, lock));
        let opened = Opened {
            sha256,
            audit: audit.outcome.name().into(),
            geometry,
            device: info,
            versions: library.versions()?,
            driver: driver().map(|(_, version)| version),
        };
        let mut json = audit.to_json().map_err(|error| refused(error.to_string()))?.into_bytes();
        if json.len() > MAX_PAYLOAD_BYTES as usize {
            json = Vec::new();
        }
        Ok(write_frame(self.output, &Reply::Opened(Box::new(opened)), &json)?)
    }

    /// SHA-256 of a file, with signs of life.
    fn hash(&mut self, path: &Path) -> Result<io::Result<String>, FrameError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        let (mut hasher, mut buffer, mut said) = (Sha256::new(), vec![0; HASHED_BYTES], Instant::now());
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Ok(hex(&hasher.finalize()))),
                Ok(read) => hasher.update(&buffer[..read]),
                Err(error) => return Ok(Err(error)),
            }
            if said.elapsed() > SIGN_OF_LIFE {
                said = Instant::now();
                self.say(&Reply::Busy { with: "hashing the HEF".into() })?;
            }
        }
    }

    /// A device that nobody else has.
    fn take(&mut self, library: &dyn Library, open: &Open) -> Result<Taken, Trouble> {
        let ids = match &open.device {
            Some(id) => vec![id.clone()],
            None => library.scan()?,
        };
        if ids.is_empty() {
            let status = Status::OUT_OF_PHYSICAL_DEVICES;
            let chip = ChipError { status, step: "while looking for devices".into(), detail: "none is there".into() };
            let Trouble::Told(failed) = chip.into() else { return Err(refused("there is no device".into())) };
            return Err(Trouble::Told(Failed { device_present: false, ..failed }));
        }
        let (began, wait, mut said) = (Instant::now(), Duration::from_millis(open.wait_ms), Instant::now());
        loop {
            let held = match try_each(library, &ids, &self.locks)? {
                Ok(taken) => return Ok(taken),
                Err(held) => held,
            };
            if began.elapsed() >= wait {
                return Err(Trouble::Told(held));
            }
            if said.elapsed() > SIGN_OF_LIFE {
                said = Instant::now();
                self.say(&Reply::Busy { with: format!("waiting: {}", held.message) })?;
            }
            sleep(POLL);
        }
    }

    fn prompt(&mut self, job: &Job) -> Result<(), Trouble> {
        let Some((session, _)) = &mut self.session else {
            return Err(refused("no file is open on a device".into()));
        };
        session.run(job, &mut Frames(self.output))?;
        Ok(self.say(&Reply::Done)?)
    }
}

/// The first device that can be had, or why one cannot for now. Another that fails is an error only where none is in use: a
/// chip of another kind may stand beside the right one.
fn try_each(library: &dyn Library, ids: &[String], locks: &Path) -> Result<Result<Taken, Failed>, Trouble> {
    let (mut last, mut failed) = (None, None);
    for id in ids {
        let outcome = match DeviceLock::take(locks, id) {
            Ok(lock) => library.open(id).map(|device| (device, lock)),
            Err(error @ LockError::Held { .. }) => {
                last = Some(in_use(error.to_string(), None));
                continue;
            }
            Err(error @ LockError::Io { .. }) => {
                failed.get_or_insert(refused(error.to_string()));
                continue;
            }
        };
        match outcome {
            Ok(taken) => return Ok(Ok(taken)),
            Err(error) if error.status == Status::DEVICE_IN_USE => {
                last = Some(in_use(format!("device {id} is in use by another program: {error}"), Some(error)));
            }
            Err(error) => {
                failed.get_or_insert(error.into());
            }
        }
    }
    match (last, failed) {
        (None, Some(failed)) => Err(failed),
        (held, _) => Ok(Err(held.unwrap_or_else(|| in_use("every device is in use".into(), None)))),
    }
}

fn in_use(message: String, chip: Option<ChipError>) -> Failed {
    Failed { kind: FailureKind::InUse, message, chip, device_present: true, ends: false }
}

/// What the audit of a file without caches fails by its nature: it judges for the host that generates text.
const OF_GENERATION: [CheckId; 3] = [CheckId::Groups, CheckId::Outputs, CheckId::CachePairs];

/// What an audit found against running the file, as one line. Files fed whole sequences keep what a session checks itself.
fn failures(audit: &Audit, whole: bool) -> Option<String> {
    let checks: Vec<_> =
        audit.in_state(State::Fail).filter(|check| !(whole && OF_GENERATION.contains(&check.id))).collect();
    let first = checks.first()?;
    Some(format!("{} checks of the audit fail, the first: {}; see `fidelity audit`", checks.len(), first.found))
}

/// Rows as frames.
struct Frames<'a>(&'a mut dyn Write);

impl Frames<'_> {
    fn write(&mut self, reply: &Reply, payload: &[u8]) -> io::Result<()> {
        write_frame(self.0, reply, payload).map_err(|error| match error {
            FrameError::Io(error) => error,
            other => io::Error::other(other),
        })
    }
}

impl Sink for Frames<'_> {
    fn row(&mut self, scope: Scope, position: u32, token_id: u32, logits: &[f32]) -> io::Result<()> {
        let payload: Vec<u8> = logits.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.write(&Reply::Row { scope, position, token_id }, &payload)
    }

    fn step(&mut self, scope: Scope) -> io::Result<()> {
        self.write(&Reply::Step { scope }, &[])
    }

    fn generated(&mut self, ids: &[u32]) -> io::Result<()> {
        self.write(&Reply::Generated { ids: ids.to_vec() }, &[])
    }
}
