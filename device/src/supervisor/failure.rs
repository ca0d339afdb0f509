//! What goes wrong with a device, and what is done about it.

use std::time::Duration;

use crate::{
    chip::{ChipError, Retry},
    worker::{Failed, FailureKind, PROTOCOL},
};

/// What went wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The worker command cannot be used.
    #[error("--worker: `{command}`: {reason}")]
    Command {
        /// What was given.
        command: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The worker ended.
    #[error("the worker ended ({status}) while {during}{said}")]
    Ended {
        /// How.
        status: String,
        /// What it was doing.
        during: String,
        /// What it said on stderr.
        said: String,
    },
    /// The worker gave no sign of life.
    #[error("the worker gave no sign of life for {} s while {during} and was killed{said}", .after.as_secs_f32())]
    Silent {
        /// For so long.
        after: Duration,
        /// What it was doing.
        during: String,
        /// What it said on stderr.
        said: String,
    },
    /// What the worker says is not understood.
    #[error("the worker is not understood while {during}: {reason}{said}")]
    Garbled {
        /// What it was doing.
        during: String,
        /// What is not understood.
        reason: String,
        /// What it said on stderr.
        said: String,
    },
    /// The worker is of another version.
    #[error(
        "the worker ({version}) speaks protocol {theirs}, this program {PROTOCOL}; install the same version of fidelity on both machines"
    )]
    Version {
        /// Version of its program.
        version: String,
        /// Its protocol.
        theirs: u32,
    },
    /// Device or library failed.
    #[error("{message}")]
    Device {
        /// What happened, with status, number and likely cause.
        message: String,
        /// The library's error.
        chip: Option<ChipError>,
        /// There is a device at all.
        device_present: bool,
    },
    /// Another process has the device.
    #[error("{message}; wait for it with --wait")]
    InUse {
        /// Who.
        message: String,
    },
    /// File or request cannot be used.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
    },
    /// A new worker opened something else.
    #[error("after it was started again, the worker has another {what} than before; start a new run")]
    Changed {
        /// What differs.
        what: &'static str,
    },
}

/// What is done about a failure, if there is anything left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// A new process, at once.
    Process,
    /// A new process, after a while.
    Wait,
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        let Failed { kind, message, chip, device_present, .. } = failed;
        let message = crate::text::plain(&message);
        match kind {
            FailureKind::Device => Self::Device { message, chip, device_present },
            FailureKind::InUse => Self::InUse { message },
            FailureKind::Refused => Self::Refused { message },
        }
    }
}

impl Failure {
    /// The process that failed may be asked again.
    pub(super) const fn leaves_worker_usable(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// How often a prompt, or opening, is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// New processes at once.
    pub processes: u32,
    /// New processes after waiting, each time twice as long.
    pub waits: u32,
    /// How long the first wait is.
    pub first_wait: Duration,
}

impl Attempts {
    /// Nothing is tried again.
    #[must_use]
    pub const fn none() -> Self {
        Self { processes: 0, waits: 0, first_wait: Duration::ZERO }
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Self { processes: 2, waits: 5, first_wait: Duration::from_secs(1) }
    }
}

/// What is left of [`Attempts`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left: Attempts,
    processes_used: u32,
}

impl Budget {
    pub(super) const fn new(attempts: Attempts) -> Self {
        Self { left: attempts, processes_used: 0 }
    }

    /// What to do about a failure and how long to wait before; `None` to give up.
    pub(super) fn spend(&mut self, failure: &Failure) -> Option<(Remedy, Duration)> {
        match failure {
            Failure::Ended { .. } | Failure::Silent { .. } => self.process(u32::MAX),
            Failure::Device { chip: Some(chip), device_present, .. } => match chip.status.retry() {
                Retry::No => None,
                // What may be repeated in the same process was.
                Retry::Process | Retry::Unknown | Retry::ProcessOnce => self.process(1),
                Retry::ProcessAfterWait | Retry::Wait => self.wait(),
                Retry::WaitIfPresent if *device_present => self.wait(),
                Retry::WaitIfPresent => None,
            },
            Failure::Device { chip: None, .. }
            | Failure::Command { .. }
            | Failure::Garbled { .. }
            | Failure::Version { .. }
            | Failure::InUse { .. }
            | Failure::Refused { .. }
            | Failure::Changed { .. } => None,
        }
    }

    fn process(&mut self, at_most: u32) -> Option<(Remedy, Duration)> {
        if self.processes_used >= at_most {
            return None;
        }
        self.left.processes = self.left.processes.checked_sub(1)?;
        self.processes_used += 1;
        Some((Remedy::Process, Duration::ZERO))
    }

    fn wait(&mut self) -> Option<(Remedy, Duration)> {
        self.left.waits = self.left.waits.checked_sub(1)?;
        let wait = self.left.first_wait;
        self.left.first_wait = wait.saturating_mul(2);
        Some((Remedy::Wait, wait))
    }
}
