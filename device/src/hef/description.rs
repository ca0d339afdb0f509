//! All that a HEF says, as plain data.

use serde::Serialize;

use super::{
    Checksum, Compiler, Container, Extensions, Finding, FindingKind, Group, Resource, Severity, Target,
    finding::{Findings, quoted},
};

/// All that a HEF says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// Size of the file, in bytes.
    pub size_bytes: u64,
    /// What lies where.
    pub container: Container,
    /// Its checksums, as stored and as computed.
    pub checksums: Vec<Checksum>,
    /// What compiled it.
    pub compiler: Compiler,
    /// What it was compiled for.
    pub target: Target,
    /// What it demands of the library that runs it.
    pub extensions: Extensions,
    /// Its network groups, in file order.
    pub groups: Vec<Group>,
    /// Its resources, in file order.
    pub resources: Vec<Resource>,
    /// Fields of the protobuf that the public schema does not have.
    pub unknown_fields: u64,
    /// What is odd or wrong, worst first.
    pub findings: Vec<Finding>,
}

impl Description {
    /// The first resource of a name, which is the one that `HailoRT` reads.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.name == name)
    }

    /// Findings of a severity.
    pub fn findings_of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }
}

/// What shows only when the whole file is looked at.
pub(super) fn judge(container: &Container, groups: &[Group], unknown_fields: u64, findings: &mut Findings) {
    if container.unchecked_by_hailort {
        findings.note(FindingKind::UncheckedByHailort, "the file", || {
            "a version 3 file with a hash of its protobuf: HailoRT 5.2 checks neither its magic number, nor its length, nor \
             anything but the protobuf; weights and resources are checked here alone"
                .into()
        });
    }
    if unknown_fields > 0 {
        findings.note(FindingKind::UnknownFields, "the protobuf", || {
            format!("{unknown_fields} fields that HailoRT 5.2's schema does not have were ignored, as HailoRT does")
        });
    }
    if container.padding_nonzero_bytes.is_some_and(|count| count > 0) {
        findings.warning(FindingKind::NonzeroPadding, "the padding", || {
            let count = container.padding_nonzero_bytes.unwrap_or_default();
            format!("{count} of {} bytes are not zero; no known compiler writes such", container.padding_bytes)
        });
    }
    if groups.is_empty() {
        findings.error(FindingKind::NoGroups, "the file", || "there is no network group: nothing can be run".into());
    }
    let mut names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    names.sort_unstable();
    for pair in names.windows(2).filter(|pair| pair[0] == pair[1]) {
        findings.error(FindingKind::DuplicateGroup, &format!("group {}", quoted(pair[0])), || {
            "another group has the same name; HailoRT refuses the file (INVALID_OPERATION)".into()
        });
    }
    judge_ccws(container, groups, findings);
}

fn judge_ccws(container: &Container, groups: &[Group], findings: &mut Findings) {
    let length = container.ccws_bytes;
    for group in groups {
        let place = format!("group {}", quoted(&group.name));
        let ccws = &group.ccws;
        let (wrong, count) = if container.version == 0 { ("point at", ccws.pointers) } else { ("hold", ccws.inline) };
        if count > 0 {
            findings.error(FindingKind::CcwKind, &place, || {
                let version = container.version;
                format!(
                    "{count} actions {wrong} ccws, which container version {version} does not have; HailoRT refuses the file \
                     (INVALID_HEF)"
                )
            });
        } else if ccws.out_of_range > 0 {
            findings.error(FindingKind::CcwOutOfRange, &place, || {
                let (wrong, all) = (ccws.out_of_range, ccws.pointers);
                format!(
                    "{wrong} of {all} pointers end after the {length} bytes of ccws; reading them fails on the device"
                )
            });
        }
        if !group.post_processing.is_empty() {
            findings.note(FindingKind::PostProcessing, &place, || {
                "the outputs listed are those of the chip; post-processing on the host replaces them".into()
            });
        }
    }
    let furthest = groups.iter().map(|group| group.ccws.furthest_end).max().unwrap_or_default();
    if container.version > 0 && furthest < length {
        findings.warning(FindingKind::CcwLength, "the ccws", || {
            format!("{length} bytes, but the last pointer ends at {furthest}; in every known file these are equal")
        });
    }
}
