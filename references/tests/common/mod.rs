//! Goldens: tiny checkpoints with the values transformers computes for them.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod gguf;
pub(crate) mod safetensors;
pub(crate) mod sites;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use ::safetensors::{Dtype, SafeTensors};
use fidelity_references::{Checkpoint, Reference};
use fidelity_trace::{Capture, Request, Scope, Subject, Taps};

/// The goldens of decoders this version supports; the encoder's is `bert`.
pub(crate) const GOLDENS: [&str; 16] = [
    "llama-gqa",
    "llama-mha-tied",
    "llama-bias",
    "llama-head-dim",
    "llama-rope-linear",
    "llama-rope-dynamic",
    "llama-rope-llama3",
    "llama-rope-yarn",
    "mistral-window",
    "mistral-nowindow",
    "qwen2",
    "qwen2-window",
    "qwen3",
    "smollm3",
    "gpt2",
    "gpt2-inverse",
];

pub(crate) fn golden_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}

/// golden.safetensors: integers and floats by name, floats with their row length.
pub(crate) struct Golden {
    pub(crate) integers: BTreeMap<String, Vec<u32>>,
    pub(crate) floats: BTreeMap<String, (usize, Vec<f32>)>,
}

pub(crate) fn golden(path: &Path) -> Golden {
    let bytes = fs::read(path).expect("the golden is in the repository");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let mut golden = Golden { integers: BTreeMap::new(), floats: BTreeMap::new() };
    for (name, view) in file.iter() {
        if view.dtype() == Dtype::I64 {
            let values = view.data().as_chunks::<8>().0.iter();
            let values = values.map(|bytes| u32::try_from(i64::from_le_bytes(*bytes)).expect("an id")).collect();
            golden.integers.insert(name.to_owned(), values);
        } else {
            let values = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            golden.floats.insert(name.to_owned(), (*view.shape().last().expect("no scalars"), values));
        }
    }
    golden
}

pub(crate) fn reference(folder: &Path) -> Reference {
    let checkpoint = Checkpoint::open(folder, "golden").expect("a supported checkpoint");
    Reference::without_noise(checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete weights"))
}

pub(crate) fn run(subject: &impl Subject, token_ids: &[u32], new_tokens: usize, scopes: &[Scope]) -> Capture {
    let mut capture = Capture::new(Taps::All);
    let request = Request { token_ids, scopes, continuation: None, new_tokens };
    subject.run(&[request], std::slice::from_mut(&mut capture)).expect("computes");
    capture
}

/// ‖found − expected‖ / ‖expected‖ in float64.
pub(crate) fn relative_l2(expected: &[f32], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let pairs = || expected.iter().zip(found).map(|(e, f)| (f64::from(*e), f64::from(*f)));
    let error: f64 = pairs().map(|(e, f)| (f - e).powi(2)).sum();
    let energy: f64 = pairs().map(|(e, _)| e.powi(2)).sum();
    (error / energy).sqrt()
}
