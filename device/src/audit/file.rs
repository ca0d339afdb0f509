//! Checks of the file itself. They hold of every HEF.

use crate::hef::{Container, Description, Finding, FindingKind, Severity};

use super::check::{Outcome, fail, not_applicable, pass};

pub(super) fn file_length(description: &Description) -> Outcome {
    let Container { expected_bytes, actual_bytes, version, .. } = description.container;
    let header = description.container.header_bytes;
    match actual_bytes.cmp(&expected_bytes) {
        std::cmp::Ordering::Equal => pass(format!("{} bytes, as the header says", header + actual_bytes)),
        std::cmp::Ordering::Less => {
            let lost = expected_bytes - actual_bytes;
            fail(format!(
                "cut off: {actual_bytes} bytes after the header of version {version}, it says {expected_bytes}; {lost} are missing"
            ))
        }
        std::cmp::Ordering::Greater => {
            let left = actual_bytes - expected_bytes;
            fail(format!("{left} bytes follow what the header knows of ({expected_bytes} bytes)"))
        }
    }
}

pub(super) fn checksum(description: &Description, covers: &str) -> Outcome {
    match description.checksums.iter().find(|checksum| checksum.covers == covers) {
        None => not_applicable("the header holds none"),
        Some(checksum) => {
            let (algorithm, stored, computed) = (checksum.algorithm, &checksum.stored, &checksum.computed);
            match checksum.matches {
                true => pass(format!("{algorithm} {stored}")),
                false => fail(format!("{algorithm}: the header says {stored}, the bytes give {computed}")),
            }
        }
    }
}

pub(super) fn ccw_pointers(description: &Description) -> Outcome {
    let pointers: u64 = description.groups.iter().fold(0, |sum, group| sum.saturating_add(group.ccws.pointers));
    let wrong = first(description, &[FindingKind::CcwOutOfRange, FindingKind::CcwKind]);
    match wrong {
        Some(finding) => fail(told(finding)),
        None if pointers == 0 => not_applicable("no action points into the ccws"),
        None => pass(format!("{pointers} pointers, all inside {} bytes", description.container.ccws_bytes)),
    }
}

pub(super) fn resource_ranges(description: &Description) -> Outcome {
    let all = description.resources.len();
    match first(description, &[FindingKind::ResourceOutOfRange]) {
        Some(finding) => fail(told(finding)),
        None if all == 0 => not_applicable("the file has no resource"),
        None => pass(format!("{all} resources, all inside the file")),
    }
}

pub(super) fn resource_hashes(description: &Description) -> Outcome {
    let wrong = description.resources.iter().find(|resource| resource.hash_matches() == Some(false));
    if let Some(resource) = wrong {
        let (stored, computed) = (resource.stored_hash.as_deref(), resource.computed_hash.as_deref());
        return fail(format!(
            "resource {}: the file says XXH3-64 {}, the bytes give {}",
            crate::hef::quoted(&resource.name),
            stored.unwrap_or_default(),
            computed.unwrap_or_default(),
        ));
    }
    let stored = description.resources.iter().filter(|resource| resource.stored_hash.is_some()).count();
    let verified = description.resources.iter().filter(|resource| resource.hash_matches() == Some(true)).count();
    match (stored, verified) {
        (0, _) => not_applicable("no resource has a hash in the file"),
        (stored, verified) if verified < stored => {
            super::check::unknown(format!("{} resources could not be read", stored - verified))
        }
        (_, verified) => pass(format!("{verified} of {} resources have one, as stored", description.resources.len())),
    }
}

/// Every finding that is an error and has no check of its own.
pub(super) fn structure(description: &Description) -> Outcome {
    let own = [FindingKind::CcwOutOfRange, FindingKind::CcwKind, FindingKind::ResourceOutOfRange];
    let errors: Vec<_> =
        description.findings_of(Severity::Error).filter(|finding| !own.contains(&finding.kind)).collect();
    match errors[..] {
        [] => pass("no finding is an error"),
        [only] => fail(told(only)),
        [first, .., _] => fail(format!("{} errors; the first: {}", errors.len(), told(first))),
    }
}

fn first<'a>(description: &'a Description, kinds: &[FindingKind]) -> Option<&'a Finding> {
    description.findings.iter().find(|finding| kinds.contains(&finding.kind))
}

fn told(finding: &Finding) -> String {
    format!("{}: {}", finding.place, finding.message)
}
