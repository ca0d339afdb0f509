//! Reading protobuf, as little as is needed.

use fidelity_hef_writer::message::Message;

/// A message with an id: a handle.
pub(crate) fn handle(field: u64, id: u64) -> Message {
    Message::new().message(field, Message::new().number(1, id))
}

/// Fields: number, value of a varint or of 4 bytes, content.
fn fields(mut message: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let (value, content) = match key & 7 {
            0 => (varint(&mut message), &[][..]),
            2 => {
                let length = varint(&mut message) as usize;
                let (content, rest) = message.split_at(length);
                message = rest;
                (0, content)
            }
            5 => {
                let (bits, rest) = message.split_at(4);
                message = rest;
                (u64::from(u32::from_le_bytes(bits.try_into().expect("4 bytes"))), &[][..])
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value, content));
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a varint ends");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

/// A number; 0 where it is not written.
pub(crate) fn number(message: &[u8], field: u64) -> u64 {
    fields(message).iter().find(|(number, ..)| *number == field).map_or(0, |(_, value, _)| *value)
}

/// The contents of every field of this number.
pub(crate) fn repeated(message: &[u8], field: u64) -> Vec<&[u8]> {
    fields(message).into_iter().filter(|(number, ..)| *number == field).map(|(_, _, content)| content).collect()
}

/// The id of a handle.
pub(crate) fn handle_id(message: &[u8], field: u64) -> u64 {
    repeated(message, field).first().map_or(0, |content| number(content, 1))
}

/// A text.
pub(crate) fn text(message: &[u8], field: u64) -> String {
    repeated(message, field).first().map_or_else(String::new, |content| String::from_utf8_lossy(content).into_owned())
}
