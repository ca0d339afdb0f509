//! The header of the .npy format.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>. The header is a Python dictionary of three
//! keys, written as text; only what numpy itself writes there is read.

use std::io::Read;

use super::{
    array::{Dtype, Header, Values},
    error::shown,
};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The longest header that numpy reads.
const MAX_HEADER: usize = 10_000;

/// Reads the header of an array that is stored in `size` bytes, and checks the size of its data against them.
pub(crate) fn read_header(reader: &mut dyn Read, size: u64) -> Result<Header, String> {
    let mut take = |len: usize| {
        let mut bytes = vec![0; len];
        reader.read_exact(&mut bytes).map(|()| bytes).map_err(|error| format!("not a whole .npy array: {error}"))
    };
    let start = take(8)?;
    if start[..6] != MAGIC[..] {
        return Err("not an .npy array: it does not start with \\x93NUMPY".into());
    }
    let (prefix, header_len) = match start[6] {
        1 => (10, usize::from(u16::from_le_bytes(four_or_two(&take(2)?)))),
        2 | 3 => (12, u32::from_le_bytes(four_or_two(&take(4)?)) as usize),
        other => return Err(format!("version {other} of the .npy format, expected 1, 2 or 3")),
    };
    if header_len > MAX_HEADER || (prefix + header_len) as u64 > size {
        return Err(format!(
            "its header claims {header_len} bytes, expected at most {MAX_HEADER} and no more than there are"
        ));
    }
    let text = String::from_utf8(take(header_len)?).map_err(|_| "its header is not text".to_owned())?;
    let header = parse(&text)?;
    let (claimed, found) = (header.data_bytes()?, size - (prefix + header_len) as u64);
    if claimed != found {
        let shape = &header.shape;
        return Err(format!(
            "its header claims shape {shape:?} ({claimed} bytes of data), but there are {found} bytes"
        ));
    }
    Ok(header)
}

/// Reads a whole array that is stored in `size` bytes.
pub(crate) fn read(reader: &mut dyn Read, size: u64) -> Result<Values, String> {
    read_header(reader, size)?.read(reader)
}

fn four_or_two<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// The dictionary, `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse(text: &str) -> Result<Header, String> {
    let wrong = || format!("its header is not one that numpy writes: `{}`", shown(text.trim()));
    let (mut dtype, mut fortran, mut shape) = (None, None, None);
    let mut rest = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(wrong)?.trim();
    while !rest.is_empty() {
        let (key, after) = quoted(rest).ok_or_else(wrong)?;
        let after = after.trim_start().strip_prefix(':').ok_or_else(wrong)?.trim_start();
        let after = match key {
            "descr" if after.starts_with('[') => {
                return Err("a structured dtype (fields with names); save each field as an array of its own".into());
            }
            "descr" => {
                let (descriptor, after) = quoted(after).ok_or_else(wrong)?;
                dtype = Some(Dtype::of_npy(descriptor)?);
                after
            }
            "fortran_order" => {
                let (value, after) = match (after.strip_prefix("True"), after.strip_prefix("False")) {
                    (Some(after), _) => (true, after),
                    (_, Some(after)) => (false, after),
                    _ => return Err(wrong()),
                };
                fortran = Some(value);
                after
            }
            "shape" => {
                let (inside, after) =
                    after.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(wrong)?;
                shape = Some(extents(inside).ok_or_else(wrong)?);
                after
            }
            _ => return Err(wrong()),
        };
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if after.is_empty() => after,
            None => return Err(wrong()),
        };
    }
    match (dtype, fortran, shape) {
        (Some((dtype, endian)), Some(fortran), Some(shape)) => Ok(Header { dtype, endian, fortran, shape }),
        _ => Err(wrong()),
    }
}

/// A quoted text at the start, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..].split_once(quote)
}

/// `3, 4`, `3,` or nothing.
fn extents(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|extent| extent.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::array::Endian;

    fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn error(bytes: &[u8]) -> String {
        read(&mut &*bytes, bytes.len() as u64).expect_err("refused")
    }

    #[test]
    fn headers_as_numpy_writes_them() {
        let header = "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }   \n";
        assert_eq!(
            parse(header),
            Ok(Header { dtype: Dtype::Float32, endian: Endian::Little, fortran: true, shape: vec![3, 4] })
        );
        assert_eq!(parse("{\"shape\":(5,),\"descr\":\">i8\",\"fortran_order\":False}").map(|it| it.shape), Ok(vec![5]));
        assert_eq!(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (), }").map(|it| it.shape), Ok(vec![]));
    }

    #[test]
    fn every_version_is_read() {
        let header = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }\n";
        for version in 1..=3 {
            let bytes = npy(version, header, &[1, 0, 2, 0]);
            let Ok(Values::Integers(values)) = read(&mut &*bytes, bytes.len() as u64) else { panic!("reads") };
            assert_eq!(values.as_slice(), Some(&[1, 2][..]));
        }
    }

    #[test]
    fn a_lie_about_sizes_is_found_before_anything_is_sized_by_it() {
        let of = |shape: &str, data: &[u8]| {
            error(&npy(1, &format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"), data))
        };
        assert!(of("(1000000, 1000)", &[0; 8]).contains("but there are 8 bytes"));
        assert!(of("(1,)", &[0; 8]).contains("but there are 8 bytes"));
        assert!(of("(99999999999, 99999999999)", &[0; 8]).contains("too many values"));
        assert!(of("(99999999999999999999999,)", &[0; 8]).contains("not one that numpy writes"));
        assert!(of("(-1,)", &[0; 8]).contains("not one that numpy writes"));
        let mut long = MAGIC.to_vec();
        long.extend([2, 0, 0xff, 0xff, 0xff, 0xff]);
        assert!(error(&long).contains("claims 4294967295 bytes"));
    }

    #[test]
    fn what_is_no_array_is_refused() {
        assert!(error(b"").contains("not a whole .npy array"));
        assert!(error(b"PK\x03\x04abcdefg").contains("does not start with"));
        assert!(error(&npy(9, "", b"")).contains("version 9"));
        for header in [
            "",
            "{",
            "{}",
            "[]",
            "{'descr': }",
            "{'descr': '<f4', 'x': 1}",
            "{'shape': (1,), 'fortran_order': 1, 'descr': '<f4'}",
            "{'descr': '<f4' 'shape': ()}",
            "{'é",
        ] {
            assert!(error(&npy(1, header, b"")).contains("not one that numpy writes"), "{header}");
        }
        let nested = format!("{{'shape': {}", "(".repeat(9000));
        assert!(error(&npy(1, &nested, b"")).contains("not one that numpy writes"));
        assert!(
            error(&npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", b""))
                .contains("structured")
        );
        assert!(error(&npy(1, "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"")).contains("pickle"));
    }
}
