//! Header, lengths and checksums.

use std::path::Path;

use fidelity_device::{
    audit::{CheckId, State},
    hef::{FindingKind, Hef, HefError, Severity},
};

use crate::support::{audit, check, description, error, finding, kinds, read};
use fidelity_hef_writer::{
    hef_writer::{HEADER_BYTES, Hef as Written, seal, xxh3},
    old_containers::{v0, v1, v2},
};

/// The small file in all four containers. Version 0 has its ccws inside, so that it has no pointers.
fn all_versions() -> [(u32, Vec<u8>); 4] {
    let hef = Written::small();
    let mut inline = hef.clone();
    inline.groups[0].contexts[0].ccws.clear();
    inline.groups[0].contexts[0].inline_ccws.push(vec![1, 2, 3]);
    [(0, v0(&inline)), (1, v1(&hef)), (2, v2(&hef)), (3, hef.v3())]
}

#[test]
fn sound_files_of_every_version_have_no_finding() {
    for (version, bytes) in all_versions() {
        let found = audit(bytes);
        assert_eq!(found.hef.container.version, version);
        assert_eq!(kinds(&found.hef), if version == 3 { vec![FindingKind::UncheckedByHailort] } else { vec![] });
        assert_eq!((found.outcome, found.exit_code), (State::NotApplicable, 0), "{version}");
        assert!(found.hef.checksums.iter().all(|checksum| checksum.matches), "{version}");
        assert_eq!(found.hef.checksums.len(), if version == 3 { 2 } else { 1 });
        let group = &found.hef.groups[0];
        assert_eq!(group.inputs[0].shape, [4, 4, 3]);
        let outputs: Vec<_> = group.outputs.iter().map(|output| output.name.as_str()).collect();
        assert_eq!(outputs, ["net/output2", "net/output1"]);
        assert_eq!((group.ccws.pointers, group.ccws.inline), if version == 0 { (0, 1) } else { (2, 0) });
    }
}

