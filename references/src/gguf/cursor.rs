//! Reading a file front to back, never past its end and never into a buffer larger than what is left of it.

use std::{
    fs::File,
    io::{BufReader, Read},
};

use crate::CheckpointError;

/// Keys and tensor names above this are refused; the format's own limit.
const MAX_NAME_BYTES: u64 = 65_535;

/// A place in a file of known size.
pub(super) struct Cursor<'a> {
    reader: BufReader<&'a File>,
    file: &'a str,
    position: u64,
    size: u64,
}

impl<'a> Cursor<'a> {
    /// At the beginning of `source`, which must stand there.
    pub(super) fn new(source: &'a File, size: u64, file: &'a str) -> Self {
        Self { reader: BufReader::new(source), file, position: 0, size }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn remaining(&self) -> u64 {
        self.size - self.position
    }

    pub(super) fn fail(&self, reason: impl Into<String>) -> CheckpointError {
        CheckpointError::File { file: self.file.to_owned(), reason: reason.into() }
    }

    pub(super) fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], CheckpointError> {
        self.must_hold(N as u64, what)?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|error| self.fail(format!("cannot be read: {error}")))?;
        self.position += N as u64;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, CheckpointError> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, CheckpointError> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    /// A key or a tensor's name.
    pub(super) fn name(&mut self, what: &str) -> Result<String, CheckpointError> {
        let length = self.u64(what)?;
        if length == 0 || length > MAX_NAME_BYTES {
            return Err(self.fail(format!(
                "{what} claims {length} bytes, expected 1 to {MAX_NAME_BYTES}: damaged; download it again"
            )));
        }
        let bytes = self.block(length, what)?;
        String::from_utf8(bytes).map_err(|_| self.fail(format!("{what} is not UTF-8; download the file again")))
    }

    /// A string value; real files hold some that are not UTF-8.
    pub(super) fn text(&mut self, what: &str) -> Result<String, CheckpointError> {
        let length = self.u64(what)?;
        Ok(String::from_utf8_lossy(&self.block(length, what)?).into_owned())
    }

    /// Passes over `count` strings.
    pub(super) fn skip_texts(&mut self, count: u64, what: &str) -> Result<(), CheckpointError> {
        (0..count).try_for_each(|_| {
            let length = self.u64(what)?;
            self.skip(length, what)
        })
    }

    pub(super) fn skip(&mut self, length: u64, what: &str) -> Result<(), CheckpointError> {
        self.must_hold(length, what)?;
        let offset = i64::try_from(length).map_err(|_| self.fail(format!("{what} claims {length} bytes")))?;
        self.reader.seek_relative(offset).map_err(|error| self.fail(format!("cannot be read: {error}")))?;
        self.position += length;
        Ok(())
    }

    /// Refuses `length` more bytes than there are.
    pub(super) fn must_hold(&self, length: u64, what: &str) -> Result<(), CheckpointError> {
        if length <= self.remaining() {
            return Ok(());
        }
        Err(self.fail(format!(
            "{what} claims {length} bytes at byte {}, but the file has {}: truncated or damaged; download it again",
            self.position, self.size
        )))
    }

    fn block(&mut self, length: u64, what: &str) -> Result<Vec<u8>, CheckpointError> {
        self.must_hold(length, what)?;
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes).map_err(|error| self.fail(format!("cannot be read: {error}")))?;
        self.position += length;
        Ok(bytes)
    }
}
