//! The container: a header of big-endian integers, then the protobuf, padding, ccws and resources.

use std::io::{Read, Seek};

use serde::Serialize;

use super::{HefError, checksum::Stored, source::Source};

const MAGIC: [u8; 4] = [0x01, b'H', b'E', b'F'];
/// Magic, version and size of the protobuf.
const COMMON_BYTES: u64 = 12;
/// Real ones have kilobytes to a hundred megabytes (version 0, ccws inside).
const MAX_PROTO_BYTES: u64 = 512 << 20;

/// The container of a HEF: where what lies, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Container {
    /// Container version, 0 to 3.
    pub version: u32,
    /// Bytes of the header.
    pub header_bytes: u64,
    /// Bytes of the protobuf.
    pub proto_bytes: u64,
    /// Bytes of padding between protobuf and ccws.
    pub padding_bytes: u64,
    /// Padding bytes that are not zero; absent when there is no padding, or it is cut off.
    pub padding_nonzero_bytes: Option<u64>,
    /// Bytes of the ccws, without padding. 0 in version 0, where they are inside the protobuf.
    pub ccws_bytes: u64,
    /// Bytes of resources and what pads them.
    pub additional_info_bytes: u64,
    /// Where offsets of ccws and resources count from, in bytes from the start of the file. Absent in version 0.
    pub offset_zero_point: Option<u64>,
    /// Bytes after the header that its sizes add up to.
    pub expected_bytes: u64,
    /// Bytes after the header that there are.
    pub actual_bytes: u64,
    /// `HailoRT` opens this file without looking at magic, length, ccws or resources.
    pub unchecked_by_hailort: bool,
}

/// The header of a HEF and what it says of checksums.
pub(super) struct Header {
    pub(super) container: Container,
    pub(super) whole: Option<Stored>,
    pub(super) proto: Option<u64>,
}

impl Header {
    pub(super) fn read<R: Read + Seek>(source: &mut Source<R>) -> Result<Self, HefError> {
        let found = source.size();
        if found < COMMON_BYTES {
            return Err(HefError::TooShort { need: COMMON_BYTES, found });
        }
        let start = source.read(0, found.min(64) as usize)?;
        if start[..4] != MAGIC {
            return Err(HefError::NotAHef { begins: first_bytes(&start), hint: hint(&start) });
        }
        let mut words = Words(&start[4..]);
        let (version, proto_bytes) = (words.u32(), u64::from(words.u32()));
        let header_bytes = match version {
            0 => 32,
            1 => 28,
            2 => 44,
            3 => 56,
            _ => return Err(HefError::UnsupportedVersion { version }),
        };
        if found < header_bytes {
            return Err(HefError::TooShort { need: header_bytes, found });
        }
        let header = Self::versioned(version, header_bytes, proto_bytes, found - header_bytes, &mut words)?;
        header.container.check()?;
        Ok(header)
    }

    fn versioned(version: u32, header: u64, proto: u64, actual: u64, words: &mut Words<'_>) -> Result<Self, HefError> {
        let mut container = Container {
            version,
            header_bytes: header,
            proto_bytes: proto,
            padding_bytes: 0,
            padding_nonzero_bytes: None,
            ccws_bytes: 0,
            additional_info_bytes: 0,
            offset_zero_point: None,
            expected_bytes: proto,
            actual_bytes: actual,
            unchecked_by_hailort: false,
        };
        let (mut whole, mut proto_hash) = (None, None);
        match version {
            0 => {
                words.u32();
                whole = Some(Stored::Md5(words.bytes()));
            }
            1 => {
                whole = Some(Stored::Crc32(words.u32()));
                container.ccws_bytes = words.u64();
            }
            2 => {
                whole = Some(Stored::Xxh3(words.u64()));
                container.ccws_bytes = words.u64();
            }
            _ => {
                whole = whole.or(Some(Stored::Xxh3(words.u64())));
                let with_padding = words.u64();
                container.padding_bytes = u64::from(words.u32());
                container.additional_info_bytes = words.u64();
                proto_hash = Some(words.u64()).filter(|hash| *hash != 0);
                container.unchecked_by_hailort = proto_hash.is_some();
                container.ccws_bytes = with_padding.checked_sub(container.padding_bytes).ok_or_else(|| {
                    let padding = container.padding_bytes;
                    let reason = format!(
                        "{padding} bytes of padding are more than the {with_padding} bytes of ccws with padding"
                    );
                    HefError::malformed("the header", reason)
                })?;
            }
        }
        let sections = [container.padding_bytes, container.ccws_bytes, container.additional_info_bytes];
        container.expected_bytes = sections
            .iter()
            .try_fold(proto, |sum, bytes| sum.checked_add(*bytes))
            .filter(|sum| sum.checked_add(header).is_some())
            .ok_or(HefError::Overflow)?;
        container.offset_zero_point = (version > 0).then_some(header + proto + container.padding_bytes);
        Ok(Self { container, whole, proto: proto_hash })
    }
}

impl Container {
    fn check(&self) -> Result<(), HefError> {
        let (bytes, found) = (self.proto_bytes, self.actual_bytes);
        if bytes == 0 {
            return Err(HefError::malformed("the header", "the protobuf has 0 bytes: there is no network group"));
        }
        if bytes > found {
            return Err(HefError::TruncatedProto { need: bytes, found });
        }
        if bytes > MAX_PROTO_BYTES {
            return Err(HefError::ProtoTooLarge { bytes, limit: MAX_PROTO_BYTES });
        }
        Ok(())
    }

    /// Where the file ends, in bytes from its start.
    pub(crate) const fn file_bytes(&self) -> u64 {
        self.header_bytes + self.actual_bytes
    }
}

/// Big-endian integers, one after the other, in a header that is long enough.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (word, rest) = self.0.split_first_chunk().map_or(([0; N], &[][..]), |(word, rest)| (*word, rest));
        self.0 = rest;
        word
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes())
    }
}

fn first_bytes(start: &[u8]) -> String {
    start[..4].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// What a file that is no HEF may be.
fn hint(start: &[u8]) -> &'static str {
    let text = start.trim_ascii_start();
    if start.starts_with(b"version https://git-lfs") {
        "; it is a Git LFS pointer, not the file: run `git lfs pull`"
    } else if text.starts_with(b"{") || text.starts_with(b"[") {
        "; it looks like JSON"
    } else if text.starts_with(b"<") {
        "; it looks like a web page: download the file itself"
    } else if start.starts_with(&[0x1f, 0x8b]) {
        "; it is a gzip file: unpack it"
    } else if start.starts_with(b"PK") {
        "; it is a zip file: unpack it (a .har holds no HEF until it is compiled)"
    } else if start.iter().all(|byte| *byte == 0) {
        "; it begins with zeros, as a download that was not finished does"
    } else {
        ""
    }
}
