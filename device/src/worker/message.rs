//! What supervisor and worker say to each other.

use fidelity_trace::Scope;
use serde::{Deserialize, Serialize};

use crate::{
    chip::{ChipError, DeviceInfo, Versions},
    session::{Geometry, Job},
};

/// Version of frames and messages; both sides must have the same.
pub const PROTOCOL: u32 = 1;

/// What the supervisor asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// First of all. Its form never changes.
    Hello {
        /// The supervisor's [`PROTOCOL`].
        protocol: u32,
    },
    /// What is installed and which devices answer.
    Inquire,
    /// Audit a file, open a device, configure.
    Open(Open),
    /// Compute a prompt.
    Prompt(Job),
    /// End.
    Close,
}

/// Which file on which device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The file, on the worker's machine.
    pub hef: String,
    /// SHA-256 it must have.
    pub sha256: Option<String>,
    /// The device; any that is free where absent.
    pub device: Option<String>,
    /// How long to wait for another owner to leave, in milliseconds.
    pub wait_ms: u64,
    /// Go on where the audit fails.
    pub accept_failed_audit: bool,
    /// How long a chunk of many rows may take, in milliseconds.
    pub wide_ms: u64,
    /// How long a step of one token may take, in milliseconds.
    pub tbt_ms: u64,
}

/// What the worker answers. Every request has one last answer; others may come before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// Last, to `hello`. Its form never changes.
    Hello {
        /// The worker's [`PROTOCOL`].
        protocol: u32,
        /// Version of its program.
        version: String,
    },
    /// Last, to `inquire`.
    Inventory(Inventory),
    /// Something goes on that takes long.
    Busy {
        /// What.
        with: String,
    },
    /// Last, to `open`. The payload is the audit's JSON.
    Opened(Box<Opened>),
    /// A row of logits was computed. The payload is float32, little-endian.
    Row {
        /// Its scope.
        scope: Scope,
        /// Its position.
        position: u32,
        /// The token fed there.
        token_id: u32,
    },
    /// A run was done that gives no row.
    Step {
        /// Its scope.
        scope: Scope,
    },
    /// Ids were generated.
    Generated {
        /// They.
        ids: Vec<u32>,
    },
    /// Last, to `prompt`.
    Done,
    /// Last, to any request.
    Failed(Failed),
}

/// A file on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// SHA-256 of the file.
    pub sha256: String,
    /// How its audit came out: `pass`, `unknown`, `fail` or `not_applicable`.
    pub audit: String,
    /// Its dimensions.
    pub geometry: Geometry,
    /// The device.
    pub device: DeviceInfo,
    /// Library and headers.
    pub versions: Versions,
    /// Version of the driver, where the kernel says it.
    pub driver: Option<String>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// The library's error, where it was one.
    pub chip: Option<ChipError>,
    /// There is a device at all.
    pub device_present: bool,
    /// The worker cannot go on and ends.
    pub ends: bool,
}

/// Who is to blame for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Device or library.
    Device,
    /// Another process has the device.
    InUse,
    /// File or request cannot be used, however often they are tried.
    Refused,
}

/// What is installed on the worker's machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Version of the worker's program.
    pub worker: String,
    /// It was built with `HailoRT`.
    pub has_library: bool,
    /// Versions of the library, or why it does not say.
    pub versions: Option<Versions>,
    /// Name and version of the kernel's driver, where it is loaded.
    pub driver: Option<(String, String)>,
    /// Devices and their states.
    pub devices: Vec<(String, DeviceState)>,
    /// What the library said where it should have listed devices or versions.
    pub errors: Vec<ChipError>,
    /// Processes that are known to fight for the cache: name and pid.
    pub rivals: Vec<(String, u32)>,
}

/// Whether a device can be had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceState {
    /// It answers.
    Free(DeviceInfo),
    /// Another worker has it.
    InUse(Option<u32>),
    /// It does not answer, or another program has it.
    Failed(ChipError),
}
