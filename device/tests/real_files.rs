//! Real HEF files, each against the JSON that another program made of it. They are not in the repository: set
//! `FIDELITY_HEFS` to a folder of `NAME.hef` with `NAME.json`.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use fidelity_device::hef::{Checksum, Description, Group, GroupSource, Hef, Quantisation, Resource, Stream};
use serde_json::{Map, Value, json};

#[test]
fn real_files_read_as_another_program_reads_them() {
    let Ok(folder) = env::var("FIDELITY_HEFS") else {
        eprintln!("did not run: FIDELITY_HEFS is not set");
        return;
    };
    let entries = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "hef")).collect();
    assert!(!files.is_empty(), "{folder} holds no HEF");
    for file in &files {
        let expected: Value =
            serde_json::from_slice(&fs::read(file.with_extension("json")).expect("there")).expect("JSON");
        let hef = Hef::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_same(hef.description(), &expected, file);
    }
    eprintln!("{} files read as their JSON says", files.len());
}

fn assert_same(found: &Description, expected: &Value, file: &Path) {
    let name = file.display();
    let whole = found.checksums.iter().find(|checksum| checksum.covers == "whole");
    let proto = found.checksums.iter().find(|checksum| checksum.covers == "proto");
    for (what, found, expected) in [
        ("size", json!(found.size_bytes), &expected["size"]),
        ("offset_zero_point", json!(found.container.offset_zero_point.unwrap_or(0)), &expected["offset_zero_point"]),
        ("header", header(found, &expected["header"], whole, proto), &expected["header"]),
        ("checksum", checksum(found, &expected["checksum"], whole, proto), &expected["checksum"]),
        ("hw_arch", json!(found.target.code), &expected["hw_arch"]),
        (
            "hw_arch_name",
            json!(found.target.name.map(|name| format!("PROTO__HW_ARCH__{name}"))),
            &expected["hw_arch_name"],
        ),
        ("compatible", json!(found.target.compatible), &expected["compatible"]),
        ("proto_header_version", json!(found.compiler.content_version), &expected["proto_header_version"]),
        ("sdk_version_str", json!(found.compiler.version_text), &expected["sdk_version_str"]),
        ("sdk_version", json!(found.compiler.version.map(|part| part.to_string()).join(".")), &expected["sdk_version"]),
        ("timestamp", json!(found.compiler.timestamp_ms), &expected["timestamp"]),
        ("extensions", extensions(&found.extensions.mandatory), &expected["extensions"]),
        ("optional_extensions", extensions(&found.extensions.optional), &expected["optional_extensions"]),
        (
            "external_resources",
            resources(&found.resources, &expected["external_resources"]),
            &expected["external_resources"],
        ),
        ("supported_by_5_2_0", supported(found), &expected["supported_by_5_2_0"]),
    ] {
        assert_eq!(&found, expected, "{name}: {what}");
    }
    let groups = expected["network_groups"].as_array().expect("groups");
    assert_eq!(found.groups.len(), groups.len(), "{name}");
    for (found, expected) in found.groups.iter().zip(groups) {
        assert_same_group(found, expected, &format!("{name}, {}", found.name));
    }
    assert_eq!(found.unknown_fields, 0, "{name}");
}

/// The fields of the header that the JSON of this version has.
fn header(found: &Description, expected: &Value, whole: Option<&Checksum>, proto: Option<&Checksum>) -> Value {
    let container = &found.container;
    let stored =
        |checksum: Option<&Checksum>| checksum.map_or_else(|| "0".repeat(16), |checksum| checksum.stored.clone());
    let all = [
        ("magic", json!("01484546")),
        ("version", json!(container.version)),
        ("proto_size", json!(container.proto_bytes)),
        ("hsize", json!(container.header_bytes)),
        ("md5", json!(stored(whole))),
        ("crc", json!(u32::from_str_radix(&stored(whole), 16).ok())),
        ("xxh3", json!(stored(whole))),
        ("ccws_size", json!(container.ccws_bytes)),
        ("ccws_size_with_padding", json!(container.ccws_bytes + container.padding_bytes)),
        ("hef_padding_size", json!(container.padding_bytes)),
        ("additional_info_size", json!(container.additional_info_bytes)),
        ("proto_xxh3", json!(stored(proto))),
    ];
    let mut object = Map::new();
    for (key, value) in expected.as_object().expect("an object") {
        // Reserved words are not read.
        let value = if key.starts_with("reserved") {
            value.clone()
        } else {
            all.iter().find(|(name, _)| name == key).unwrap_or_else(|| panic!("no {key}")).1.clone()
        };
        // The CRC is written in either form.
        let text = value.is_u64() && expected[key].is_string();
        object.insert(key.clone(), if text { json!(stored(whole)) } else { value });
    }
    Value::Object(object)
}

fn checksum(found: &Description, expected: &Value, whole: Option<&Checksum>, proto: Option<&Checksum>) -> Value {
    let container = &found.container;
    let matches = |checksum: Option<&Checksum>| json!(checksum.is_some_and(|checksum| checksum.matches));
    let all = [
        ("md5_ok", matches(whole)),
        ("crc_ok", matches(whole)),
        ("xxh3_ok", matches(whole)),
        ("xxh3_whole_ok", matches(whole)),
        ("proto_xxh3_ok", matches(proto)),
        ("length_ok", json!(container.expected_bytes == container.actual_bytes)),
        ("length_expected", json!(container.expected_bytes)),
        ("length_actual", json!(container.actual_bytes)),
        ("zero_point_aligned_4096", json!(container.offset_zero_point.map(|point| point % 4096 == 0))),
        ("padding_all_zero", json!(container.padding_nonzero_bytes == Some(0))),
        ("ccws_real_size", json!(container.ccws_bytes)),
    ];
    let keys = expected.as_object().expect("an object").keys();
    let value = |key: &String| all.iter().find(|(name, _)| name == key).unwrap_or_else(|| panic!("no {key}")).1.clone();
    Value::Object(keys.map(|key| (key.clone(), value(key))).collect())
}

