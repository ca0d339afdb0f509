//! Measures a message before prost decodes it: two bytes of a file can ask for hundreds of bytes of memory.
//!
//! The table of messages is made from hef.proto by the build script.

use super::{
    proto,
    wire::{Fields, Value, WireError},
};

include!(concat!(env!("OUT_DIR"), "/schema.rs"));

struct Message {
    decoded_bytes: usize,
    fields: &'static [Field],
    /// Numbers that the public schema knows and that are not read, first to last.
    reserved: &'static [(u32, u32)],
}

struct Field {
    number: u32,
    kind: Kind,
    repeated: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Message(usize),
    Text,
    Bytes,
    Varint,
    Fixed32,
    Fixed64,
}

/// Messages inside messages, as many as protobuf itself accepts.
const MAX_DEPTH: u32 = 100;
/// Memory that a decoded protobuf may take. Twenty thousand edges, some 400 contexts of a language model, take half of it.
const MAX_DECODED_BYTES: u64 = 64 << 20;

/// Why a message will not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScanError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("field {number} has a value of another kind than hef.proto gives it")]
    OtherKind { number: u32 },
    #[error("messages inside messages more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("decoded it would take more than {MAX_DECODED_BYTES} bytes of memory")]
    TooLarge,
}

/// What was seen on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    decoded_bytes: u64,
    /// Fields that the public schema does not know.
    pub(super) unknown_fields: u64,
}

impl Scan {
    /// Walks the protobuf of a HEF.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, ScanError> {
        let mut scan = Self::default();
        scan.walk(&SCHEMA[HEF], bytes, 0)?;
        Ok(scan)
    }

    fn walk(&mut self, message: &Message, bytes: &[u8], depth: u32) -> Result<(), ScanError> {
        if depth > MAX_DEPTH {
            return Err(ScanError::TooDeep);
        }
        self.spend(message.decoded_bytes)?;
        for field in Fields::of(bytes) {
            let (number, value) = field?;
            match message.fields.iter().find(|field| field.number == number) {
                Some(field) => self.field(field, value, depth)?,
                None if message.reserved.iter().any(|(first, last)| (*first..=*last).contains(&number)) => {}
                None => self.unknown_fields += 1,
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, value: Value<'_>, depth: u32) -> Result<(), ScanError> {
        match (field.kind, value) {
            (Kind::Message(kind), Value::Bytes(bytes)) => self.walk(&SCHEMA[kind], bytes, depth + 1),
            (Kind::Text, Value::Bytes(bytes)) => self.spend(size_of::<String>() + bytes.len()),
            // A slice of what was read.
            (Kind::Bytes, Value::Bytes(_)) => self.spend(4 * size_of::<usize>()),
            (Kind::Varint, Value::Varint(_)) | (Kind::Fixed32, Value::Fixed32) => Ok(()),
            (Kind::Fixed64, Value::Fixed64) => self.spend(if field.repeated { 8 } else { 0 }),
            (Kind::Fixed64, Value::Bytes(packed)) if field.repeated => self.spend(packed.len()),
            _ => Err(ScanError::OtherKind { number: field.number }),
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ScanError> {
        self.decoded_bytes = self.decoded_bytes.saturating_add(bytes as u64);
        if self.decoded_bytes > MAX_DECODED_BYTES { Err(ScanError::TooLarge) } else { Ok(()) }
    }
}
