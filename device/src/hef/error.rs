//! Why a file cannot be read as a HEF.

use std::io;

/// A file that cannot be read as a HEF. Whatever still can be read is a [`super::Finding`] instead.
#[derive(Debug, thiserror::Error)]
pub enum HefError {
    /// The file system said no.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// Too short to have a header.
    #[error("{found} bytes long, but a HEF header takes at least {need}; the file is empty or was cut off")]
    TooShort {
        /// Bytes of the header.
        need: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// Another kind of file.
    #[error("not a HEF: it begins with {begins}, a HEF with 01 48 45 46{hint}")]
    NotAHef {
        /// Its first bytes.
        begins: String,
        /// What it may be, and what to do.
        hint: &'static str,
    },
    /// A container version that is not known.
    #[error(
        "HEF container version {version}, but only 0 to 3 are known; HailoRT 5.2 refuses it too (HEF_NOT_SUPPORTED)"
    )]
    UnsupportedVersion {
        /// The version.
        version: u32,
    },
    /// The protobuf does not fit in the file.
    #[error(
        "the header gives the protobuf {need} bytes, but {found} follow it; the file was cut off or its header is damaged"
    )]
    TruncatedProto {
        /// Bytes the header gives it.
        need: u64,
        /// Bytes after the header.
        found: u64,
    },
    /// Sizes in the header add up to more than a file can have.
    #[error("the sizes in the header add up to more than 64 bits hold; the header is damaged")]
    Overflow,
    /// The protobuf is larger than any real one.
    #[error("the protobuf has {bytes} bytes, but above {limit} none is read")]
    ProtoTooLarge {
        /// Bytes of the protobuf.
        bytes: u64,
        /// What is accepted.
        limit: u64,
    },
    /// The protobuf cannot be decoded.
    #[error("the protobuf cannot be decoded: {reason}{}", if *.checksum_fails { "; its checksum does not match either: the file is damaged" } else { "" })]
    ProtoDecode {
        /// What is wrong.
        reason: String,
        /// Its checksum does not match.
        checksum_fails: bool,
    },
    /// Something that must be there is not, or contradicts itself.
    #[error("{place}: {reason}")]
    Malformed {
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
}

impl HefError {
    pub(super) fn malformed(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Malformed { place: place.into(), reason: reason.into() }
    }
}
