//! The header of a safetensors file, checked before anything is sized by it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    io::SeekFrom,
};

use safetensors::Dtype;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::Value;

use super::Source;
use crate::CheckpointError;

/// Headers above this are refused, as the safetensors library itself does.
pub(super) const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Where one tensor lies in its file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) start: u64,
    pub(super) size_bytes: usize,
}

/// Reads the header of a file of `size` bytes: every tensor's place, the places covering the data exactly once.
pub(super) fn read_header(
    source: &mut dyn Source,
    size: u64,
    file: &str,
) -> Result<BTreeMap<String, Place>, CheckpointError> {
    let fail = |reason: String| CheckpointError::File { file: file.to_owned(), reason };
    let header = header_bytes(source, size).map_err(fail)?;
    let entries: Entries = serde_json::from_slice(&header)
        .map_err(|error| fail(format!("its header is not a safetensors header: {error}; download it again")))?;
    let start = 8 + header.len() as u64;
    let (places, data_size) =
        placed(entries.0, start).map_err(|reason| fail(format!("{reason}; download it again")))?;
    let expected = start.saturating_add(data_size);
    if size != expected {
        let what = if size < expected { "truncated" } else { "followed by other bytes" };
        return Err(fail(format!("{size} bytes, but its header describes {expected}: {what}; download it again")));
    }
    Ok(places)
}

fn header_bytes(source: &mut dyn Source, size: u64) -> Result<Vec<u8>, String> {
    let io = |error: std::io::Error| format!("cannot be read: {error}");
    let mut head = vec![0; size.min(64) as usize];
    source.read_exact(&mut head).map_err(io)?;
    if head.starts_with(b"version https://git-lfs") {
        return Err("a Git LFS pointer, not the weights; run `git lfs pull` in the checkpoint's folder".into());
    }
    let Some(length) = head.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(format!("{size} bytes, too short for a safetensors file; download it again"));
    };
    if length > MAX_HEADER_BYTES || length > size - 8 {
        return Err(format!(
            "its header claims {length} bytes, the file has {size}: truncated or no safetensors file; download it again"
        ));
    }
    source.seek(SeekFrom::Start(8)).map_err(io)?;
    let mut header = vec![0; length as usize];
    source.read_exact(&mut header).map_err(io)?;
    Ok(header)
}

/// A tensor as the header writes it.
#[derive(Deserialize)]
struct Described {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// The header's tensors. JSON readers keep the last of two equal keys; here a repeated key is an error.
struct Entries(BTreeMap<String, Described>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of tensors")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
        let (mut entries, mut metadata) = (BTreeMap::new(), None);
        while let Some(key) = map.next_key::<String>()? {
            if key == "__metadata__" {
                if metadata.replace(map.next_value::<BTreeMap<String, String>>()?).is_some() {
                    return Err(M::Error::custom("`__metadata__` is in it twice"));
                }
                continue;
            }
            match entries.entry(key) {
                Entry::Vacant(vacant) => vacant.insert(map.next_value()?),
                Entry::Occupied(taken) => {
                    return Err(M::Error::custom(format!("tensor `{}` is in it twice", taken.key())));
                }
            };
        }
        Ok(Entries(entries))
    }
}

/// Places by name, and how many bytes they cover from `start` on, without overlap or hole.
fn placed(entries: BTreeMap<String, Described>, start: u64) -> Result<(BTreeMap<String, Place>, u64), String> {
    let mut ordered: Vec<_> = entries.into_iter().collect();
    ordered.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let (mut places, mut next) = (BTreeMap::new(), 0);
    for (name, Described { dtype, shape, data_offsets: (begin, end) }) in ordered {
        let wrong = |what: String| format!("tensor `{name}` has data_offsets [{begin}, {end}], {what}");
        let Ok(dtype) = serde_json::from_value::<Dtype>(Value::String(dtype.clone())) else {
            return Err(format!("tensor `{name}` has dtype \"{dtype}\", which is not a dtype of safetensors files"));
        };
        if end < begin {
            return Err(wrong("which end before they begin".into()));
        }
        if begin != next {
            let what = if begin < next { "which overlap the tensor before" } else { "which leave a hole" };
            return Err(wrong(format!("{what}: expected to begin at {next}")));
        }
        let elements = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        let bits = elements.and_then(|elements| elements.checked_mul(dtype.bitsize()));
        let Some(bits) = bits else {
            return Err(format!("tensor `{name}` has shape {shape:?}, whose size overflows"));
        };
        let size_bytes = bits / 8;
        if !bits.is_multiple_of(8) || (end - begin) != size_bytes as u64 {
            return Err(wrong(format!("expected {size_bytes} bytes for {dtype:?} of shape {shape:?}")));
        }
        next = end;
        let Some(start) = start.checked_add(begin) else { return Err(wrong("beyond any file".into())) };
        places.insert(name, Place { dtype, shape, start, size_bytes });
    }
    Ok((places, next))
}