fn extensions(list: &[fidelity_device::hef::Extension]) -> Value {
    json!(list.iter().map(|extension| format!("{}:{}", extension.index, extension.name)).collect::<Vec<_>>())
}

fn resources(list: &[Resource], expected: &Value) -> Value {
    let heads = expected.as_array().expect("a list");
    let entry = |(resource, expected): (&Resource, &Value)| {
        json!({
            "name": resource.name,
            "offset": resource.offset,
            "size": resource.size_bytes,
            "abs": resource.file_offset,
            "xxhash": resource.stored_hash,
            "in_bounds": resource.file_offset.is_some(),
            "xxh_ok": resource.hash_matches(),
            // Bytes as text, which need not be kept.
            "head": expected["head"],
        })
    };
    json!(list.iter().zip(heads).map(entry).collect::<Vec<_>>())
}

fn supported(found: &Description) -> Value {
    use fidelity_device::hef::FindingKind;
    let has = |kind| found.findings.iter().any(|finding| finding.kind == kind);
    assert!(!has(FindingKind::UnsupportedExtension));
    json!({ "periph": !has(FindingKind::MissingExtension26), "unknown": [] })
}

fn assert_same_group(found: &Group, expected: &Value, name: &str) {
    let source = match found.source {
        GroupSource::Group => "legacy",
        GroupSource::CoreOp => "ops",
        GroupSource::FirstLayout => "partial",
    };
    let counts = found.edge_counts;
    for (what, found, key) in [
        ("name", json!(found.name), "name"),
        ("index", json!(found.index), "index"),
        ("source", json!(source), "source"),
        ("contexts", json!(found.contexts), "contexts"),
        ("networks", json!(found.networks), "networks_names"),
        ("order of outputs", json!(found.outputs_order), "sorted_outputs"),
        ("post-processing", json!(found.post_processing), "ops"),
        ("layouts", json!(found.layouts.len()), "n_partial"),
        ("bottleneck_fps", json!(found.bottleneck_fps), "bottleneck_fps"),
        ("computational_ops", json!(found.computational_ops), "computational_ops"),
        ("cfg_channels", json!(found.config_channels), "cfg_channels"),
        ("ccw pointers", json!(found.ccws.pointers), "ccw_ptr_count"),
        ("end of ccws", json!(found.ccws.furthest_end), "ccw_ptr_max_end"),
        ("actions", json!(found.ccws.actions), "actions"),
        (
            "edges",
            json!({"BOUNDARY": counts.boundary, "INTERMEDIATE": counts.intermediate, "DDR": counts.ddr, "CACHE": counts.cache}),
            "edge_counts",
        ),
    ] {
        assert_eq!(found, expected[key], "{name}: {what}");
    }
    assert_same_streams(&found.inputs, &expected["inputs"], name);
    assert_same_streams(&found.outputs, &expected["outputs"], name);
    let order: Vec<_> = found.outputs.iter().map(|output| &output.name).collect();
    assert_eq!(order, found.outputs_order.iter().collect::<Vec<_>>(), "{name}");
    let caches = found.cache_edges.iter().map(|edge| {
        let stream = &edge.stream;
        json!({
            "name": stream.name,
            "dir": stream.direction,
            "ctx": stream.context,
            "cache_id": edge.cache_id,
            "hw": stream.padded_shape,
            "shape": stream.shape,
            "bytes": stream.data_bytes,
        })
    });
    assert_eq!(json!(caches.collect::<Vec<_>>()), expected["cache_edges"], "{name}");
}

/// The JSON lists streams in file order.
fn assert_same_streams(found: &[Stream], expected: &Value, name: &str) {
    let expected: BTreeMap<_, _> = expected
        .as_array()
        .expect("a list")
        .iter()
        .map(|stream| (stream["name"].as_str().expect("a name"), stream))
        .collect();
    assert_eq!(found.len(), expected.len(), "{name}");
    for stream in found {
        let mut expected = expected[stream.name.as_str()].clone();
        let object = expected.as_object_mut().expect("an object");
        for not_read in ["hn_output", "n_buffer_indices", "pad_index"] {
            object.remove(not_read);
        }
        assert_eq!(as_expected(stream), expected, "{name}, {}", stream.name);
    }
}

fn as_expected(stream: &Stream) -> Value {
    let none = Quantisation {
        scale: 0.0,
        zero_point: 0.0,
        limits: [0.0; 2],
        per_feature: false,
        scales: Vec::new(),
        zero_points: Vec::new(),
    };
    let numbers = stream.quantisation.as_ref().unwrap_or(&none);
    let head = |list: &[f64]| list.iter().take(2).copied().collect::<Vec<_>>();
    json!({
        "name": stream.name,
        "ctx": stream.context,
        "shape": stream.shape,
        "padded": stream.padded_shape,
        "dev_order": stream.layout.device,
        "host_order": stream.layout.host,
        "data_bytes": stream.data_bytes,
        "type": stream.data_type,
        "transposed": stream.transposed,
        "network_index": stream.network_index,
        "qp_scale": f64::from(numbers.scale),
        "qp_zp": f64::from(numbers.zero_point),
        "limvals": numbers.limits.map(f64::from),
        "n_scales": numbers.scales.len(),
        "n_zps": numbers.zero_points.len(),
        "scales_head": head(&numbers.scales),
        "zps_head": head(&numbers.zero_points),
        "original_names": stream.original_names,
    })
}
