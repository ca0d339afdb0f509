//! Reading and auditing what the writers wrote.

use std::io::Cursor;

use fidelity_device::{
    audit::{Audit, Check, CheckId, audit as run},
    hef::{Description, Finding, FindingKind, Hef, HefError},
};

pub(crate) fn read(bytes: Vec<u8>) -> Result<Description, HefError> {
    Hef::read(Cursor::new(bytes)).map(|hef| hef.description().clone())
}

/// The file's description, where it can be read.
pub(crate) fn description(bytes: Vec<u8>) -> Description {
    read(bytes).expect("readable")
}

pub(crate) fn audit(bytes: Vec<u8>) -> Audit {
    run(&mut Hef::read(Cursor::new(bytes)).expect("readable"), None).expect("readable")
}

/// What makes the file unreadable.
pub(crate) fn error(bytes: Vec<u8>) -> String {
    read(bytes).expect_err("unreadable").to_string()
}

pub(crate) fn check(audit: &Audit, id: CheckId) -> &Check {
    audit.checks.iter().find(|check| check.id == id).expect("every check is in every audit")
}

/// The one finding of a kind.
pub(crate) fn finding(description: &Description, kind: FindingKind) -> &Finding {
    let found: Vec<_> = description.findings.iter().filter(|finding| finding.kind == kind).collect();
    match found[..] {
        [one] => one,
        _ => panic!("{kind:?}: {found:?} among {:?}", description.findings),
    }
}

pub(crate) fn kinds(description: &Description) -> Vec<FindingKind> {
    description.findings.iter().map(|finding| finding.kind).collect()
}
