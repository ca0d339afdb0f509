//! Writing safetensors files, valid ones and any other.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{gguf::float32_tensors, golden_folder};

/// A file of this header and `data_bytes` zeros.
pub(crate) fn file(header: &str, data_bytes: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data_bytes]].concat()
}

/// A folder whose model.safetensors has these bytes.
pub(crate) fn folder(bytes: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("model.safetensors"), bytes).expect("writes");
    folder
}

/// A tensor as the header describes it.
pub(crate) fn tensor(dtype: &str, shape: &Value, begin: u64, end: u64) -> Value {
    json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]})
}

/// The bytes of a golden's weights, changed tensor by tensor: name, dtype, shape, data.
pub(crate) type Parts = BTreeMap<String, (String, Vec<usize>, Vec<u8>)>;

pub(crate) fn parts(golden: &str) -> Parts {
    let tensors = float32_tensors(&golden_folder(golden).join("model.safetensors"));
    let bytes = |values: Vec<f32>| values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensors.into_iter().map(|(name, (shape, values))| (name, ("F32".into(), shape, bytes(values)))).collect()
}

pub(crate) fn joined(parts: &Parts) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (dtype, shape, bytes)) in parts {
        let begin = data.len() as u64;
        data.extend(bytes);
        header.insert(name.clone(), tensor(dtype, &json!(shape), begin, data.len() as u64));
    }
    [file(&Value::Object(header).to_string(), 0), data].concat()
}

/// A golden's folder with other weights.
pub(crate) fn checkpoint_folder(golden: &str, parts: &Parts) -> TempDir {
    let folder = folder(&joined(parts));
    fs::copy(golden_folder(golden).join("config.json"), folder.path().join("config.json")).expect("copies");
    folder
}
