//! Pointers and resources: everything that points elsewhere in the file.

use fidelity_device::{
    audit::{CheckId, State},
    hef::{FindingKind, Severity},
};

use crate::support::{audit, check, description, finding, kinds};
use fidelity_hef_writer::{
    hef_writer::{Hef, Resource, seal},
    old_containers::{v0, v1, v2},
};

fn with(resources: Vec<Resource>) -> Hef {
    Hef { resources, ..Hef::small() }
}

fn resource(name: &str) -> Resource {
    Resource::new(name, *b"some bytes")
}

#[test]
fn row_34_pointers_outside_the_ccws() {
    for pointer in [(100, 1), (0, 101), (1 << 62, 1), (u64::MAX, 10)] {
        let mut hef = Hef::small();
        hef.groups[0].contexts[0].ccws.push(pointer);
        for bytes in [v1(&hef), v2(&hef), hef.v3()] {
            let found = audit(bytes);
            assert_eq!(finding(&found.hef, FindingKind::CcwOutOfRange).severity, Severity::Error);
            let pointers = check(&found, CheckId::CcwPointers);
            assert!(pointers.found.contains("1 of 3 pointers end after the 100 bytes"), "{pointers:?}");
            assert_eq!((pointers.state, found.exit_code), (State::Fail, 1));
        }
    }
    assert_eq!(check(&audit(Hef::small().v3()), CheckId::CcwPointers).state, State::Pass);
}

#[test]
fn row_34_ccws_of_another_container_version() {
    let mut hef = Hef::small();
    assert_eq!(check(&audit(v0(&hef)), CheckId::CcwPointers).state, State::Fail);
    hef.groups[0].contexts[0].inline_ccws.push(vec![1]);
    let found = audit(hef.v3());
    assert!(finding(&found.hef, FindingKind::CcwKind).message.contains("1 actions hold ccws"));
    assert_eq!(check(&found, CheckId::CcwPointers).state, State::Fail);
}

#[test]
fn row_34_ccws_that_nothing_points_at() {
    let mut hef = Hef::small();
    hef.groups[0].contexts[0].ccws.pop();
    let found = description(hef.v3());
    assert_eq!(finding(&found, FindingKind::CcwLength).severity, Severity::Warning);
}

#[test]
fn resources_are_found_where_they_are() {
    let hef = with(vec![resource("a.bin"), Resource::new("b.bin", vec![9; 5000])]);
    let bytes = hef.v3();
    let found = audit(bytes.clone());
    assert_eq!(kinds(&found.hef), [FindingKind::UncheckedByHailort]);
    for (resource, expected) in found.hef.resources.iter().zip(&hef.resources) {
        let start = resource.file_offset.expect("inside") as usize;
        assert_eq!(&bytes[start..start + resource.size_bytes as usize], expected.bytes);
        assert_eq!(resource.hash_matches(), Some(true));
    }
    assert_eq!(check(&found, CheckId::ResourceRanges).state, State::Pass);
    assert_eq!(check(&found, CheckId::ResourceHashes).state, State::Pass);
}

#[test]
fn row_35_resources_outside_the_file() {
    for (offset, size) in [(0, 1 << 40), (1 << 40, 1), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        let hef = with(vec![Resource { offset: Some(offset), size: Some(size), ..resource("embeddings.bin") }]);
        let found = audit(hef.v3());
        assert_eq!(finding(&found.hef, FindingKind::ResourceOutOfRange).severity, Severity::Error);
        let ranges = check(&found, CheckId::ResourceRanges);
        assert!(ranges.state == State::Fail && ranges.found.contains("`embeddings.bin`"), "{ranges:?}");
        let resource = &found.hef.resources[0];
        assert_eq!((resource.file_offset, resource.computed_hash.as_ref()), (None, None));
    }
    // In version 0 there is no place for resources.
    assert_eq!(check(&audit(v0(&with(vec![resource("a.bin")]))), CheckId::ResourceRanges).state, State::Fail);
}

#[test]
fn row_35_a_resource_that_was_cut_off() {
    let bytes = with(vec![Resource::new("a.bin", vec![1; 5000])]).v3();
    let found = audit(bytes[..bytes.len() - 4096].to_vec());
    assert_eq!(check(&found, CheckId::ResourceRanges).state, State::Fail);
    assert_eq!(check(&found, CheckId::FileLength).state, State::Fail);
}

#[test]
fn row_36_hashes_of_resources() {
    let wrong = with(vec![Resource { hash: Some(1), ..resource("a.bin") }]);
    let found = audit(wrong.v3());
    let hashes = check(&found, CheckId::ResourceHashes);
    assert!(hashes.state == State::Fail && hashes.found.contains("says XXH3-64 0000000000000001"), "{hashes:?}");
    let unfilled = audit(with(vec![Resource { hash: Some(0), ..resource("a.bin") }]).v3());
    assert_eq!(check(&unfilled, CheckId::ResourceHashes).state, State::NotApplicable);
    assert_eq!(unfilled.hef.resources[0].stored_hash, None);
    let mut bytes = with(vec![resource("a.bin")]).v3();
    let at = bytes.windows(10).position(|ten| ten == b"some bytes").expect("there");
    bytes[at] ^= 1;
    seal(&mut bytes);
    let found = audit(bytes);
    assert_eq!(check(&found, CheckId::FileChecksum).state, State::Pass);
    assert_eq!(check(&found, CheckId::ResourceHashes).state, State::Fail);
}

#[test]
fn row_37_names_that_are_no_file_names() {
    for name in ["", "..", "../../etc/passwd", "/etc/passwd", "a\\b", "a\0b", "a\nb"] {
        let found = description(with(vec![resource(name)]).v3());
        assert_eq!(finding(&found, FindingKind::ResourceName).severity, Severity::Warning, "{name:?}");
    }
    let twice = description(with(vec![resource("a.bin"), resource("a.bin")]).v3());
    assert!(finding(&twice, FindingKind::DuplicateResource).message.contains("comes first"));
    assert_eq!(twice.resource("a.bin"), twice.resources.first());
}

#[test]
fn row_37_resources_on_top_of_others_or_of_the_ccws() {
    let overlapping =
        with(vec![resource("a.bin"), Resource { offset: Some(4100), size: Some(10), ..resource("b.bin") }]);
    let found = description(overlapping.v3());
    assert!(finding(&found, FindingKind::ResourceOverlap).message.contains("before resource `a.bin` ends"));
    let in_ccws = description(with(vec![Resource { offset: Some(50), ..resource("a.bin") }]).v3());
    assert!(finding(&in_ccws, FindingKind::ResourceOverlap).message.contains("inside the 100 bytes of ccws"));
}

#[test]
fn entries_that_all_point_at_the_whole_file_are_not_read_again_and_again() {
    let whole = |number: u64| Resource { offset: Some(0), size: Some(4000 - number), hash: Some(1), ..resource("x") };
    let hef = with((0..1000).map(whole).collect::<Vec<_>>());
    let found = audit([hef.v3(), vec![0; 4096]].concat());
    let hashed = found.hef.resources.iter().filter(|resource| resource.computed_hash.is_some()).count();
    assert!(hashed < 100, "{hashed}");
}
