//! The checksums a HEF carries, computed while the file streams by.

use md5::{Digest, Md5};
use serde::Serialize;
use twox_hash::XxHash3_64;

/// A checksum and what was computed in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checksum {
    /// `MD5`, `CRC-32` or `XXH3-64`.
    pub algorithm: &'static str,
    /// `whole`: everything after the header. `proto`: the protobuf alone.
    pub covers: &'static str,
    /// What the header says, in hexadecimal digits as stored.
    pub stored: String,
    /// What the bytes give.
    pub computed: String,
    /// Both are the same.
    pub matches: bool,
}

/// A checksum as the header stores it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored {
    Md5([u8; 16]),
    Crc32(u32),
    Xxh3(u64),
}

/// A checksum that is being computed.
pub(super) enum Running {
    Md5(Md5, [u8; 16]),
    Crc32(crc32fast::Hasher, u32),
    Xxh3(Box<Xxh3>, u64),
}

impl Running {
    pub(super) fn begin(stored: Stored) -> Self {
        match stored {
            Stored::Md5(stored) => Self::Md5(Md5::new(), stored),
            Stored::Crc32(stored) => Self::Crc32(crc32fast::Hasher::new(), stored),
            Stored::Xxh3(stored) => Self::Xxh3(Box::default(), stored),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher, _) => hasher.update(bytes),
            Self::Crc32(hasher, _) => hasher.update(bytes),
            Self::Xxh3(hasher, _) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self, covers: &'static str) -> Checksum {
        let (algorithm, stored, computed) = match self {
            Self::Md5(hasher, stored) => ("MD5", fidelity_trace::hex(&stored), fidelity_trace::hex(&hasher.finalize())),
            Self::Crc32(hasher, stored) => ("CRC-32", format!("{stored:08x}"), format!("{:08x}", hasher.finalize())),
            Self::Xxh3(hasher, stored) => ("XXH3-64", xxh3_text(stored), xxh3_text(hasher.finish())),
        };
        Checksum { algorithm, covers, matches: stored == computed, stored, computed }
    }
}

/// XXH3-64 with seed 0.
pub(crate) struct Xxh3(XxHash3_64);

impl Default for Xxh3 {
    fn default() -> Self {
        Self(XxHash3_64::with_seed(0))
    }
}

impl Xxh3 {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        std::hash::Hasher::write(&mut self.0, bytes);
    }

    pub(crate) fn finish(&self) -> u64 {
        std::hash::Hasher::finish(&self.0)
    }
}

/// As a HEF stores it: big-endian. `HailoRT`'s `Hef::hash` prints these bytes in reverse on x86.
pub(crate) fn xxh3_text(hash: u64) -> String {
    format!("{hash:016x}")
}
