//! Weights of encoders: what tensors may be called, which are left alone, which change what.

mod common;

use std::{collections::BTreeMap, fs, path::Path};

use common::{golden, golden_folder, reference, relative_l2, run};
use fidelity_references::Checkpoint;
use fidelity_trace::{Scope, Site};

const TOLERANCE: f64 = 1e-5;

fn ids() -> Vec<u32> {
    golden(&golden_folder("bert").join("golden.safetensors")).integers["token_ids"].clone()
}

/// Copies the golden with other tensors, by name and values.
fn rewritten(change: &dyn Fn(&str, &mut Vec<f32>) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = golden_folder("bert");
    fs::copy(source.join("config.json"), folder.path().join("config.json")).expect("copies");
    let bytes = fs::read(source.join("model.safetensors")).expect("there");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("whole");
    let tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = file
        .iter()
        .map(|(name, view)| {
            let mut values = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let name = change(name, &mut values);
            (name, (view.shape().to_vec(), values.iter().flat_map(|value| value.to_le_bytes()).collect()))
        })
        .collect();
    write(&folder.path().join("model.safetensors"), &tensors);
    folder
}

fn write(path: &Path, tensors: &BTreeMap<String, (Vec<usize>, Vec<u8>)>) {
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        (name, safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).expect("fits"))
    });
    let bytes = safetensors::serialize(views, None).expect("lays out");
    fs::write(path, bytes).expect("writes");
}

fn last_hidden(folder: &Path) -> Vec<f32> {
    run(&reference(folder), &ids(), 0, &[Scope::Base]).scopes[&Scope::Base].sites[&Site::FinalNorm].values.clone()
}

#[test]
fn prefix_and_old_norm_names_load_to_one_reference() {
    let plain = last_hidden(&golden_folder("bert"));
    let old = |name: &str| {
        let scale = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        scale.replace("LayerNorm.bias", "LayerNorm.beta")
    };
    let prefixed = rewritten(&|name, _| format!("bert.{name}"));
    let gamma = rewritten(&|name, _| old(name));
    let both = rewritten(&|name, _| format!("bert.{}", old(name)));
    for folder in [prefixed, gamma, both] {
        assert_eq!(last_hidden(folder.path()), plain);
    }
}

#[test]
fn names_of_nobody_and_two_prefixes_at_once_are_refused() {
    let error = |folder: &tempfile::TempDir| {
        let checkpoint = Checkpoint::open(folder.path(), "test").expect("the configuration is sound");
        checkpoint.decoder(&|_, tensor| Ok(tensor)).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let language = rewritten(&|name, _| format!("language_model.{name}"));
    assert!(error(&language).contains("tensor `embeddings.word_embeddings.weight` is missing"), "{}", error(&language));
    let mixed = rewritten(&|name, _| match name.contains("layer.2.") {
        true => format!("bert.{name}"),
        false => name.to_owned(),
    });
    assert!(error(&mixed).contains("`encoder.layer.2."), "{}", error(&mixed));
    let extra = rewritten(&|name, _| match name {
        "pooler.dense.bias" => "classifier.bias".to_owned(),
        other => other.to_owned(),
    });
    assert!(error(&extra).contains("no place in this architecture: `classifier.bias`"), "{}", error(&extra));
}

#[test]
fn heads_for_pre_training_are_not_computed_and_that_is_said() {
    let folder = rewritten(&|name, _| match name {
        "pooler.dense.bias" => "cls.predictions.transform.dense.bias".to_owned(),
        other => other.to_owned(),
    });
    let checkpoint = Checkpoint::open(folder.path(), "test").expect("supported");
    assert!(checkpoint.warnings()[0].contains("`cls.predictions.transform.dense.bias`), which is not computed"));
    assert_eq!(last_hidden(folder.path()), last_hidden(&golden_folder("bert")));
}

#[test]
fn a_bias_of_keys_changes_nothing_and_the_one_of_values_does() {
    // Without RoPE a bias of k adds one constant to all scores of a query, which the softmax takes away again.
    let plain = last_hidden(&golden_folder("bert"));
    let with = |bias: &'static str| {
        let folder = rewritten(&|name, values| {
            if name.ends_with(bias) {
                values
                    .iter_mut()
                    .enumerate()
                    .for_each(|(index, value)| *value += if index % 2 == 0 { 0.5 } else { -0.3 });
            }
            name.to_owned()
        });
        relative_l2(&plain, &last_hidden(folder.path()))
    };
    assert!(with("self.key.bias") <= TOLERANCE);
    assert!(with("self.value.bias") > 0.01 && with("self.query.bias") > 1e-3);
}

#[test]
fn the_first_row_of_token_types_is_added_and_no_other() {
    let plain = last_hidden(&golden_folder("bert"));
    let with = |row: usize| {
        let folder = rewritten(&|name, values| {
            if name == "embeddings.token_type_embeddings.weight" {
                values[row * 64..(row + 1) * 64].iter_mut().step_by(2).for_each(|value| *value += 0.5);
            }
            name.to_owned()
        });
        relative_l2(&plain, &last_hidden(folder.path()))
    };
    assert!(with(0) > 0.01 && with(1) < f64::EPSILON);
}
