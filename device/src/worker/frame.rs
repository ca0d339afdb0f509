//! Frames: how worker and supervisor speak over a pipe.
//!
//! A frame is the four bytes `FIDW`, the lengths of header and payload (u32, little-endian), the header (JSON), the payload.

use std::io::{self, BufReader, Read, Write};

use serde::Serialize;

const MAGIC: [u8; 4] = *b"FIDW";
/// Bytes before the header.
const PREFIX_BYTES: usize = 12;
/// A prompt of 100,000 ids takes less than 1 MiB.
const MAX_HEADER_BYTES: u32 = 4 << 20;
/// A row of logits takes less than 1 MiB, an audit some hundred KiB.
pub(super) const MAX_PAYLOAD_BYTES: u32 = 64 << 20;
/// How much of what is no frame is shown.
const SHOWN_BYTES: usize = 160;

/// What went over the pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// JSON.
    pub header: Vec<u8>,
    /// Whatever the header says it is.
    pub payload: Vec<u8>,
}

/// What is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The pipe broke.
    #[error("the pipe broke: {0}")]
    Io(#[from] io::Error),
    /// Something else was written to the pipe.
    #[error(
        "no frame begins with `{begins}`; something else than fidelity and its worker writes to their pipe, such as a login script"
    )]
    Garbage {
        /// Its first bytes, as text.
        begins: String,
    },
    /// A length that no frame has.
    #[error("a frame's {part} of {bytes} bytes; {limit} are the most")]
    TooLarge {
        /// `header` or `payload`.
        part: &'static str,
        /// What it is said to have.
        bytes: u32,
        /// What is accepted.
        limit: u32,
    },
    /// The pipe ended inside a frame.
    #[error("the pipe ended inside a frame")]
    Cut,
    /// A header that cannot be read.
    #[error("a frame's header cannot be read: {0}")]
    Header(#[from] serde_json::Error),
}

/// Writes a frame and flushes.
///
/// # Errors
/// The pipe broke, or the frame would be too large.
pub fn write_frame(output: &mut dyn Write, header: &impl Serialize, payload: &[u8]) -> Result<(), FrameError> {
    let header = serde_json::to_vec(header)?;
    let header_bytes = length(header.len(), "header", MAX_HEADER_BYTES)?;
    let payload_bytes = length(payload.len(), "payload", MAX_PAYLOAD_BYTES)?;
    output.write_all(&MAGIC)?;
    output.write_all(&header_bytes.to_le_bytes())?;
    output.write_all(&payload_bytes.to_le_bytes())?;
    output.write_all(&header)?;
    output.write_all(payload)?;
    Ok(output.flush()?)
}

/// Reads the next frame; `None` where the pipe ends between frames.
///
/// # Errors
/// What comes is no frame.
pub fn read_frame<R: Read>(input: &mut BufReader<R>) -> Result<Option<Frame>, FrameError> {
    let mut prefix = Vec::with_capacity(PREFIX_BYTES);
    input.take(PREFIX_BYTES as u64).read_to_end(&mut prefix)?;
    if !MAGIC.starts_with(&prefix[..prefix.len().min(4)]) {
        // What has come already belongs to it and tells more than four bytes.
        prefix.extend_from_slice(input.buffer());
        prefix.truncate(SHOWN_BYTES);
        return Err(FrameError::Garbage { begins: crate::text::plain(&String::from_utf8_lossy(&prefix)) });
    }
    let &[_, _, _, _, a, b, c, d, e, f, g, h] = &prefix[..] else {
        return if prefix.is_empty() { Ok(None) } else { Err(FrameError::Cut) };
    };
    let header_bytes = length(u32::from_le_bytes([a, b, c, d]) as usize, "header", MAX_HEADER_BYTES)?;
    let payload_bytes = length(u32::from_le_bytes([e, f, g, h]) as usize, "payload", MAX_PAYLOAD_BYTES)?;
    Ok(Some(Frame { header: exactly(input, header_bytes)?, payload: exactly(input, payload_bytes)? }))
}

fn length(bytes: usize, part: &'static str, limit: u32) -> Result<u32, FrameError> {
    match u32::try_from(bytes) {
        Ok(bytes) if bytes <= limit => Ok(bytes),
        Ok(_) | Err(_) => Err(FrameError::TooLarge { part, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), limit }),
    }
}

/// Memory grows with what comes, not with what is announced.
fn exactly(input: &mut impl Read, bytes: u32) -> Result<Vec<u8>, FrameError> {
    let mut read = Vec::new();
    input.take(u64::from(bytes)).read_to_end(&mut read)?;
    if read.len() == bytes as usize { Ok(read) } else { Err(FrameError::Cut) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
        read_frame(&mut BufReader::new(bytes))
    }

    fn written(header: &str, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &header, payload).expect("writes");
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = [written("one", &[1, 2, 3]), written("two", &[])].concat();
        let mut input = BufReader::new(&bytes[..]);
        let mut next = || read_frame(&mut input).expect("frames");
        assert_eq!(next(), Some(Frame { header: b"\"one\"".to_vec(), payload: vec![1, 2, 3] }));
        assert_eq!(next(), Some(Frame { header: b"\"two\"".to_vec(), payload: vec![] }));
        assert_eq!(next(), None);
    }

    #[test]
    fn the_layout_is_fixed() {
        assert_eq!(written("a", &[7]), *b"FIDW\x03\0\0\0\x01\0\0\0\"a\"\x07");
    }

    #[test]
    fn half_frames_are_errors_wherever_they_end() {
        let bytes = written("header", &[1, 2, 3]);
        for end in 1..bytes.len() {
            assert!(matches!(read(&bytes[..end]), Err(FrameError::Cut)), "{end}");
        }
    }

    #[test]
    fn other_text_is_shown_without_its_control_characters() {
        let error = read(b"Welcome to Debian\x1b[2J\nLast login: today").expect_err("no frame").to_string();
        assert!(error.contains("Welcome to Debian\\u{1b}[2J\\nLast login"), "{error}");
    }

    #[test]
    fn lengths_are_bounded_before_anything_is_read() {
        let header = read(b"FIDW\xff\xff\xff\xff\0\0\0\0").expect_err("too large").to_string();
        assert_eq!(header, "a frame's header of 4294967295 bytes; 4194304 are the most");
        let payload = read(b"FIDW\0\0\0\0\x01\0\0\x04").expect_err("too large").to_string();
        assert_eq!(payload, "a frame's payload of 67108865 bytes; 67108864 are the most");
    }
}
