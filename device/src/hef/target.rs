//! Which chips a HEF was compiled for, and by what.

use serde::Serialize;

use super::{
    finding::{FindingKind, Findings},
    proto,
};

/// What the file was compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// `hw_arch` in the file.
    pub code: u32,
    /// Its name; absent when it is not known.
    pub name: Option<&'static str>,
    /// Devices that `HailoRT` 5.2 accepts it on.
    pub compatible: Vec<&'static str>,
}

/// What compiled the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compiler {
    /// Version as text, as stored.
    pub version_text: String,
    /// Version as numbers; 0.0.0 in files of container versions 0 to 2.
    pub version: [u32; 3],
    /// When, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Version of the protobuf's content (not of the container).
    pub content_version: u64,
}

/// Code, name and devices, as `HailoRT` 5.2 has them.
const ARCHITECTURES: [(u32, &str, &[&str]); 14] = [
    (0, "HAILO8", &["HAILO8"]),
    (1, "HAILO8P", &["HAILO8"]),
    (2, "HAILO8R", &["HAILO8"]),
    (3, "HAILO8L", &["HAILO8L", "HAILO8"]),
    (4, "HAILO15M", &["HAILO15M", "HAILO15H", "HAILO10H"]),
    (6, "HAILO15L", &["HAILO15L"]),
    (100, "SAGE_A0", &["HAILO8_A0"]),
    (101, "SAGE_B0", &["HAILO8"]),
    (102, "PAPRIKA_B0", &["HAILO8"]),
    (103, "HAILO1XH", &["HAILO15H", "HAILO10H"]),
    (104, "GINGER", &["HAILO15H", "HAILO10H"]),
    (105, "LAVENDER", &["HAILO15H", "HAILO10H"]),
    (106, "PLUTO", &["HAILO15L"]),
    (108, "MARS", &["HAILO12L"]),
];
/// Gone from the schema in `HailoRT` 5.1.
const OLD_HAILO10H: u32 = 5;

impl Target {
    pub(super) fn of(header: &proto::Header, findings: &mut Findings) -> Self {
        let code = header.hw_arch;
        match ARCHITECTURES.into_iter().find(|(known, ..)| *known == code) {
            Some((_, name, devices)) => Self { code, name: Some(name), compatible: devices.to_vec() },
            None => {
                let old = if code == OLD_HAILO10H { " (HAILO10H up to HailoRT 5.0)" } else { "" };
                findings.warning(FindingKind::UnknownArchitecture, "the header", || {
                    format!(
                        "architecture {code}{old} is not known: HailoRT 5.2 opens the file, but no device accepts it \
                         (HEF_NOT_COMPATIBLE_WITH_DEVICE)"
                    )
                });
                Self { code, name: None, compatible: Vec::new() }
            }
        }
    }

    /// Has per-layout alternatives of its groups.
    pub(super) const fn has_layouts(&self) -> bool {
        matches!(self.code, 3 | 4)
    }
}

impl Compiler {
    pub(super) fn of(header: &mut proto::Header) -> Self {
        let version = header.sdk_version.unwrap_or_default();
        Self {
            version_text: std::mem::take(&mut header.sdk_version_str),
            version: [version.major, version.minor, version.revision],
            timestamp_ms: header.timestamp,
            content_version: header.version,
        }
    }
}
