//! Metadata values.

use std::fmt;

use super::cursor::Cursor;
use crate::CheckpointError;

/// The type of a value, numbered as in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    List,
    U64,
    I64,
    F64,
}

const KINDS: [Kind; 13] = [
    Kind::U8,
    Kind::I8,
    Kind::U16,
    Kind::I16,
    Kind::U32,
    Kind::I32,
    Kind::F32,
    Kind::Bool,
    Kind::Text,
    Kind::List,
    Kind::U64,
    Kind::I64,
    Kind::F64,
];

impl Kind {
    fn read(cursor: &mut Cursor<'_>, what: &str) -> Result<Self, CheckpointError> {
        let number = cursor.u32(what)?;
        KINDS
            .get(number as usize)
            .copied()
            .ok_or_else(|| cursor.fail(format!("{what} has value type {number}, expected 0 to {}", KINDS.len() - 1)))
    }

    /// Bytes of one value; of strings and lists, the least.
    const fn size_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Text => 8,
            Self::List => 12,
        }
    }
}

/// A value. Of lists only the length is kept: nothing this program needs is inside one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Whole { kind: Kind, value: i128 },
    Real(f64),
    Flag(bool),
    Text(String),
    List { kind: Kind, count: u64 },
}

impl Value {
    pub(super) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Self, CheckpointError> {
        let what = format!("`{key}`");
        let kind = Kind::read(cursor, &what)?;
        let whole = |value| Self::Whole { kind, value };
        Ok(match kind {
            Kind::U8 => whole(u8::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::I8 => whole(i8::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::U16 => whole(u16::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::I16 => whole(i16::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::U32 => whole(u32::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::I32 => whole(i32::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::U64 => whole(u64::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::I64 => whole(i64::from_le_bytes(cursor.bytes(&what)?).into()),
            Kind::F32 => Self::Real(as_written(f32::from_le_bytes(cursor.bytes(&what)?))),
            Kind::F64 => Self::Real(f64::from_le_bytes(cursor.bytes(&what)?)),
            Kind::Bool => match cursor.bytes::<1>(&what)? {
                [0] => Self::Flag(false),
                [1] => Self::Flag(true),
                [other] => return Err(cursor.fail(format!("{what} is a boolean of {other}, expected 0 or 1"))),
            },
            Kind::Text => Self::Text(cursor.text(&what)?),
            Kind::List => list(cursor, &what)?,
        })
    }
}

/// Passes over a list.
fn list(cursor: &mut Cursor<'_>, what: &str) -> Result<Value, CheckpointError> {
    let kind = Kind::read(cursor, what)?;
    let count = cursor.u64(what)?;
    if kind == Kind::List {
        return Err(cursor.fail(format!("{what} is a list of lists, which no checkpoint needs; refused")));
    }
    let least = count
        .checked_mul(kind.size_bytes())
        .ok_or_else(|| cursor.fail(format!("{what} claims {count} values, more than any file holds")))?;
    cursor.must_hold(least, what)?;
    match kind {
        Kind::Text => cursor.skip_texts(count, what)?,
        _ => cursor.skip(least, what)?,
    }
    Ok(Value::List { kind, count })
}

/// The shortest decimal that is this float32: 1e-5 as config.json has it, not 0.000009999999747378752.
fn as_written(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { value, .. } => write!(formatter, "{value}"),
            Self::Real(value) => write!(formatter, "{value:?}"),
            Self::Flag(value) => write!(formatter, "{value}"),
            Self::Text(text) => write!(formatter, "{:?}", text.chars().take(60).collect::<String>()),
            Self::List { kind, count } => write!(formatter, "a list of {count} {kind:?}"),
        }
    }
}
