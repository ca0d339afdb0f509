//! The header of a GGUF file, version 2 or 3, checked before anything is sized by it.
//!
//! Candle's own reader is not used for it: it divides by an alignment of zero and keeps the last of two equal names.
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>

use std::collections::BTreeMap;

use candle_core::quantized::GgmlDType;

use super::{
    cursor::Cursor,
    tensor_kind::{readable_kinds, tensor_kind},
    value::{Kind, Value},
};
use crate::CheckpointError;

const MAX_DIMENSIONS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;
/// Key length, a character, value type, a byte.
const LEAST_ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;
/// Name length, a character, dimension count, one dimension, kind, offset.
const LEAST_TENSOR_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// A whole header. Every tensor lies inside the file, and no two overlap.
pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, Info>,
    /// Where tensor data begins; offsets count from here.
    pub(super) data_start: u64,
}

/// One tensor.
pub(super) struct Info {
    pub(super) kind: GgmlDType,
    /// Slowest axis first, as in a Hugging Face checkpoint; the file has it the other way round.
    pub(super) shape: Vec<usize>,
    pub(super) offset: u64,
    pub(super) size_bytes: u64,
}

impl Header {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, CheckpointError> {
        check_magic(cursor)?;
        let tensor_count = count(cursor, "the tensor count", LEAST_TENSOR_BYTES)?;
        let entry_count = count(cursor, "the metadata count", LEAST_ENTRY_BYTES)?;
        let metadata = metadata(cursor, entry_count)?;
        let alignment = alignment(cursor, metadata.get("general.alignment"))?;
        let tensors = tensors(cursor, tensor_count, alignment)?;
        let data_start = cursor
            .position()
            .checked_next_multiple_of(alignment)
            .ok_or_else(|| cursor.fail(format!("`general.alignment` is {alignment}, more than any file holds")))?;
        check_places(cursor, &tensors, data_start)?;
        Ok(Self { metadata, tensors, data_start })
    }
}

fn check_magic(cursor: &mut Cursor<'_>) -> Result<(), CheckpointError> {
    let magic = cursor.bytes::<4>("the magic number")?;
    match &magic {
        b"GGUF" => {}
        b"FUGG" => return Err(big_endian(cursor)),
        b"vers" => return Err(cursor.fail("a Git LFS pointer, not the weights; run `git lfs pull` in its folder")),
        _ => {
            let shown = magic.escape_ascii();
            return Err(cursor.fail(format!(
                "begins with \"{shown}\", expected \"GGUF\": not a GGUF file (of a Hugging Face checkpoint, give the folder)"
            )));
        }
    }
    match cursor.u32("the version")? {
        2 | 3 => Ok(()),
        version if version.swap_bytes() <= 3 && version != 0 => Err(big_endian(cursor)),
        version => Err(cursor.fail(format!("GGUF version {version}, expected 2 or 3; convert the checkpoint again"))),
    }
}

fn big_endian(cursor: &Cursor<'_>) -> CheckpointError {
    cursor.fail("a big-endian GGUF file, which is not supported; convert the checkpoint again to little-endian")
}

/// A count of things that take at least `least` bytes each.
fn count(cursor: &mut Cursor<'_>, what: &str, least: u64) -> Result<u64, CheckpointError> {
    let count = cursor.u64(what)?;
    if count > cursor.remaining() / least {
        let size = cursor.size();
        return Err(cursor.fail(format!(
            "{what} is {count}, more than a file of {size} bytes holds: truncated or damaged; download it again"
        )));
    }
    Ok(count)
}

fn metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<BTreeMap<String, Value>, CheckpointError> {
    let mut metadata = BTreeMap::new();
    for index in 0..count {
        let key = cursor.name(&format!("the key of metadata entry {index}"))?;
        let value = Value::read(cursor, &key)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(cursor.fail(format!("`{key}` is in the metadata twice; download the file again")));
        }
    }
    Ok(metadata)
}

