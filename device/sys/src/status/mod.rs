//! What a `hailo_status` means here, and what to do about it.
//!
//! Numbers and names are those of `hailo/hailort.h`, identical in HailoRT 5.1.0 to 5.2.0. Causes and retries are for language models on a
//! Hailo-10H. Compiles without HailoRT.

mod names;
#[cfg(test)]
mod tests;

use std::fmt;

use names::NAMES;

/// What may help after a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Nothing: the same would happen again.
    No,
    /// A new process, at once. Everything starts over there, from opening the device and `init_cache(0)` on.
    Process,
    /// As [`Retry::Process`], but a second failure is final.
    ProcessOnce,
    /// As [`Retry::Process`], after a pause.
    ProcessAfterWait,
    /// The same call after a pause, in the same process.
    Wait,
    /// As [`Retry::Wait`] where a scan finds a device, otherwise nothing.
    WaitIfPresent,
    /// It is not known whether the call took effect. `init_cache` may be repeated; `update_cache_offset` must not be, `init_cache` to the
    /// absolute offset does it; all else, runs above all, needs a new process.
    Unknown,
}

/// A `hailo_status`, known or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(i32);

impl Status {
    /// `HAILO_SUCCESS`.
    pub const SUCCESS: Self = Self(0);
    /// `HAILO_INVALID_ARGUMENT`.
    pub const INVALID_ARGUMENT: Self = Self(2);
    /// `HAILO_TIMEOUT`.
    pub const TIMEOUT: Self = Self(4);
    /// `HAILO_INVALID_OPERATION`.
    pub const INVALID_OPERATION: Self = Self(6);
    /// `HAILO_INTERNAL_FAILURE`.
    pub const INTERNAL_FAILURE: Self = Self(8);
    /// `HAILO_COMMUNICATION_CLOSED`.
    pub const COMMUNICATION_CLOSED: Self = Self(62);
    /// `HAILO_DEVICE_IN_USE`.
    pub const DEVICE_IN_USE: Self = Self(73);
    /// `HAILO_OUT_OF_PHYSICAL_DEVICES`.
    pub const OUT_OF_PHYSICAL_DEVICES: Self = Self(74);
    /// `HAILO_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: Self = Self(79);

    /// The status of this number, whatever it is.
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Its name without `HAILO_`; none for a number that HailoRT 5.2.0 does not know.
    pub fn name(self) -> Option<&'static str> {
        usize::try_from(self.0).ok().and_then(|number| NAMES.get(number)).copied()
    }

    /// What is likely behind it; none where nothing is known.
    pub fn cause(self) -> Option<&'static str> {
        self.row().map(|row| row.cause).filter(|cause| !cause.is_empty())
    }

    /// What may help. Nothing, where nothing is known.
    pub fn retry(self) -> Retry {
        self.row().map_or(Retry::No, |row| row.retry)
    }

    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.number == self.0)
    }
}

/// `TIMEOUT (4)`; `unknown status 123`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "unknown status {}", self.0),
        }
    }
}

struct Row {
    number: i32,
    retry: Retry,
    cause: &'static str,
}

const fn row(number: i32, retry: Retry, cause: &'static str) -> Row {
    Row { number, retry, cause }
}

