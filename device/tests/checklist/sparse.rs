//! Files of many gigabytes.

use std::io::{self, Read, Seek, SeekFrom};

use fidelity_device::{
    audit::{CheckId, State, audit},
    hef::Hef,
};

use crate::support::check;
use fidelity_hef_writer::hef_writer::{HEADER_BYTES, Hef as Written, Resource};

/// A file whose beginning is given and whose rest is zeros, and how it is read.
struct Sparse {
    beginning: Vec<u8>,
    size: u64,
    at: u64,
    largest_read: usize,
    bytes_read: u64,
}

impl Read for &mut Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.largest_read = self.largest_read.max(buffer.len());
        let length = usize::try_from(self.size - self.at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let buffer = &mut buffer[..length];
        buffer.fill(0);
        let given = usize::try_from(self.at).ok().and_then(|at| self.beginning.get(at..)).unwrap_or_default();
        let length_given = given.len().min(length);
        buffer[..length_given].copy_from_slice(&given[..length_given]);
        self.at += length as u64;
        self.bytes_read += length as u64;
        Ok(length)
    }
}

impl Seek for &mut Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(back) => self.size.saturating_add_signed(back),
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

const GIGABYTE: u64 = 1 << 30;

/// The compiled weights have 3 GB and a resource 1 GB; none of it is ever held: the largest piece that is asked for at once is
/// far below a megabyte, and everything is read once, the resource twice.
#[test]
fn row_40_gigabytes_are_streamed_in_small_pieces() {
    let mut hef = Written::small();
    hef.resources = vec![Resource {
        offset: Some(3 * GIGABYTE),
        size: Some(GIGABYTE),
        hash: Some(0),
        ..Resource::new("some.bin", Vec::new())
    }];
    let mut beginning = hef.v3();
    let proto_bytes = u32::from_be_bytes(beginning[8..12].try_into().expect("4 bytes")) as usize;
    let zero_point = (HEADER_BYTES + proto_bytes).next_multiple_of(4096);
    let padding = (zero_point - HEADER_BYTES - proto_bytes) as u64;
    beginning[20..28].copy_from_slice(&(3 * GIGABYTE + padding).to_be_bytes());
    beginning[32..40].copy_from_slice(&GIGABYTE.to_be_bytes());
    beginning.truncate(zero_point);
    let size = zero_point as u64 + 4 * GIGABYTE;
    let mut file = Sparse { beginning, size, at: 0, largest_read: 0, bytes_read: 0 };
    let found = audit(&mut Hef::read(&mut file).expect("readable"), None).expect("readable");
    assert_eq!(check(&found, CheckId::FileLength).state, State::Pass);
    // The hash was written over a file of another size; that it is seen to differ proves that all was read.
    assert_eq!(check(&found, CheckId::FileChecksum).state, State::Fail);
    assert_eq!(check(&found, CheckId::ProtoChecksum).state, State::Pass);
    assert_eq!(found.hef.resources[0].size_bytes, GIGABYTE);
    assert!(file.largest_read <= 512 << 10, "{} bytes were asked for at once", file.largest_read);
    let read = file.bytes_read;
    assert!((size + GIGABYTE - 100..size + GIGABYTE + 4096).contains(&read), "{read}");
}
