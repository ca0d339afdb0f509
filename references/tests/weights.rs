//! Safetensors files: what is read, what is refused and with which words.

mod common;

use std::collections::BTreeMap;

use common::safetensors::{file, folder, tensor};
use fidelity_references::WeightFiles;
use serde_json::{Value, json};

fn opened(bytes: &[u8]) -> Result<(), String> {
    WeightFiles::open(folder(bytes).path()).map(|_| ()).map_err(|error| error.to_string())
}

fn refused(bytes: &[u8], expected: &str) {
    let message = opened(bytes).expect_err(expected);
    assert!(message.contains("model.safetensors: ") && message.contains(expected), "{expected:?}: {message:?}");
}

/// A file of one tensor `w`.
fn one(dtype: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let header = json!({"w": tensor(dtype, &json!(shape), 0, data.len() as u64)}).to_string();
    [&file(&header, 0)[..], data].concat()
}

fn taken(bytes: &[u8], shape: &[usize]) -> Result<Vec<f32>, String> {
    let folder = folder(bytes);
    let mut weights = WeightFiles::open(folder.path()).map_err(|error| error.to_string())?;
    let tensor = weights.take("w", shape).map_err(|error| error.to_string())?;
    assert_eq!(tensor.dims(), shape);
    weights.finish().map_err(|error| error.to_string())?;
    tensor.flatten_all().and_then(|tensor| tensor.to_vec1()).map_err(|error| error.to_string())
}

#[test]
fn header_lengths() {
    let mut bytes = file("{}", 0);
    for length in [0, 3, 1 << 20, 100_000_001, 1 << 63, u64::MAX] {
        bytes[..8].copy_from_slice(&u64::to_le_bytes(length));
        let expected = if length == 0 { "its header is not a safetensors header" } else { "its header claims" };
        refused(&bytes, expected);
    }
    // Just under the first range that clients of the Hub ask for.
    for length in 99_994..=100_000 {
        let mut header = json!({"w": tensor("F32", &json!([1]), 0, 4)}).to_string();
        header.push_str(&" ".repeat(length - header.len()));
        assert_eq!(opened(&file(&header, 4)), Ok(()), "{length}");
    }
}

