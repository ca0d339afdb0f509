//! Reading a file of any size in small pieces.

use std::io::{Read, Seek, SeekFrom};

use super::HefError;

/// The most that is read at once of what is not kept.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// A file and its size.
pub(crate) struct Source<R> {
    inner: R,
    size: u64,
}

impl<R: Read + Seek> Source<R> {
    pub(crate) fn new(mut inner: R) -> Result<Self, HefError> {
        let size = inner
            .seek(SeekFrom::End(0))
            .map_err(|source| HefError::Io { action: "find the end of the file", source })?;
        Ok(Self { inner, size })
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// `length` bytes from `start`, which must be inside the file.
    pub(crate) fn read(&mut self, start: u64, length: usize) -> Result<Vec<u8>, HefError> {
        let end = start.checked_add(length as u64).ok_or(HefError::Overflow)?;
        if end > self.size {
            return Err(HefError::malformed("the file", format!("bytes {start} to {end} are outside of it")));
        }
        self.seek(start)?;
        let mut bytes = vec![0; length];
        self.inner.read_exact(&mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }

    /// Hands the bytes from `start` to `end` to `each` in pieces; returns how many there were before the end of the file.
    pub(crate) fn stream(&mut self, start: u64, end: u64, mut each: impl FnMut(&[u8])) -> Result<u64, HefError> {
        self.seek(start)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut at = start;
        while at < end {
            let wanted = usize::try_from(end - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let read = self.inner.read(&mut buffer[..wanted]).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            each(&buffer[..read]);
            at += read as u64;
        }
        Ok(at - start)
    }

    /// A reader of the bytes from `start` on, at most `length` of them.
    pub(crate) fn part(&mut self, start: u64, length: u64) -> Result<std::io::Take<&mut R>, HefError> {
        self.seek(start)?;
        Ok((&mut self.inner).take(length))
    }

    fn seek(&mut self, start: u64) -> Result<(), HefError> {
        self.inner.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        Ok(())
    }
}

fn unreadable(source: std::io::Error) -> HefError {
    HefError::Io { action: "read the file", source }
}
