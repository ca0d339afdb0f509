//! What can be wrong with one input or output.

use fidelity_device::hef::{Description, FindingKind, Severity};

use crate::support::{audit, description, error, finding, kinds};
use fidelity_hef_writer::hef_writer::{Edge, Hef};

/// The small file with a change to its input.
fn with(change: impl FnOnce(&mut Edge)) -> Hef {
    let mut hef = Hef::small();
    change(hef.groups[0].edge("net/input"));
    hef
}

/// The small file with outputs quantised per feature and a change to one.
fn per_feature(change: impl FnOnce(&mut Edge)) -> Hef {
    let mut hef = Hef::small();
    hef.extensions.push(25);
    change(hef.groups[0].edge("net/output1"));
    hef
}

fn one(hef: &Hef, kind: FindingKind, severity: Severity) -> String {
    let found = description(hef.v3());
    let finding = finding(&found, kind);
    assert_eq!(finding.severity, severity);
    assert_eq!(audit(hef.v3()).exit_code, u8::from(severity == Severity::Error));
    finding.message.clone()
}

fn nothing_but(hef: &Hef) -> Description {
    let found = description(hef.v3());
    assert_eq!(kinds(&found), [FindingKind::UncheckedByHailort], "{:?}", found.findings);
    found
}

#[test]
fn row_26_formats_and_types_that_are_not_known() {
    for format in [9, 10, 12, 17, u64::from(u32::MAX)] {
        let message = one(&with(|edge| edge.format = format), FindingKind::UnknownFormat, Severity::Error);
        assert!(message.contains(&format!("format {format} ")), "{message}");
    }
    for bytes in [0, 3, 4] {
        let hef = with(|edge| edge.data_bytes = bytes);
        assert!(description(hef.v3()).groups[0].inputs[0].data_type.is_none());
        let message = one(&hef, FindingKind::DataBytes, Severity::Error);
        assert!(message.contains(&format!("{bytes} bytes, expected 1 or 2")), "{message}");
    }
}

#[test]
fn known_formats_have_two_orders() {
    for (format, device, host) in [
        (0, "NHWC", "NHWC"),
        (1, "NHCW", "NHWC"),
        (2, "NC", "NC"),
        (3, "FCR", "FCR"),
        (8, "RGB888", "NHWC"),
        (14, "HAILO_YYUV", "NV12"),
    ] {
        let found = nothing_but(&with(|edge| edge.format = format));
        let layout = &found.groups[0].inputs[0].layout;
        assert_eq!((layout.device, layout.host), (Some(device), Some(host)));
    }
}

#[test]
fn row_27_networks_that_the_group_does_not_have() {
    let message = one(&with(|edge| edge.network_index = 1), FindingKind::NetworkIndex, Severity::Error);
    assert!(message.contains("network 1, but the group has 1"), "{message}");
    let mut hef = Hef::small();
    hef.groups[0].networks.clear();
    // Under extension 8 networks go by their names.
    assert!(kinds(&description(hef.v3())).contains(&FindingKind::NetworkIndex));
    hef.optional_extensions.clear();
    nothing_but(&hef);
}