const ROWS: [Row; 42] = [
    // SUCCESS
    row(0, Retry::No, ""),
    // UNINITIALIZED
    row(1, Retry::No, "internal to HailoRT"),
    // INVALID_ARGUMENT
    row(
        2,
        Retry::No,
        "a bad name or parameter: an unknown device, cache lengths that differ between groups, a batch other than 1, several groups and none named, or a cache offset beyond its length",
    ),
    // OUT_OF_HOST_MEMORY
    row(
        3,
        Retry::No,
        "no memory on the host or on the chip, which holds a copy of the HEF for each group; a smaller HEF, or rebooting the chip, helps",
    ),
    // TIMEOUT
    row(
        4,
        Retry::Unknown,
        "inference is stuck, the link is slow, the cache offset was not updated exactly once for the run, or HailoRT 5.2 lost a wake-up; the outcome is unknown",
    ),
    // INVALID_OPERATION
    row(
        6,
        Retry::No,
        "a buffer of wrong size, a cache before both groups were configured, the multi-process service with a Hailo-10H, or the KV cache is in use by another program",
    ),
    // NOT_IMPLEMENTED
    row(7, Retry::No, "the call is not available on a Hailo-10H"),
    // INTERNAL_FAILURE
    row(
        8,
        Retry::ProcessOnce,
        "generic: the server on the chip failed, the device handle was released, or caches of two models do not agree",
    ),
    // OPEN_FILE_FAILURE
    row(13, Retry::No, "the file cannot be opened"),
    // FILE_OPERATION_FAILURE
    row(14, Retry::No, "the file is shorter than it says, or cannot be read"),
    // UNSUPPORTED_CONTROL_PROTOCOL_VERSION
    row(15, Retry::No, "firmware and library are of different versions; update both"),
    // UNSUPPORTED_FW_VERSION
    row(16, Retry::No, "firmware and library are of different versions; update both"),
    // FW_CONTROL_FAILURE
    row(18, Retry::Process, "the firmware refused a command"),
    // INVALID_HEF
    row(26, Retry::No, "the HEF's structure is refused, or it is bound to another version of HailoRT"),
    // INTERRUPTED_BY_SIGNAL
    row(28, Retry::Process, "a signal came while waiting"),
    // DRIVER_OPERATION_FAILED
    row(36, Retry::Process, "the driver failed; dmesg says more"),
    // NOT_FOUND
    row(61, Retry::No, "no network group, stream or resource of that name, or a stream without a buffer"),
    // COMMUNICATION_CLOSED
    row(
        62,
        Retry::ProcessAfterWait,
        "the link to the chip is closed: its server died, restarted or was reset, or the cable is loose; every later call fails alike",
    ),
    // STREAM_ABORT
    row(63, Retry::Process, "aborted by a shutdown or by a reset of the link"),
    // DRIVER_NOT_INSTALLED
    row(64, Retry::No, "the hailo driver is not loaded"),
    // OUT_OF_FW_MEMORY
    row(71, Retry::No, "the firmware has no memory left: too many contexts or models are configured"),
    // DEVICE_IN_USE
    row(73, Retry::Wait, "another process uses the device exclusively"),
    // OUT_OF_PHYSICAL_DEVICES
    row(74, Retry::WaitIfPresent, "no device is present, all are busy, or more than one was asked for"),
    // INVALID_DEVICE_ARCHITECTURE
    row(75, Retry::No, "the chip is another one"),
    // INVALID_DRIVER_VERSION
    row(76, Retry::No, "the driver's version is not the library's; reinstall both from one release"),
    // RPC_FAILED
    row(77, Retry::No, "host and chip do not understand each other: different versions of HailoRT"),
    // NOT_SUPPORTED
    row(79, Retry::No, "what was asked is not supported by this library"),
    // OUT_OF_HOST_CMA_MEMORY
    row(81, Retry::ProcessAfterWait, "no contiguous memory on the host"),
    // QUEUE_IS_FULL
    row(82, Retry::Wait, "more runs are in flight than the queue holds"),
    // DRIVER_INVALID_RESPONSE
    row(85, Retry::Process, "driver and firmware do not understand each other"),
    // DRIVER_INVALID_IOCTL
    row(86, Retry::No, "the driver is older or newer than the library"),
    // DRIVER_TIMEOUT
    row(87, Retry::Process, "the driver waited in vain"),
    // DRIVER_INTERRUPTED
    row(88, Retry::Process, "a signal interrupted a call of the driver"),
    // CONNECTION_REFUSED
    row(89, Retry::Wait, "nobody listens on the chip: its server is not up yet after booting"),
    // DRIVER_WAIT_CANCELED
    row(90, Retry::Process, "a wait in the driver was cancelled by a close"),
    // HEF_FILE_CORRUPTED
    row(91, Retry::No, "the HEF is damaged: a checksum or its protobuf is wrong"),
    // HEF_NOT_SUPPORTED
    row(92, Retry::No, "not a HEF, or one of a version or with an extension that this HailoRT does not know"),
    // HEF_NOT_COMPATIBLE_WITH_DEVICE
    row(93, Retry::No, "the HEF was compiled for another chip"),
    // INVALID_HEF_USE
    row(94, Retry::No, "the HEF has several network groups and none was named"),
    // OPERATION_ABORTED
    row(95, Retry::No, "the user aborted"),
    // DEVICE_NOT_CONNECTED
    row(96, Retry::Wait, "the device vanished from the bus; it may come back"),
    // DEVICE_TEMPORARILY_UNAVAILABLE
    row(97, Retry::Wait, "the chip does not accept connections yet"),
];
