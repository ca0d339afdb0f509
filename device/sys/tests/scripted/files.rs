//! What the library reads from a file.

use std::fs;

use fidelity_hailort_sys::{Status, Step, hef};
use fidelity_hef_writer::llm_writer::Llm;

#[test]
fn groups_are_named_in_the_order_of_the_file() {
    let (_folder, path, _) = crate::hef();
    assert_eq!(hef::group_names(&path), Ok(vec!["base_model__prefill".into(), "base_model__tbt".into()]));
}

#[test]
fn a_description_names_groups_and_streams() {
    let (_folder, path, _) = crate::hef();
    let text = hef::description(&path).expect("it is described");
    for part in ["base_model__prefill", "small_prefill/input_layer1", "base_model__tbt", "small_tbt/conv2"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_resource_is_what_was_written() {
    let (_folder, _, bytes) = crate::hef();
    let expected: Vec<u8> = Llm::default().theta.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(hef::resource(&bytes, "rope_theta_data.bin"), Ok(expected));
    assert_eq!(hef::resource(&bytes, "embeddings.bin"), Ok(Llm::default().embeddings()));
    let error = hef::resource(&bytes, "none.bin").expect_err("there is none");
    assert_eq!((error.status, error.step), (Status::new(61), Step::Hef));
}

#[test]
fn files_that_are_no_hef_are_refused_with_their_name() {
    let (folder, path, bytes) = crate::hef();
    let error = hef::group_names(&folder.path().join("none.hef")).expect_err("there is none");
    assert_eq!((error.status, error.step), (Status::new(13), Step::Hef));
    assert!(error.detail.ends_with("none.hef"), "{error}");
    let mut unknown = bytes.clone();
    unknown[7] = 9;
    fs::write(&path, unknown).expect("written");
    assert_eq!(hef::group_names(&path).expect_err("version 9").status, Status::new(92));
    // Cut inside of the protobuf, and inside of the header.
    for length in [200, 30, 0] {
        fs::write(&path, &bytes[..length]).expect("written");
        let error = hef::group_names(&path).expect_err("it is cut");
        assert_ne!(error.status, Status::SUCCESS, "{length}");
    }
}
