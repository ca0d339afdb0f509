//! What a status of the library means and whether to try again.

use serde::{Deserialize, Serialize};

/// A status of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Status(i32);

/// Whether to try again, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never.
    No,
    /// In a new process.
    Process,
    /// In a new process, once.
    ProcessOnce,
    /// In a new process, after a while.
    ProcessAfterWait,
    /// After a while.
    Wait,
    /// After a while if there is a device at all.
    WaitIfPresent,
}

impl Status {
    /// A reply did not come in time; what became of the call is not known.
    pub const TIMEOUT: Self = Self(4);
    /// Another process has the device.
    pub const DEVICE_IN_USE: Self = Self(73);
    /// No device, or none that is free.
    pub const OUT_OF_PHYSICAL_DEVICES: Self = Self(74);

    /// The status of a number.
    #[must_use]
    pub const fn of(number: i32) -> Self {
        Self(number)
    }

    /// Whether to try again.
    #[must_use]
    pub const fn retry(self) -> Retry {
        match self.0 {
            4 | 18 | 28 | 36 | 63 | 85 | 87 | 88 | 90 => Retry::Process,
            8 => Retry::ProcessOnce,
            62 | 81 => Retry::ProcessAfterWait,
            73 | 82 | 89 | 96 | 97 => Retry::Wait,
            74 => Retry::WaitIfPresent,
            _ => Retry::No,
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}", self.0)
    }
}