fn alignment(cursor: &Cursor<'_>, value: Option<&Value>) -> Result<u64, CheckpointError> {
    let whole = match value {
        None => return Ok(DEFAULT_ALIGNMENT),
        Some(Value::Whole { kind: Kind::U32, value }) => u64::try_from(*value).ok(),
        Some(_) => None,
    };
    whole.filter(|alignment| alignment.is_power_of_two() && *alignment >= 8).ok_or_else(|| {
        let found = value.map_or_else(String::new, |value| match value {
            Value::Whole { kind, value } => format!("{value} ({kind:?})"),
            other => other.to_string(),
        });
        cursor.fail(format!("`general.alignment` is {found}, expected a power of two from 8 on (U32)"))
    })
}

fn tensors(cursor: &mut Cursor<'_>, count: u64, alignment: u64) -> Result<BTreeMap<String, Info>, CheckpointError> {
    let mut tensors = BTreeMap::new();
    for index in 0..count {
        let name = cursor.name(&format!("the name of tensor {index}"))?;
        let info = info(cursor, &name, alignment)?;
        if tensors.insert(name.clone(), info).is_some() {
            return Err(cursor.fail(format!("tensor `{name}` is in it twice; download the file again")));
        }
    }
    Ok(tensors)
}

fn info(cursor: &mut Cursor<'_>, name: &str, alignment: u64) -> Result<Info, CheckpointError> {
    let what = format!("tensor `{name}`");
    let dimensions = cursor.u32(&what)?;
    if dimensions == 0 || dimensions > MAX_DIMENSIONS {
        return Err(cursor.fail(format!("{what} has {dimensions} dimensions, expected 1 to {MAX_DIMENSIONS}")));
    }
    let mut shape = (0..dimensions).map(|_| cursor.u64(&what)).collect::<Result<Vec<_>, _>>()?;
    shape.reverse();
    let number = cursor.u32(&what)?;
    let offset = cursor.u64(&what)?;
    let kind = tensor_kind(number).map_err(|shown| {
        cursor.fail(format!("{what} is stored as kind {shown}, expected one of {}", readable_kinds()))
    })?;
    if !offset.is_multiple_of(alignment) {
        return Err(cursor.fail(format!("{what} is at offset {offset}, expected a multiple of {alignment}")));
    }
    let size_bytes = size_bytes(&shape, kind).map_err(|reason| cursor.fail(format!("{what} {reason}")))?;
    let shape = shape.iter().map(|size| *size as usize).collect();
    Ok(Info { kind, shape, offset, size_bytes })
}

fn size_bytes(shape: &[u64], kind: GgmlDType) -> Result<u64, String> {
    if shape.contains(&0) {
        return Err(format!("has shape {shape:?}, expected no dimension of 0"));
    }
    let elements = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
    let block = kind.block_size() as u64;
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block) {
        return Err(format!("has rows of {row} values, expected a multiple of {block}, the block of {kind:?}"));
    }
    elements
        .and_then(|elements| (elements / block).checked_mul(kind.type_size() as u64))
        .ok_or_else(|| format!("has shape {shape:?}, whose size overflows"))
}

/// Refuses tensors that reach past the end of the file or into each other.
fn check_places(cursor: &Cursor<'_>, tensors: &BTreeMap<String, Info>, data_start: u64) -> Result<(), CheckpointError> {
    let mut places: Vec<_> = tensors.iter().map(|(name, info)| (info.offset, info.size_bytes, name)).collect();
    places.sort_unstable();
    let mut free = 0;
    for (offset, length, name) in places {
        if offset < free {
            return Err(cursor
                .fail(format!("tensor `{name}` at offset {offset} overlaps the one before, which ends at {free}")));
        }
        let end = offset.checked_add(length);
        if end.and_then(|end| end.checked_add(data_start)).is_none_or(|end| end > cursor.size()) {
            return Err(cursor.fail(format!(
                "tensor `{name}` takes {length} bytes at offset {offset}, past the file's end of {} bytes: truncated; download it again",
                cursor.size()
            )));
        }
        free = offset + length;
    }
    Ok(())
}