#[test]
fn row_01_a_file_that_cannot_be_opened() {
    for (path, expected) in [("/nowhere/model.hef", "cannot open the file"), ("/", "cannot")] {
        let error = Hef::open(Path::new(path)).err().expect("no file");
        assert!(matches!(error, HefError::Io { .. }) && error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn row_02_an_empty_file_and_row_03_a_cut_header() {
    for (_, bytes) in all_versions() {
        let header = [32, 28, 44, 56][bytes[7] as usize];
        for length in 0..header {
            let need = if length < 12 { 12 } else { header as u64 };
            match read(bytes[..length].to_vec()) {
                Err(HefError::TooShort { need: found, .. }) => assert_eq!(found, need, "{length}"),
                other => panic!("{length}: {other:?}"),
            }
        }
    }
}

#[test]
fn row_03_a_header_without_anything_after_it() {
    for (_, bytes) in all_versions() {
        let header = [32, 28, 44, 56][bytes[7] as usize];
        assert!(matches!(read(bytes[..header].to_vec()), Err(HefError::TruncatedProto { found: 0, .. })));
    }
}

#[test]
fn row_04_what_is_no_hef_is_told_from_what_it_looks_like() {
    let pad = |text: &[u8]| [text, &[b' '; 60]].concat();
    for (bytes, expected) in [
        (pad(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "`git lfs pull`"),
        (pad(b"{\"model\": \"mock\"}"), "looks like JSON"),
        (pad(b"\n  <!DOCTYPE html>"), "web page"),
        (pad(&[0x1f, 0x8b, 8, 0]), "gzip"),
        (pad(b"PK\x03\x04"), "zip"),
        (vec![0; 100], "not finished"),
        (pad(b"GGUF"), "begins with 47 47 55 46, a HEF with 01 48 45 46"),
    ] {
        let message = error(bytes);
        assert!(message.starts_with("not a HEF") && message.contains(expected), "{message}");
    }
    // HailoRT opens this one: it carries a hash of its protobuf.
    let mut bytes = Written::small().v3();
    bytes[0] ^= 0xff;
    assert!(matches!(read(bytes), Err(HefError::NotAHef { .. })));
}

#[test]
fn row_05_a_version_that_is_not_known() {
    for version in [4_u32, 0xffff_ffff] {
        let mut bytes = Written::small().v3();
        bytes[4..8].copy_from_slice(&version.to_be_bytes());
        assert!(matches!(read(bytes), Err(HefError::UnsupportedVersion { version: found }) if found == version));
    }
}

#[test]
fn row_07_a_protobuf_beyond_the_file_is_not_allocated() {
    for size in [0xffff_fff0_u32, 100_000] {
        for (_, mut bytes) in all_versions() {
            bytes[8..12].copy_from_slice(&size.to_be_bytes());
            match read(bytes) {
                Err(HefError::TruncatedProto { need, .. }) => assert_eq!(need, u64::from(size)),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn row_08_a_changed_protobuf_fails_its_checksum() {
    let mut bytes = Written::small().v3();
    // Inside the compiler's version.
    let at = bytes.windows(4).position(|four| four == b"sdk-").expect("there");
    bytes[at] = b'x';
    let found = audit(bytes);
    assert_eq!(check(&found, CheckId::ProtoChecksum).state, State::Fail);
    assert_eq!(check(&found, CheckId::FileChecksum).state, State::Fail);
    assert_eq!(found.exit_code, 1);
}

#[test]
fn row_09_a_changed_byte_anywhere_fails_the_whole_checksum() {
    for (version, bytes) in all_versions() {
        let header = [32, 28, 44, 56][version as usize];
        let places =
            [bytes.len() - 1, header + bytes[header..].windows(4).position(|four| four == b"sdk-").expect("there")];
        for at in places {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            let found = audit(bytes);
            let check = check(&found, CheckId::FileChecksum);
            assert_eq!(check.state, State::Fail, "{version}: {check:?}");
            assert!(check.found.contains("the header says"), "{check:?}");
            assert_eq!(found.exit_code, 1);
        }
    }
}

#[test]
fn row_09_hailort_does_not_look_at_a_file_with_a_hash_of_its_protobuf_and_the_report_says_so() {
    let found = audit(Written::small().v3());
    assert!(found.hef.container.unchecked_by_hailort);
    let note = finding(&found.hef, FindingKind::UncheckedByHailort);
    assert_eq!(note.severity, Severity::Note);
    assert!(note.message.contains("neither its magic number, nor its length, nor"), "{}", note.message);
    assert_eq!(check(&found, CheckId::ProtoChecksum).state, State::Pass);
    let without = audit(Written { proto_hash: false, ..Written::small() }.v3());
    assert!(!without.hef.container.unchecked_by_hailort && without.hef.findings.is_empty());
    assert_eq!(check(&without, CheckId::ProtoChecksum).state, State::NotApplicable);
    assert_eq!(check(&without, CheckId::FileChecksum).state, State::Pass);
}

#[test]
fn row_10_a_cut_tail_and_trailing_bytes() {
    for (version, bytes) in all_versions() {
        let header = [32, 28, 44, 56][version as usize];
        let longer = audit([bytes.clone(), vec![0; 7]].concat());
        let length = check(&longer, CheckId::FileLength);
        assert!(length.state == State::Fail && length.found.starts_with("7 bytes follow"), "{length:?}");
        assert_eq!(check(&longer, CheckId::FileChecksum).state, State::Fail);
        assert_eq!(longer.exit_code, 1);
        if version == 0 {
            continue;
        }
        let shorter = audit(bytes[..bytes.len() - 10].to_vec());
        let length = check(&shorter, CheckId::FileLength);
        let left = bytes.len() - header - 10;
        assert!(length.found.contains(&format!("cut off: {left} bytes")), "{length:?}");
        assert!(length.state == State::Fail && length.found.ends_with("10 are missing"), "{length:?}");
        // What is left is still described.
        assert_eq!(shorter.hef.groups.len(), 1);
    }
}

#[test]
fn row_11_more_padding_than_ccws_with_padding() {
    let mut bytes = Written::small().v3();
    bytes[28..32].copy_from_slice(&u32::MAX.to_be_bytes());
    seal(&mut bytes);
    assert!(error(bytes).contains("more than the"), "padding");
}

#[test]
fn row_12_sizes_that_overflow() {
    let small = Written::small();
    for (version, at) in [(1, 16), (2, 20), (3, 20), (3, 32)] {
        for size in [u64::MAX, u64::MAX - 40] {
            let mut bytes = match version {
                1 => v1(&small),
                2 => v2(&small),
                _ => small.v3(),
            };
            bytes[at..at + 8].copy_from_slice(&size.to_be_bytes());
            assert!(matches!(read(bytes), Err(HefError::Overflow)), "{version} {at} {size}");
        }
    }
}

#[test]
fn row_15_padding_that_is_not_zero() {
    let mut bytes = Written::small().v3();
    let proto_bytes = u32::from_be_bytes(bytes[8..12].try_into().expect("4 bytes")) as usize;
    for at in [0, 9] {
        bytes[HEADER_BYTES + proto_bytes + at] = 1;
    }
    seal(&mut bytes);
    let found = description(bytes);
    let padding = finding(&found, FindingKind::NonzeroPadding);
    assert_eq!(padding.severity, Severity::Warning);
    assert!(padding.message.starts_with("2 of "), "{}", padding.message);
    assert_eq!(found.container.padding_nonzero_bytes, Some(2));
}

#[test]
fn a_reserved_word_is_ignored() {
    let mut bytes = Written::small().v3();
    bytes[48..56].copy_from_slice(&u64::MAX.to_be_bytes());
    assert_eq!(audit(bytes).exit_code, 0);
}

#[test]
fn bytes_of_another_version_do_not_fit() {
    let mut bytes = Written::small().v3();
    bytes[7] = 2;
    let refused = match read(bytes.clone()) {
        Err(_) => true,
        Ok(_) => audit(bytes).exit_code == 1,
    };
    assert!(refused);
}

#[test]
fn hashes_are_those_of_the_algorithm() {
    // XXH3-64 of nothing, seed 0, from its specification.
    assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
    let found = description(v0(&Written::default()));
    let whole = &found.checksums[0];
    assert_eq!((whole.algorithm, whole.stored.len()), ("MD5", 32));
    let found = description(v1(&Written::small()));
    assert_eq!((found.checksums[0].algorithm, found.checksums[0].stored.len()), ("CRC-32", 8));
}
