//! Which device, which file, how long, how often.

use std::time::Duration;

use super::Attempts;
use crate::session::{Deadlines, PrefillRows};

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
