//! What a session needs of a device and the library that drives it. One implementation calls `HailoRT` (feature `hailo`); tests
//! have one that records what it is fed.

use std::{fmt, path::Path, time::Duration};

pub use fidelity_hailort_sys::{Retry, Status};
use serde::{Deserialize, Serialize};

/// A call of the library that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChipError {
    /// What the library returned.
    #[serde(with = "number")]
    pub status: Status,
    /// What was being done: `while configuring the network group`.
    pub step: String,
    /// Whatever else is known.
    pub detail: String,
}

impl fmt::Display for ChipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, crate::text::plain(&self.step))?;
        if !self.detail.is_empty() {
            write!(f, ": {}", crate::text::plain(&self.detail))?;
        }
        self.status.cause().map_or(Ok(()), |cause| write!(f, " ({cause})"))
    }
}

impl std::error::Error for ChipError {}

/// A status as its number.
mod number {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Status;

    pub(super) fn serialize<S: Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(status.number())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
        i32::deserialize(deserializer).map(Status::new)
    }
}

/// Versions of what stands between the session and the chip.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The library in use.
    pub library: String,
    /// The headers it was built against.
    pub headers: String,
}

/// What a device says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// How it is addressed.
    pub id: String,
    /// Its architecture, `HAILO10H`.
    pub architecture: String,
    /// Version of its firmware.
    pub firmware: String,
    /// Its board.
    pub board: String,
    /// Its serial number.
    pub serial: String,
}

/// How a group is to be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRequest {
    /// Its full name.
    pub name: String,
    /// Streams exchanged as float32; all others keep the type they have on the device.
    pub float32: Vec<String>,
    /// It reads and writes a KV-cache: exactly one [`Group::update_cache_offset`] comes before each run.
    pub kv_cache: bool,
}

/// An input or output of a configured group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its full name.
    pub name: String,
    /// Size of its buffer.
    pub frame_bytes: usize,
}

/// The library.
pub trait Library {
    /// Its versions.
    ///
    /// # Errors
    /// It does not say.
    fn versions(&self) -> Result<Versions, ChipError>;

    /// Ids of the devices there are, busy ones too.
    ///
    /// # Errors
    /// The driver does not answer.
    fn scan(&self) -> Result<Vec<String>, ChipError>;

    /// Opens a device for exclusive use.
    ///
    /// # Errors
    /// It is not there, busy, or does not answer.
    fn open(&self, id: &str) -> Result<Box<dyn Device>, ChipError>;
}

/// An open device.
pub trait Device {
    /// What it says of itself.
    fn info(&self) -> DeviceInfo;

    /// Configures groups of one file, all before the first run: they share the caches.
    ///
    /// # Errors
    /// The library or the device refuses the file.
    fn configure(&mut self, hef: &Path, groups: &[GroupRequest]) -> Result<Vec<Box<dyn Group>>, ChipError>;
}

/// A configured group with a buffer for each port.
pub trait Group {
    /// Its inputs.
    fn inputs(&self) -> &[Port];

    /// Its outputs, in the library's order.
    fn outputs(&self) -> &[Port];

    /// The buffer of input `index`.
    fn input_mut(&mut self, index: usize) -> &mut [u8];

    /// The buffer of output `index`, as the last run left it.
    fn output(&self, index: usize) -> &[u8];

    /// Sets the read offset of the device's caches. Memory is not cleared; repeating it does no harm.
    ///
    /// # Errors
    /// The library's.
    fn init_cache(&mut self, offset: u32) -> Result<(), ChipError>;

    /// Moves the read offset on; of this group's caches and all others'.
    ///
    /// # Errors
    /// The library's. After a timeout it is not known whether it happened.
    fn update_cache_offset(&mut self, tokens: i32) -> Result<(), ChipError>;

    /// Runs once.
    ///
    /// # Errors
    /// The library's. After a timeout the group is poisoned: the device may still write into its buffers.
    fn run(&mut self, deadline: Duration) -> Result<(), ChipError>;

    /// No run is possible any more; only the end of the process frees what the device may still write to.
    fn is_poisoned(&self) -> bool;
}