#[test]
fn row_29_names() {
    let message = one(&with(|edge| edge.name = "n".repeat(128)), FindingKind::LongName, Severity::Error);
    assert!(message.contains("128 bytes, HailoRT accepts 127"), "{message}");
    nothing_but(&with(|edge| edge.name = "n".repeat(127)));
    one(&with(|edge| edge.name = "net/\u{1b}[31m".into()), FindingKind::ControlCharacters, Severity::Warning);
    one(&with(|edge| edge.name.clear()), FindingKind::EmptyName, Severity::Warning);
    let mut hef = Hef::small();
    hef.groups[0].name = "g".repeat(128);
    one(&hef, FindingKind::LongName, Severity::Error);
    // Messages hold no control character, whatever the file does.
    let mut hef = Hef::small();
    hef.groups[0].name = "evil\u{1b}]0;title\u{7}\n".into();
    hef.groups[0].contexts[0].edges[0].format = 99;
    for finding in description(hef.v3()).findings {
        let text = format!("{}{}", finding.place, finding.message);
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    hef.groups[0].contexts.clear();
    let message = error(hef.v3());
    assert!(!message.chars().any(char::is_control) && message.contains("evil\\u{1b}"), "{message:?}");
}

#[test]
fn row_29_names_that_are_not_utf_8() {
    let mut bytes = with(|edge| edge.name = "net/XXXX".into()).v3();
    let at = bytes.windows(4).position(|four| four == b"XXXX").expect("there");
    bytes[at] = 0xff;
    fidelity_hef_writer::hef_writer::seal(&mut bytes);
    assert!(error(bytes).contains("UTF-8"));
}

#[test]
fn row_30_scales_and_zero_points_that_cannot_be() {
    for scale in [f32::NAN, f32::INFINITY, 0.0, -1.0] {
        let message =
            one(&with(|edge| edge.quantisation = Some((scale, 0.0))), FindingKind::Quantisation, Severity::Error);
        assert!(message.starts_with("scale "), "{message}");
    }
    let message =
        one(&with(|edge| edge.quantisation = Some((1.0, f32::NAN))), FindingKind::Quantisation, Severity::Error);
    assert!(message.starts_with("zero point NaN"), "{message}");
    for zero_point in [-1.0, 256.0, 0.5] {
        let hef = with(|edge| edge.quantisation = Some((1.0, zero_point)));
        one(&hef, FindingKind::Quantisation, Severity::Warning);
    }
    nothing_but(&with(|edge| (edge.quantisation, edge.data_bytes) = (Some((1.0, 65535.0)), 2)));
    nothing_but(&with(|edge| edge.quantisation = None));
    // Scale 0 is normal where there is one a feature.
    nothing_but(&per_feature(|edge| (edge.quantisation, edge.scales) = (Some((0.0, 0.0)), vec![0.5; 10])));
}

#[test]
fn row_31_lists_that_are_not_one_a_feature() {
    for length in [9, 11] {
        let message =
            one(&per_feature(|edge| edge.scales = vec![1.0; length]), FindingKind::FeatureCount, Severity::Error);
        assert!(message.contains(&format!("{length} scales or zero points for 10 features")), "{message}");
    }
    let found = nothing_but(&per_feature(|edge| edge.scales = vec![0.25; 10]));
    let output = found.groups[0].outputs.iter().find(|output| output.name == "net/output1").expect("there");
    let numbers = output.quantisation.as_ref().expect("quantised");
    assert!(numbers.per_feature && numbers.scales == [0.25; 10] && numbers.zero_points.is_empty());
    one(
        &per_feature(|edge| edge.scales = [&[0.25; 9][..], &[-1.0]].concat()),
        FindingKind::Quantisation,
        Severity::Error,
    );
    // Without extension 25 HailoRT ignores the lists.
    nothing_but(&with(|edge| edge.scales = vec![1.0; 2]));
    let mut input = with(|edge| edge.scales = vec![1.0; 2]);
    input.extensions.push(25);
    let message = one(&input, FindingKind::FeatureCount, Severity::Error);
    assert!(message.contains("throws"), "{message}");
    let mut input = with(|edge| edge.zero_points = vec![1.0, 1.0, 2.0]);
    input.extensions.push(25);
    one(&input, FindingKind::Quantisation, Severity::Error);
}

#[test]
fn row_32_dimensions() {
    for shape in [[0, 4, 3], [4, 0, 3], [4, 4, 0]] {
        one(&with(|edge| edge.shape = shape), FindingKind::Dimensions, Severity::Error);
    }
    let huge = with(|edge| edge.shape = [1 << 31, 1 << 31, 1 << 31]);
    let found = description(huge.v3());
    assert_eq!(found.groups[0].inputs[0].frame_bytes, None);
    finding(&found, FindingKind::Dimensions);
    let message = &finding(&found, FindingKind::HardwareLimit).message;
    assert!(message.contains("a padded frame has 9903520314283042199192993792 bytes"), "{message}");
}

#[test]
fn row_32_what_the_hardware_holds() {
    let message = one(&with(|edge| edge.core_bytes_per_buffer = 65536), FindingKind::HardwareLimit, Severity::Error);
    assert!(message.starts_with("core_bytes_per_buffer is 65536, at most 65535"), "{message}");
}
