//! HEF files (compiled models of Hailo chips), read without any vendor software.
//!
//! What can be read is described as plain data; what is odd is a [`Finding`]; only what makes the rest unreadable is an
//! error. Nothing is allocated from a size in the file before it was checked against the file, and what lies outside of the
//! protobuf (weights, resources) is only ever streamed through a small buffer.

mod ccws;
mod checksum;
mod container;
mod description;
mod edges;
mod error;
mod extensions;
mod finding;
mod group;
mod judge;
mod outputs;
#[expect(clippy::large_enum_variant, reason = "generated")]
mod proto;
mod resource;
mod scan;
mod source;
mod stream;
mod target;
mod wire;

use std::{
    fs::File,
    io::{Read, Seek},
    path::Path,
};

use prost::{Message, bytes::Bytes};

pub use ccws::Ccws;
pub use checksum::Checksum;
pub use container::Container;
pub use description::Description;
pub use edges::EdgeCounts;
pub use error::HefError;
pub use extensions::{Extension, Extensions};
pub use finding::{Finding, FindingKind, Severity};
pub use group::{Group, GroupSource};
pub use resource::Resource;
pub use stream::{CacheEdge, Direction, Layout, Quantisation, Stream};
pub use target::{Compiler, Target};

pub(crate) use checksum::Xxh3;
pub(crate) use finding::quoted;
pub(crate) use source::Source;

use checksum::{Running, Stored};
use container::Header;
use finding::Findings;
use group::Setting;
use scan::Scan;

/// An open HEF: what it says, and the file for whoever wants to read a resource.
pub struct Hef<R> {
    description: Description,
    source: Source<R>,
}

impl Hef<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read as a HEF.
    pub fn open(path: &Path) -> Result<Self, HefError> {
        let file = File::open(path).map_err(|source| HefError::Io { action: "open the file", source })?;
        Self::read(file)
    }
}

impl<R: Read + Seek> Hef<R> {
    /// Reads a HEF from its first byte to its last, once (resources twice).
    ///
    /// # Errors
    /// It cannot be read as a HEF.
    pub fn read(file: R) -> Result<Self, HefError> {
        let mut source = Source::new(file)?;
        let mut header = Header::read(&mut source)?;
        let proto = source.read(header.container.header_bytes, header.container.proto_bytes as usize)?;
        let (checksums, padding_nonzero_bytes) = checksums(&header, &proto, &mut source)?;
        header.container.padding_nonzero_bytes = padding_nonzero_bytes;
        let checksum_fails = checksums.iter().any(|checksum| !checksum.matches);
        let (hef, unknown_fields) = decode(proto, checksum_fails)?;
        let description = Description::of(hef, unknown_fields, header.container, checksums, &mut source)?;
        Ok(Self { description, source })
    }

    /// What the file says.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Description and file, apart.
    pub(crate) fn parts(&mut self) -> (&Description, &mut Source<R>) {
        (&self.description, &mut self.source)
    }

    /// The file alone.
    pub(crate) fn into_source(self) -> Source<R> {
        self.source
    }
}

/// Every checksum, and how many bytes of the padding are not zero, in one pass over what follows the protobuf.
fn checksums<R: Read + Seek>(
    header: &Header,
    proto: &[u8],
    source: &mut Source<R>,
) -> Result<(Vec<Checksum>, Option<u64>), HefError> {
    let container = &header.container;
    let mut checksums = Vec::new();
    let mut whole = header.whole.map(Running::begin);
    if let Some(whole) = &mut whole {
        whole.update(proto);
    }
    let start = container.header_bytes + container.proto_bytes;
    let mut padding_left = container.padding_bytes;
    let mut nonzero = 0_u64;
    source.stream(start, container.file_bytes(), |bytes| {
        if let Some(whole) = &mut whole {
            whole.update(bytes);
        }
        let padding = bytes.len().min(usize::try_from(padding_left).unwrap_or(usize::MAX));
        nonzero += bytes[..padding].iter().filter(|byte| **byte != 0).count() as u64;
        padding_left -= padding as u64;
    })?;
    checksums.extend(whole.map(|whole| whole.finish("whole")));
    if let Some(stored) = header.proto {
        let mut running = Running::begin(Stored::Xxh3(stored));
        running.update(proto);
        checksums.push(running.finish("proto"));
    }
    let whole_padding = container.padding_bytes > 0 && padding_left == 0;
    Ok((checksums, whole_padding.then_some(nonzero)))
}

/// The protobuf, measured before it is decoded, and how many of its fields nobody knows.
fn decode(proto: Vec<u8>, checksum_fails: bool) -> Result<(proto::Hef, u64), HefError> {
    let fail = |reason: String| HefError::ProtoDecode { reason, checksum_fails };
    let scan = Scan::of(&proto).map_err(|error| fail(error.to_string()))?;
    let hef = proto::Hef::decode(Bytes::from(proto)).map_err(|error| fail(error.to_string()))?;
    Ok((hef, scan.unknown_fields))
}

impl Description {
    fn of<R: Read + Seek>(
        mut hef: proto::Hef,
        mut unknown_fields: u64,
        container: Container,
        checksums: Vec<Checksum>,
        source: &mut Source<R>,
    ) -> Result<Self, HefError> {
        let mut findings = Findings::default();
        let mut header = hef.header.take().unwrap_or_default();
        let target = Target::of(&header, &mut findings);
        let extensions = Extensions::of(&mut hef, header.version, &mut findings);
        let compiler = Compiler::of(&mut header);
        let mut setting = Setting {
            target: &target,
            extensions: &extensions,
            ccws_bytes: container.ccws_bytes,
            unknown_fields: &mut unknown_fields,
            findings: &mut findings,
        };
        let groups = std::mem::take(&mut hef.network_groups)
            .into_iter()
            .map(|group| Group::of(group, &mut setting))
            .collect::<Result<Vec<_>, _>>()?;
        let resources = resource::resources(hef.external_resources, &container, source, &mut findings)?;
        description::judge(&container, &groups, unknown_fields, &mut findings);
        Ok(Self {
            size_bytes: source.size(),
            container,
            checksums,
            compiler,
            target,
            extensions,
            groups,
            resources,
            unknown_fields,
            findings: findings.finish(),
        })
    }
}
