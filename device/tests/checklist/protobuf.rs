//! The protobuf as such, extensions and what it says of the target.

use fidelity_device::{
    audit::{CheckId, State},
    hef::{FindingKind, HefError, Severity},
};

use crate::support::{audit, check, description, error, finding, read};
use fidelity_hef_writer::{
    hef_writer::{Context, Edge, Group, HEADER_BYTES, Hef, seal},
    message::Message,
};

#[test]
fn row_06_a_protobuf_of_no_bytes() {
    let mut bytes = Hef::small().v3();
    bytes[8..12].fill(0);
    seal(&mut bytes);
    assert!(error(bytes).contains("0 bytes: there is no network group"));
}

#[test]
fn row_13_a_protobuf_that_cannot_be_decoded() {
    let sound = Hef::small();
    for (more, expected) in [
        (vec![0x12, 0x7f, 1], "a field is cut off"),
        (vec![0x0f], "wire type 7"),
        (vec![0x00, 0x01], "field number 0"),
        (vec![0x10, 0x01], "another kind"),
        (vec![0x12, 0x02, 0x08, 0x80], "a field is cut off"),
        (Message::new().text(99, "x").bytes(5, &[0x12, 2, 0xff, 0xfe]).into_bytes(), "UTF-8"),
    ] {
        let message = error(Hef { more, ..sound.clone() }.v3());
        assert!(message.contains(expected) && !message.contains("checksum"), "{message}");
    }
    let mut bytes = sound.v3();
    bytes[HEADER_BYTES] = 0x0f;
    let message = error(bytes);
    assert!(message.ends_with("its checksum does not match either: the file is damaged"), "{message}");
}

#[test]
fn row_13_operations_that_cannot_be_walked() {
    let mut hef = Hef::small();
    let context = Message::new().bytes(2, &[0x12, 0x05, 1]).into_bytes();
    hef.groups[0].more = Message::new().bytes(3, &context).into_bytes();
    let message = error(hef.v3());
    assert!(message.contains("its operations: a field is cut off"), "{message}");
}

#[test]
fn row_14_unknown_fields_are_counted_and_ignored() {
    let mut hef = Hef::small();
    hef.more = Message::new().number(100, 7).text(101, "later").into_bytes();
    hef.groups[0].more = Message::new().double(55, 1.0).into_bytes();
    let found = description(hef.v3());
    assert_eq!(found.unknown_fields, 3);
    let note = finding(&found, FindingKind::UnknownFields);
    assert_eq!(note.severity, Severity::Note);
    assert_eq!(audit(hef.v3()).exit_code, 0);
    // Known to the public schema, though not read here.
    let read_not = Hef { more: Message::new().message(4, Message::new().number(1, 1)).into_bytes(), ..Hef::small() };
    assert_eq!(description(read_not.v3()).unknown_fields, 0);
}

#[test]
fn row_16_mandatory_extensions_that_hailort_does_not_know() {
    for index in [7, 8, 36, 5000, u64::from(u32::MAX)] {
        let mut hef = Hef::small();
        hef.extensions.push(index);
        let found = audit(hef.v3());
        let finding = finding(&found.hef, FindingKind::UnsupportedExtension);
        assert!(finding.message.contains(&format!("extension {index} ")), "{}", finding.message);
        assert_eq!(check(&found, CheckId::Structure).state, State::Fail);
        // The rest is still listed.
        assert_eq!(found.hef.groups.len(), 1);
        let mut optional = Hef::small();
        optional.optional_extensions.push(index);
        assert_eq!(audit(optional.v3()).exit_code, 0);
    }
}

#[test]
fn row_17_extension_26_is_missing() {
    let mut hef = Hef::small();
    hef.extensions.retain(|index| *index != 26);
    let found = audit(hef.v3());
    let warning = finding(&found.hef, FindingKind::MissingExtension26);
    assert_eq!(warning.severity, Severity::Warning);
    assert!(warning.message.contains("HailoRT 5 and later refuse"), "{}", warning.message);
    // Older libraries run it.
    assert_eq!(found.exit_code, 0);
}

#[test]
fn row_18_architectures() {
    for (code, name, devices) in [
        (1, Some("HAILO8P"), &["HAILO8"][..]),
        (103, Some("HAILO1XH"), &["HAILO15H", "HAILO10H"]),
        (5, None, &[]),
        (77, None, &[]),
    ] {
        let found = description(Hef { architecture: code, ..Hef::small() }.v3());
        assert_eq!((found.target.name, found.target.compatible.as_slice()), (name, devices));
        if name.is_none() {
            let warning = finding(&found, FindingKind::UnknownArchitecture);
            assert!(warning.message.contains("HEF_NOT_COMPATIBLE_WITH_DEVICE"), "{}", warning.message);
            assert_eq!(warning.message.contains("HAILO10H up to HailoRT 5.0"), code == 5);
        }
    }
}

