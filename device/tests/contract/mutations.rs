//! Whatever is done to the bytes of a file, it is read or refused, never more.

use std::io::Cursor;

use fidelity_device::{audit::audit, hef::Hef};
use proptest::prelude::*;

use fidelity_hef_writer::{
    hef_writer::{HEADER_BYTES, Hef as Written, seal},
    llm_writer::Llm,
};

fn files() -> [Vec<u8>; 2] {
    [Written::small().v3(), Llm::default().hef().v3()]
}

/// Reads and audits; a damaged file may be refused, and a refusal says why without control characters.
fn survive(bytes: Vec<u8>) {
    match Hef::read(Cursor::new(bytes)) {
        Ok(mut hef) => {
            let found = audit(&mut hef, None).expect("readable");
            let json = found.to_json().expect("JSON");
            assert!(json.len() < 4 << 20, "{} bytes of JSON", json.len());
        }
        Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn changed_bytes(file in 0..2_usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), sealed in any::<bool>()) {
        let mut bytes = files()[file].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let proto_bytes = u32::from_be_bytes(bytes[8..12].try_into().expect("4 bytes")) as usize;
        if sealed && HEADER_BYTES + proto_bytes <= bytes.len() {
            seal(&mut bytes);
        }
        survive(bytes);
    }

    #[test]
    fn cut_and_doubled(file in 0..2_usize, from in any::<prop::sample::Index>(), length in 0..64_usize) {
        let bytes = &files()[file];
        let from = from.index(bytes.len());
        let to = (from + length).min(bytes.len());
        survive([&bytes[..from], &bytes[to..]].concat());
        survive([&bytes[..to], &bytes[from..]].concat());
        survive(bytes[..from].to_vec());
    }

    #[test]
    fn noise_behind_a_sound_header(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = Written::small().v3()[..HEADER_BYTES].to_vec();
        bytes[8..12].copy_from_slice(&(noise.len() as u32).to_be_bytes());
        bytes.extend(noise);
        survive(bytes);
    }
}
