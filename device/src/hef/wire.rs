//! Protobuf's wire format, field by field, without decoding a message (<https://protobuf.dev/programming-guides/encoding/>).

/// A field's value as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Fixed32,
    Bytes(&'a [u8]),
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error("a field is cut off")]
    Cut,
    #[error("a number takes more than 64 bits")]
    LongNumber,
    #[error("field number 0")]
    FieldZero,
    #[error("wire type {0}, which no field of a HEF has")]
    WireType(u8),
}

/// The fields of a message in file order. Ends after the first error.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<(u32, Value<'a>), WireError> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| WireError::LongNumber)?;
        if number == 0 {
            return Err(WireError::FieldZero);
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            other => return Err(WireError::WireType(other as u8)),
        };
        Ok((number, value))
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(WireError::Cut)?;
            self.rest = rest;
            // The tenth byte holds one bit.
            if shift == 63 && *byte > 1 {
                return Err(WireError::LongNumber);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::LongNumber)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| WireError::Cut)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Cut)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Vec<Result<(u32, Value<'_>), WireError>> {
        Fields::of(bytes).collect()
    }

    #[test]
    fn each_wire_type_is_read() {
        let bytes = [0x08, 0xac, 0x02, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, b'h', b'i', 0x25, 1, 2, 3, 4];
        let expected = [
            Ok((1, Value::Varint(300))),
            Ok((2, Value::Fixed64)),
            Ok((3, Value::Bytes(b"hi"))),
            Ok((4, Value::Fixed32)),
        ];
        assert_eq!(fields(&bytes), expected);
        assert_eq!(fields(&[]), []);
    }

    #[test]
    fn every_cut_is_seen() {
        let bytes = [0x08, 0xac, 0x02, 0x1a, 2, b'h', b'i'];
        for (end, whole) in [(1, 0), (2, 0), (4, 1), (5, 1), (6, 1)] {
            let found = fields(&bytes[..end]);
            assert_eq!(found.last(), Some(&Err(WireError::Cut)), "{end}");
            assert_eq!(found.len(), whole + 1, "{end}");
        }
    }

    #[test]
    fn what_is_no_field_is_refused() {
        assert_eq!(fields(&[0x00, 1]), [Err(WireError::FieldZero)]);
        assert_eq!(fields(&[0x0b, 1]), [Err(WireError::WireType(3))]);
        let too_long = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(fields(&too_long), [Err(WireError::LongNumber)]);
        let longest = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(fields(&longest), [Ok((1, Value::Varint(u64::MAX)))]);
        assert_eq!(fields(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]), [Err(WireError::Cut)]);
    }
}
