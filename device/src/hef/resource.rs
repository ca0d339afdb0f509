//! Resources that a HEF carries beside the compiled model: embeddings, tokenizer, RoPE table, configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Seek},
};

use serde::Serialize;

use super::{
    Container, HefError,
    checksum::{Xxh3, xxh3_text},
    finding::{FindingKind, Findings, quoted},
    proto,
    source::Source,
};

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// From the zero point, in bytes.
    pub offset: u64,
    /// In bytes.
    pub size_bytes: u64,
    /// From the start of the file, in bytes; absent when it is not inside the file.
    pub file_offset: Option<u64>,
    /// XXH3-64 as stored; absent when the file holds none.
    pub stored_hash: Option<String>,
    /// XXH3-64 of its bytes; absent when it is not inside the file, or overlaps others so much that it was not read.
    pub computed_hash: Option<String>,
}

impl Resource {
    /// Whether hash and bytes agree; absent when either is.
    #[must_use]
    pub fn hash_matches(&self) -> Option<bool> {
        Some(self.stored_hash.as_ref()? == self.computed_hash.as_ref()?)
    }
}

pub(super) fn resources<R: Read + Seek>(
    list: Vec<proto::ExternalResource>,
    container: &Container,
    source: &mut Source<R>,
    findings: &mut Findings,
) -> Result<Vec<Resource>, HefError> {
    let mut resources = Vec::with_capacity(list.len());
    let mut names = BTreeSet::new();
    let mut hashes = Hashes { source, left: container.file_bytes().saturating_mul(2), known: BTreeMap::new() };
    for entry in list {
        let place = format!("resource {}", quoted(&entry.name));
        judge_name(&entry.name, &place, findings);
        if !names.insert(entry.name.clone()) {
            findings.warning(FindingKind::DuplicateResource, &place, || {
                "another resource of this name comes first, which is the one that HailoRT reads".into()
            });
        }
        let file_offset = inside(&entry, container);
        if file_offset.is_none() {
            let (offset, size, end) = (entry.offset, entry.size, container.file_bytes());
            findings.error(FindingKind::ResourceOutOfRange, &place, || {
                format!(
                    "offset {offset}, size {size}: not inside the file, which ends at byte {end}; HailoRT 5.2 reads past the \
                     end of its buffer"
                )
            });
        }
        let computed = match file_offset {
            Some(start) => hashes.of(start, entry.size)?,
            None => None,
        };
        resources.push(Resource {
            name: entry.name,
            offset: entry.offset,
            size_bytes: entry.size,
            file_offset,
            stored_hash: (entry.xxhash != 0).then(|| xxh3_text(entry.xxhash)),
            computed_hash: computed.map(xxh3_text),
        });
    }
    judge_overlap(&resources, container, findings);
    Ok(resources)
}

/// Hashes of parts of the file. Entries of a hostile file may point at the same bytes any number of times, so that no more
/// than twice the file is read for them.
struct Hashes<'a, R> {
    source: &'a mut Source<R>,
    left: u64,
    known: BTreeMap<(u64, u64), u64>,
}

impl<R: Read + Seek> Hashes<'_, R> {
    fn of(&mut self, start: u64, size: u64) -> Result<Option<u64>, HefError> {
        if let Some(hash) = self.known.get(&(start, size)) {
            return Ok(Some(*hash));
        }
        let Some(left) = self.left.checked_sub(size) else { return Ok(None) };
        self.left = left;
        let mut hasher = Xxh3::default();
        self.source.stream(start, start + size, |bytes| hasher.update(bytes))?;
        self.known.insert((start, size), hasher.finish());
        Ok(Some(hasher.finish()))
    }
}

/// Where a resource begins in the file, if all of it is in there.
fn inside(entry: &proto::ExternalResource, container: &Container) -> Option<u64> {
    let start = container.offset_zero_point?.checked_add(entry.offset)?;
    let end = start.checked_add(entry.size)?;
    (end <= container.file_bytes()).then_some(start)
}

fn judge_name(name: &str, place: &str, findings: &mut Findings) {
    let odd = matches!(name, "" | "." | "..") || name.contains(['/', '\\']);
    if odd || name.chars().any(char::is_control) {
        findings.warning(FindingKind::ResourceName, place, || {
            "an empty name, `..`, or one with `/` or control characters; do not use it as a path".into()
        });
    }
}

fn judge_overlap(resources: &[Resource], container: &Container, findings: &mut Findings) {
    let sized = |resource: &&Resource| resource.file_offset.is_some() && resource.size_bytes > 0;
    let mut ordered: Vec<_> = resources.iter().filter(sized).collect();
    ordered.sort_by_key(|resource| (resource.offset, resource.size_bytes));
    for resource in ordered.iter().filter(|resource| resource.offset < container.ccws_bytes) {
        findings.warning(FindingKind::ResourceOverlap, &format!("resource {}", quoted(&resource.name)), || {
            let (offset, ccws) = (resource.offset, container.ccws_bytes);
            format!("it begins at offset {offset}, inside the {ccws} bytes of ccws")
        });
    }
    let mut before: Option<&Resource> = None;
    for resource in ordered {
        if let Some(before) = before.filter(|before| before.offset + before.size_bytes > resource.offset) {
            findings.warning(FindingKind::ResourceOverlap, &format!("resource {}", quoted(&resource.name)), || {
                format!("it begins before resource {} ends", quoted(&before.name))
            });
        }
        let end = |resource: &Resource| resource.offset + resource.size_bytes;
        if before.is_none_or(|before| end(before) < end(resource)) {
            before = Some(resource);
        }
    }
}