#[test]
fn row_19_no_group() {
    let found = audit(Hef::default().v3());
    assert_eq!(finding(&found.hef, FindingKind::NoGroups).severity, Severity::Error);
    assert_eq!(found.exit_code, 1);
}

#[test]
fn strict_runtime_versions_are_noted() {
    let mut hef = Hef::small();
    hef.extensions.push(35);
    let found = audit(hef.v3());
    assert_eq!(finding(&found.hef, FindingKind::StrictRuntimeVersion).severity, Severity::Note);
    assert_eq!(found.exit_code, 0);
}

#[test]
fn content_of_version_0_has_no_extensions() {
    let found = description(Hef { content_version: 0, ..Hef::small() }.v3());
    finding(&found, FindingKind::MissingExtension26);
}

/// Two bytes of such a message take hundreds once they are decoded.
#[test]
fn row_38_billions_of_tiny_messages_are_refused_before_they_are_decoded() {
    let edges = [0x12, 0].repeat(4_000_000);
    let mut hef = Hef::small();
    let context = Message::new().bytes(3, &edges).into_bytes();
    hef.groups[0].more = Message::new().bytes(3, &context).into_bytes();
    let message = error(hef.v3());
    assert!(message.contains("bytes of memory"), "{message}");
    let extensions = Hef { more: [0x2a, 0].repeat(4_000_000), ..Hef::small() };
    assert!(error(extensions.v3()).contains("bytes of memory"));
    let strings = Hef { groups: vec![Group { more: [0x32, 0].repeat(4_000_000), ..Group::default() }], ..Hef::small() };
    assert!(error(strings.v3()).contains("bytes of memory"));
}

/// The limit is no limit for real models: two groups of 200 contexts with 50 edges each.
#[test]
fn row_38_large_language_models_are_decoded() {
    let mut hef = Hef::small();
    let inner = |number| Edge {
        connection: 1,
        ..Edge::new(&format!("network/a_layer_with_a_long_name_{number}"), 0, [1, 96, 1536])
    };
    hef.groups[0].contexts =
        (0..200).map(|index| Context { index, edges: (0..50).map(inner).collect(), ..Context::default() }).collect();
    hef.groups[0].outputs_order.clear();
    hef.groups.push(Group { name: "second".into(), ..hef.groups[0].clone() });
    let found = description(hef.v3());
    assert_eq!(found.groups[1].edge_counts.intermediate, 10_000);
}

#[test]
fn row_38_millions_of_actions_are_walked() {
    let mut hef = Hef::small();
    hef.groups[0].contexts[0].ccws = vec![(0, 100); 400_000];
    let found = description(hef.v3());
    assert_eq!(found.groups[0].ccws.pointers, 400_000);
    assert_eq!(found.groups[0].ccws.furthest_end, 100);
}

#[test]
fn row_38_findings_of_one_kind_are_bounded() {
    let mut hef = Hef::small();
    let many = (0..500).map(|number| Edge { format: 99, ..Edge::new(&format!("net/x{number}"), 0, [1, 1, 1]) });
    hef.groups[0].contexts[0].edges.extend(many);
    let found = description(hef.v3());
    let formats: Vec<_> = found.findings.iter().filter(|finding| finding.kind == FindingKind::UnknownFormat).collect();
    assert_eq!(formats.len(), 17);
    assert_eq!(formats[16].message, "484 more of this kind");
}

/// A mux of a mux of a mux …
fn nested(depth: usize) -> Hef {
    let leaf = Edge::new("net/leaf", 1, [1, 1, 10]).info();
    let mut edge = Message::new().message(1, leaf);
    for _ in 1..depth {
        edge = Message::new().message(2, Message::new().text(1, "mux").message(5, edge));
    }
    let mux = Message::new().text(1, "mux").message(5, edge);
    let mut hef = Hef::small();
    hef.groups[0].contexts[0].edges.push(Edge {
        kind: 1,
        content: Some((4, mux.into_bytes())),
        ..Edge::new("", 1, [1, 1, 1])
    });
    hef
}

#[test]
fn row_39_deep_muxes() {
    let found = description(nested(10).v3());
    assert!(found.groups[0].outputs.iter().any(|output| output.name == "net/leaf"));
    for depth in [60, 200, 5000] {
        let message = error(nested(depth).v3());
        assert!(message.contains("100 deep"), "{message}");
    }
    assert!(matches!(read(nested(200).v3()), Err(HefError::ProtoDecode { .. })));
}