#[test]
fn header_texts() {
    assert_eq!(opened(&file("{}  \n ", 0)), Ok(()), "trailing spaces");
    assert_eq!(opened(&file(r#"{"__metadata__": {"format": "pt"}}"#, 0)), Ok(()), "metadata only");
    let w = tensor("F32", &json!([1]), 0, 4).to_string();
    for (header, expected) in [
        ("[]".to_owned(), "expected an object of tensors"),
        ("{".into(), "its header is not a safetensors header"),
        ("{} {}".into(), "trailing characters"),
        (format!(r#"{{"w": {w}, "w": {w}}}"#), "tensor `w` is in it twice"),
        (r#"{"__metadata__": {}, "__metadata__": {}}"#.into(), "`__metadata__` is in it twice"),
        (r#"{"__metadata__": {"format": 1}}"#.into(), "expected a string"),
        (r#"{"w": {"dtype": "F32", "shape": [1]}}"#.into(), "missing field `data_offsets`"),
        (r#"{"w": {"dtype": "F32", "dtype": "F32"}}"#.into(), "duplicate field `dtype`"),
        (r#"{"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}"#.into(), "invalid value: integer `-1`"),
        (json!({"w": tensor("F99", &json!([1]), 0, 4)}).to_string(), "tensor `w` has dtype \"F99\""),
    ] {
        refused(&file(&header, 4), expected);
    }
    let mut bytes = file(&json!({"w": tensor("F32", &json!([1]), 0, 4)}).to_string(), 4);
    bytes[10] = 0xff;
    refused(&bytes, "its header is not a safetensors header");
}

#[test]
fn places_that_cannot_be() {
    let two = |first: [u64; 2], second: [u64; 2]| {
        let tensor = |[begin, end]: [u64; 2]| tensor("F32", &json!([1]), begin, end);
        file(&json!({"a": tensor(first), "b": tensor(second)}).to_string(), 8)
    };
    assert_eq!(opened(&two([4, 8], [0, 4])), Ok(()), "any order of names");
    refused(&two([0, 4], [8, 4]), "tensor `b` has data_offsets [8, 4], which end before they begin");
    refused(&two([0, 4], [2, 6]), "tensor `b` has data_offsets [2, 6], which overlap the tensor before");
    refused(&two([0, 4], [0, 4]), "tensor `b` has data_offsets [0, 4], which overlap");
    refused(&two([0, 4], [8, 12]), "tensor `b` has data_offsets [8, 12], which leave a hole: expected to begin at 4");
    refused(&two([0, 4], [4, 9]), "expected 4 bytes for F32 of shape [1]");
    let shaped = |shape: Value, end: u64| file(&json!({"w": tensor("F32", &shape, 0, end)}).to_string(), 8);
    refused(&shaped(json!([3]), 12), "truncated");
    refused(&shaped(json!([1_u64 << 40]), 1 << 42), "truncated");
    refused(&shaped(json!([1]), 4), "followed by other bytes");
    refused(
        &shaped(json!([1_u64 << 40, 1_u64 << 40]), 8),
        "has shape [1099511627776, 1099511627776], whose size overflows",
    );
    refused(&shaped(json!([u64::MAX]), 8), "whose size overflows");
    let nibble = file(&json!({"w": tensor("F4", &json!([1]), 0, 1)}).to_string(), 1);
    refused(&nibble, "expected 0 bytes for F4 of shape [1]");
}

#[test]
fn empty_tensors_and_scalars_are_read() {
    assert_eq!(taken(&one("F32", &[0, 3], &[]), &[0, 3]), Ok(vec![]));
    assert_eq!(taken(&one("F32", &[], &1.5_f32.to_le_bytes()), &[]), Ok(vec![1.5]));
    let message = taken(&one("F32", &[0, 3], &[]), &[3, 0]).expect_err("another shape");
    assert!(message.contains("has shape [0, 3], expected [3, 0] as config.json says"), "{message}");
}

#[test]
fn floats_are_widened_exactly_and_other_types_refused() {
    let exact = [0.0_f64, -0.0, f64::from(1.0_f32 / 3.0), f64::from(f32::MIN_POSITIVE) / 8.0, f64::INFINITY];
    let bytes: Vec<u8> = exact.iter().flat_map(|value| value.to_le_bytes()).collect();
    let found = taken(&one("F64", &[5], &bytes), &[5]).expect("exact");
    assert!(found.iter().map(|value| f64::from(*value).to_bits()).eq(exact.iter().map(|value| value.to_bits())));
    assert!(taken(&one("F64", &[1], &f64::NAN.to_le_bytes()), &[1]).is_ok_and(|found| found[0].is_nan()));
    assert_eq!(taken(&one("F16", &[2], &[0x01, 0x00, 0x00, 0xc0]), &[2]), Ok(vec![5.960_464_5e-8, -2.0]));
    assert_eq!(taken(&one("BF16", &[1], &[0x81, 0x3f]), &[1]), Ok(vec![1.007_812_5]));
    for value in [0.1, 1e300, f64::from(f32::MAX) * 1.5, 1e-300] {
        let message = taken(&one("F64", &[1], &f64::to_le_bytes(value)), &[1]).expect_err("inexact");
        let expected =
            format!("tensor `w` has dtype F64 and the value {value:?}, expected values that float32 holds exactly");
        assert!(message.contains(&expected), "{message}");
    }
    let eight = [("I8", 8), ("U8", 8), ("BOOL", 8), ("F8_E8M0", 8), ("F4", 4)];
    for (dtype, size) in eight.into_iter().chain([("I32", 32), ("U32", 32), ("I64", 64), ("C64", 64)]) {
        let message = taken(&one(dtype, &[8], &vec![0; size]), &[8]).expect_err("refused");
        assert!(
            message.contains(&format!("tensor `w` has dtype {dtype}, expected F32, F16, BF16 or F64")),
            "{message}"
        );
    }
}

#[test]
fn eight_bit_floats_are_refused_with_and_without_their_scale() {
    let name = "model.layers.0.mlp.up_proj.weight";
    let take = |dtype: &str, scale: Option<&str>| {
        let mut header = BTreeMap::from([(name.to_owned(), tensor(dtype, &json!([1]), 0, 1))]);
        header.extend(scale.map(|suffix| (format!("{name}{suffix}"), tensor("F32", &json!([1]), 1, 5))));
        let folder = folder(&file(&json!(header).to_string(), if scale.is_some() { 5 } else { 1 }));
        let mut weights = WeightFiles::open(folder.path()).expect("a whole file");
        weights.take(name, &[1]).expect_err("refused").to_string()
    };
    for dtype in ["F8_E4M3", "F8_E5M2"] {
        let without = take(dtype, None);
        assert!(without.contains(&format!("has dtype {dtype}")) && without.contains("needs weight_scale"), "{without}");
        assert!(without.contains(&format!("there is no tensor `{name}_scale`")), "{without}");
        for suffix in ["_scale", "_scale_inv"] {
            let with = take(dtype, Some(suffix));
            assert!(with.contains(&format!("scaled by `{name}{suffix}` are not supported yet")), "{with}");
        }
    }
}
