//! A client of raw frames, a host that feeds tokens by the contract, and a recomputation.

mod client;
mod host;
mod recompute;

use std::path::Path;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use fidelity_mock_soc::{Checkpoint, HefOptions, MockSoc, Options, build, unused_loopback};

pub(crate) use client::{Client, Link, bytes_of, number_of, text_of};
pub(crate) use host::{Host, Pace};
pub(crate) use recompute::Reference;

/// The checkpoint that the program carries.
pub(crate) fn demo() -> Checkpoint {
    Checkpoint::read(&demo_folder()).expect("the demo checkpoint")
}

pub(crate) fn demo_folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/demo")
}

/// A HEF of the demo checkpoint.
pub(crate) fn hef(options: &HefOptions) -> Vec<u8> {
    build(&demo(), options).expect("it can be compiled")
}

/// A chip at an address of its own.
pub(crate) fn start(change: impl FnOnce(&mut Options)) -> MockSoc {
    let mut options = Options::at(unused_loopback());
    change(&mut options);
    MockSoc::start(options).expect("a free address")
}

/// Ids of a text that does not repeat.
pub(crate) fn ids(count: usize) -> Vec<usize> {
    (0..count).map(|index| (index * 97 + index * index * 31 + 5) % 512).collect()
}

/// Pearson's correlation.
pub(crate) fn pearson(one: &[f32], other: &[f32]) -> f64 {
    assert_eq!(one.len(), other.len());
    let mean = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
    let (first, second) = (mean(one), mean(other));
    let sums = one.iter().zip(other).fold([0.0; 3], |[product, one, two], (x, y)| {
        let (x, y) = (f64::from(*x) - first, f64::from(*y) - second);
        [product + x * y, one + x * x, two + y * y]
    });
    sums[0] / (sums[1] * sums[2]).sqrt()
}

/// The largest difference.
pub(crate) fn distance(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

/// The checkpoint with biases of q, k, v and a head that is not the embedding.
pub(crate) fn with_biases_and_head(mut checkpoint: Checkpoint) -> Checkpoint {
    let file = SafeTensors::deserialize(&checkpoint.weights).expect("safetensors");
    let mut tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        .collect();
    let floats = |count: usize, scale: f32| -> Vec<u8> {
        let value = |index: usize| ((index * 53 % 29) as f32 / 29.0 - 0.5) * scale;
        (0..count).flat_map(|index| value(index).to_le_bytes()).collect()
    };
    for layer in 0..4 {
        for (part, width) in [("q", 128), ("k", 64), ("v", 64)] {
            let name = format!("model.layers.{layer}.self_attn.{part}_proj.bias");
            tensors.push((name, Dtype::F32, vec![width], floats(width, 2.0)));
        }
    }
    tensors.push(("lm_head.weight".into(), Dtype::F32, vec![512, 128], floats(512 * 128, 0.5)));
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (name, TensorView::new(*dtype, shape.clone(), bytes).expect("a tensor")));
    checkpoint.weights = safetensors::serialize(views, None).expect("it can be written");
    checkpoint
}
