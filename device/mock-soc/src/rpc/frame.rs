//! Frames: 2068 bytes, a header of five little-endian numbers and a body of up to 2048 bytes. Buffers follow bare.

use std::io::{self, Read, Write};

const MAGIC: u32 = 0x8A55_4432;
const HEADER_BYTES: usize = 20;
const BODY_BYTES: usize = 2048;
const FRAME_BYTES: usize = HEADER_BYTES + BODY_BYTES;

/// A frame.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) message: u32,
    pub(super) action: u32,
    pub(super) status: u32,
    pub(super) body: Vec<u8>,
}

impl Frame {
    /// Reads one.
    ///
    /// # Errors
    /// The link is closed, or what comes is no frame.
    pub(super) fn read(mut link: impl Read) -> io::Result<Self> {
        let mut bytes = [0; FRAME_BYTES];
        link.read_exact(&mut bytes)?;
        let (header, body) = bytes.split_at(HEADER_BYTES);
        let mut numbers = header.as_chunks::<4>().0.iter().map(|quad| u32::from_le_bytes(*quad));
        let mut next = || numbers.next().unwrap_or_default();
        let [magic, size, message, action, status] = [next(), next(), next(), next(), next()];
        let body = body.get(..size as usize).filter(|_| magic == MAGIC);
        let body = body.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a frame"))?.to_vec();
        Ok(Self { message, action, status, body })
    }

    /// Writes it and the buffers after it.
    pub(super) fn write(&self, mut link: impl Write, buffers: &[Vec<u8>]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(FRAME_BYTES);
        for number in [MAGIC, self.body.len() as u32, self.message, self.action, self.status] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(&self.body);
        bytes.resize(FRAME_BYTES, 0);
        link.write_all(&bytes)?;
        buffers.iter().try_for_each(|buffer| link.write_all(buffer))
    }
}
