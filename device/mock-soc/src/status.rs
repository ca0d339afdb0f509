//! Numbers of `hailo_status` that the chip answers with (`hailort.h`).

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_ARGUMENT: u32 = 2;
pub(crate) const INVALID_OPERATION: u32 = 6;
pub(crate) const NOT_IMPLEMENTED: u32 = 7;
pub(crate) const INTERNAL_FAILURE: u32 = 8;
pub(crate) const INVALID_HEF: u32 = 26;
pub(crate) const NOT_FOUND: u32 = 61;
pub(crate) const DEVICE_IN_USE: u32 = 73;
pub(crate) const RPC_FAILED: u32 = 77;
pub(crate) const HEF_FILE_CORRUPTED: u32 = 91;
pub(crate) const HEF_NOT_SUPPORTED: u32 = 92;
pub(crate) const HEF_NOT_COMPATIBLE_WITH_DEVICE: u32 = 93;

/// Why a request fails: the number that the client sees, and words for whoever reads the log.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u32,
    pub(crate) why: String,
}

impl Failure {
    pub(crate) fn new(status: u32, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }
}
