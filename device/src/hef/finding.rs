//! What is odd or wrong in a file that can be read.

use std::collections::BTreeMap;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The model cannot be run as stored, or `HailoRT` refuses or breaks on it.
    Error,
    /// It may run, but not everywhere or not as meant.
    Warning,
    /// A fact that a reader of the rest should know.
    Note,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident;)*) => {
        /// What was found. The names are stable: they are the `kind` of docs/AUDIT.md.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum FindingKind {
            $($(#[$doc])* $kind,)*
        }

        impl FindingKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }
    };
}

kinds! {
    /// `HailoRT` checks neither magic number, length nor content of this file.
    UncheckedByHailort;
    /// Fields that the public schema does not have.
    UnknownFields;
    /// Padding that is not zero.
    NonzeroPadding;
    /// A mandatory extension that `HailoRT` 5.2 does not know.
    UnsupportedExtension;
    /// Extension 26 is missing, without which `HailoRT` 5 refuses a file.
    MissingExtension26;
    /// The file runs only on the runtime version it was compiled for.
    StrictRuntimeVersion;
    /// An architecture code that is not known.
    UnknownArchitecture;
    /// No network group.
    NoGroups;
    /// Two groups of one name.
    DuplicateGroup;
    /// A name that is empty.
    EmptyName;
    /// A name longer than `HailoRT` accepts.
    LongName;
    /// A name with control characters.
    ControlCharacters;
    /// An edge without buffer indices.
    NoBufferIndices;
    /// A data format that is not known.
    UnknownFormat;
    /// Values of neither 1 nor 2 bytes.
    DataBytes;
    /// An edge of a network that the group does not have.
    NetworkIndex;
    /// Two inputs or outputs of one name.
    DuplicateBoundary;
    /// A scale or zero point that cannot be.
    Quantisation;
    /// Scales or zero points per feature, but not one a feature.
    FeatureCount;
    /// A dimension of 0, or a size that 64 bits do not hold.
    Dimensions;
    /// A value that does not fit the field of the hardware.
    HardwareLimit;
    /// A cache edge without a valid id or of the wrong type.
    CacheEdge;
    /// ccws inside the protobuf where pointers belong, or the other way round.
    CcwKind;
    /// A pointer to outside of the ccws.
    CcwOutOfRange;
    /// The ccws are not as long as the last pointer into them.
    CcwLength;
    /// A resource outside of the file.
    ResourceOutOfRange;
    /// A resource on top of another or of the ccws.
    ResourceOverlap;
    /// A resource name that no file should have.
    ResourceName;
    /// Two resources of one name.
    DuplicateResource;
    /// A context that gives itself another index than its place.
    ContextIndex;
    /// Names in the order of outputs that no output has.
    OutputOrder;
    /// Host post-processing that is not followed.
    PostProcessing;
}

/// One thing that is odd or wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is.
    pub kind: FindingKind,
    /// Where: a group, an edge, a resource.
    pub place: String,
    /// What was found, what was expected, what it leads to.
    pub message: String,
}

/// Findings of one kind that are told one by one; further ones are counted.
const TOLD_OF_A_KIND: usize = 16;

/// Findings as they are made, bounded however many a file has.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
    counts: BTreeMap<(Severity, FindingKind), usize>,
}

impl Findings {
    pub(super) fn error(&mut self, kind: FindingKind, place: &str, message: impl FnOnce() -> String) {
        self.add(Severity::Error, kind, place, message);
    }

    pub(super) fn warning(&mut self, kind: FindingKind, place: &str, message: impl FnOnce() -> String) {
        self.add(Severity::Warning, kind, place, message);
    }

    pub(super) fn note(&mut self, kind: FindingKind, place: &str, message: impl FnOnce() -> String) {
        self.add(Severity::Note, kind, place, message);
    }

    fn add(&mut self, severity: Severity, kind: FindingKind, place: &str, message: impl FnOnce() -> String) {
        let count = self.counts.entry((severity, kind)).or_default();
        *count += 1;
        if *count <= TOLD_OF_A_KIND {
            self.list.push(Finding { severity, kind, place: place.to_owned(), message: message() });
        }
    }

    /// The findings, worst first.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        for ((severity, kind), count) in self.counts {
            if let Some(more) = count.checked_sub(TOLD_OF_A_KIND).filter(|more| *more > 0) {
                let message = format!("{more} more of this kind");
                self.list.push(Finding { severity, kind, place: "the file".into(), message });
            }
        }
        self.list.sort_by_key(|finding| finding.severity);
        self.list
    }
}

/// Characters of a name that a message shows.
const SHOWN_CHARACTERS: usize = 160;

/// A name from a file, fit for a message: quoted, control characters written out, cut where it is absurdly long.
pub(crate) fn quoted(name: &str) -> String {
    let mut shown = String::from("`");
    for (at, character) in name.chars().enumerate() {
        if at == SHOWN_CHARACTERS {
            shown.push('…');
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown.push('`');
    shown
}
