//! Folders of weights: heads tied and not, buffers, shards and their index.

mod common;

use std::{collections::BTreeMap, fs, path::Path};

use common::{
    golden_folder,
    safetensors::{checkpoint_folder, joined, parts},
};
use fidelity_references::{Checkpoint, Reference};
use fidelity_trace::{Scope, Site};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Opens and loads; the warnings, or the refusal.
fn loaded(folder: &Path) -> Result<Vec<String>, String> {
    let checkpoint = Checkpoint::open(folder, "test").map_err(|error| error.to_string())?;
    checkpoint.decoder(&|_, tensor| Ok(tensor)).map_err(|error| error.to_string())?;
    Ok(checkpoint.warnings().to_vec())
}

#[test]
fn dtypes_may_be_mixed() {
    let mut parts = parts("llama-gqa");
    for (name, (dtype, _, bytes)) in &mut parts {
        if !name.contains("norm") {
            *dtype = "BF16".into();
            *bytes = bytes.chunks(4).flat_map(|quad| [quad[2], quad[3]]).collect();
        }
    }
    assert_eq!(loaded(checkpoint_folder("llama-gqa", &parts).path()), Ok(vec![]));
}

#[test]
fn heads_tied_and_not() {
    let (head, table) = ("lm_head.weight".to_owned(), "model.embed_tokens.weight");
    let mut tied = parts("llama-mha-tied");
    assert_eq!(loaded(checkpoint_folder("llama-mha-tied", &tied).path()), Ok(vec![]), "tied, no head");
    tied.insert(head.clone(), tied[table].clone());
    assert_eq!(loaded(checkpoint_folder("llama-mha-tied", &tied).path()), Ok(vec![]), "tied, the same head");
    tied.get_mut(&head).expect("there").2[0] ^= 1;
    let warnings = loaded(checkpoint_folder("llama-mha-tied", &tied).path()).expect("accepted");
    assert_eq!(warnings.len(), 1);
    let expected = "the stored `lm_head.weight` is not `model.embed_tokens.weight`: it differs in 1 of 20480 values";
    assert!(warnings[0].contains(expected), "{}", warnings[0]);
    tied.get_mut(&head).expect("there").1.reverse();
    let warnings = loaded(checkpoint_folder("llama-mha-tied", &tied).path()).expect("accepted");
    assert!(warnings[0].contains("it has shape [64, 320], not [320, 64]"), "{}", warnings[0]);

    let mut untied = parts("llama-gqa");
    untied.remove(&head);
    let message = loaded(checkpoint_folder("llama-gqa", &untied).path()).expect_err("refused");
    assert!(message.contains("tensor `lm_head.weight` is missing, expected with shape [320, 64]"), "{message}");
}

#[test]
fn a_tied_embedding_stored_under_the_heads_name_is_read() {
    let logits = |checkpoint: &Checkpoint| {
        let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("loads");
        let capture = common::run(&Reference::without_noise(decoder), &[1, 2, 3], 0, &[Scope::Base]);
        capture.scopes[&Scope::Base].sites[&Site::Logits].row(2).to_vec()
    };
    for (golden, embedding) in [("llama-mha-tied", "model.embed_tokens.weight"), ("gpt2", "transformer.wte.weight")] {
        let mut parts = parts(golden);
        let table = parts.remove(embedding).expect("there");
        parts.insert("lm_head.weight".into(), table);
        let folder = checkpoint_folder(golden, &parts);
        let warnings = loaded(folder.path()).expect("accepted");
        let expected = format!("stored as `lm_head.weight` alone; it is read as `{embedding}`");
        assert!(warnings.len() == 1 && warnings[0].contains(&expected), "{warnings:?}");
        let open = |folder: &Path| Checkpoint::open(folder, "test").expect("supported");
        assert_eq!(logits(&open(folder.path())), logits(&open(&golden_folder(golden))), "{golden}");
    }
}

#[test]
fn known_buffers_are_ignored_and_everything_else_reported() {
    let mut parts = parts("llama-gqa");
    parts.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), ("F32".into(), vec![8], vec![0; 32]));
    parts.insert("transformer.h.0.attn.bias".into(), ("BOOL".into(), vec![1, 1, 2, 2], vec![1; 4]));
    parts.insert("transformer.h.0.attn.masked_bias".into(), ("F32".into(), vec![], vec![0; 4]));
    parts.insert("embeddings.position_ids".into(), ("I64".into(), vec![1, 2], vec![0; 16]));
    assert_eq!(loaded(checkpoint_folder("llama-gqa", &parts).path()), Ok(vec![]));
    parts.insert("model.layers.0.attn.bias".into(), ("F32".into(), vec![64], vec![0; 256]));
    parts.insert("model.layers.0.self_attn.q_norm.weight".into(), ("F32".into(), vec![16], vec![0; 64]));
    let message = loaded(checkpoint_folder("llama-gqa", &parts).path()).expect_err("refused");
    let names = "`model.layers.0.attn.bias`, `model.layers.0.self_attn.q_norm.weight`";
    assert!(message.contains("2 tensors have no place in this architecture: ") && message.contains(names), "{message}");
}

#[test]
fn biases_are_there_exactly_where_the_architecture_has_them() {
    for name in ["q_proj", "k_proj", "v_proj"] {
        let mut parts = parts("qwen2");
        parts.remove(&format!("model.layers.1.self_attn.{name}.bias"));
        let message = loaded(checkpoint_folder("qwen2", &parts).path()).expect_err("refused");
        assert!(message.contains(&format!("tensor `model.layers.1.self_attn.{name}.bias` is missing")), "{message}");
    }
    for (golden, name, width) in [
        ("llama-gqa", "self_attn.v_proj", 32),
        ("qwen2", "self_attn.o_proj", 64),
        ("mistral-window", "mlp.up_proj", 176),
    ] {
        let mut parts = parts(golden);
        let bias = format!("model.layers.1.{name}.bias");
        parts.insert(bias.clone(), ("F32".into(), vec![width], vec![0; 4 * width]));
        let message = loaded(checkpoint_folder(golden, &parts).path()).expect_err("refused");
        assert!(message.contains(&format!("1 tensors have no place in this architecture: `{bias}`")), "{message}");
    }
}

#[test]
fn other_prefixes_are_refused() {
    for prefix in ["transformer.", "language_model.model.", ""] {
        let parts = parts("llama-gqa");
        let renamed = parts.into_iter().map(|(name, part)| (name.replace("model.", prefix), part)).collect();
        let message = loaded(checkpoint_folder("llama-gqa", &renamed).path()).expect_err("refused");
        assert!(message.contains("tensor `model.embed_tokens.weight` is missing"), "{message}");
    }
}

/// A golden in two shards `model-0000N-of-00002.safetensors`, with an index.
fn sharded() -> TempDir {
    let mut first = parts("llama-gqa");
    let second = first.split_off("model.layers.1");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut map = BTreeMap::new();
    for (shard, parts) in [(shard_name(1), first), (shard_name(2), second)] {
        fs::write(folder.path().join(&shard), joined(&parts)).expect("writes");
        map.extend(parts.into_keys().map(|name| (name, shard.clone())));
    }
    write_index(folder.path(), &map);
    fs::copy(golden_folder("llama-gqa").join("config.json"), folder.path().join("config.json")).expect("copies");
    folder
}

fn shard_name(number: u32) -> String {
    format!("model-{number:05}-of-00002.safetensors")
}

fn write_index(folder: &Path, map: &BTreeMap<String, String>) {
    fs::write(folder.join("model.safetensors.index.json"), json!({ "weight_map": map }).to_string()).expect("writes");
}

fn change_index(folder: &Path, change: impl FnOnce(&mut BTreeMap<String, String>)) {
    let text = fs::read(folder.join("model.safetensors.index.json")).expect("there");
    let index: Value = serde_json::from_slice(&text).expect("JSON");
    let mut map = serde_json::from_value(index["weight_map"].clone()).expect("a map");
    change(&mut map);
    write_index(folder, &map);
}

/// What becomes of the sharded golden after a change.
fn sharded_after(change: impl FnOnce(&Path)) -> Result<Vec<String>, String> {
    let folder = sharded();
    change(folder.path());
    loaded(folder.path())
}

#[test]
fn shards_and_their_index_must_agree() {
    let norm = "model.norm.weight".to_owned();
    assert_eq!(sharded_after(|_| ()), Ok(vec![]));
    let refused = |change: &dyn Fn(&Path), expected: &str| {
        let message = sharded_after(change).expect_err(expected);
        assert!(message.contains(expected), "expected {expected:?}, found {message:?}");
    };
    refused(
        &|folder| fs::remove_file(folder.join(shard_name(2))).expect("there"),
        "names the shard model-00002-of-00002.safetensors, which is not in the folder",
    );
    refused(
        &|folder| change_index(folder, |map| *map.get_mut(&norm).expect("there") = shard_name(1)),
        "puts tensor `model.norm.weight` in model-00001-of-00002.safetensors, found in model-00002-of-00002.safetensors",
    );
    refused(
        &|folder| {
            fs::copy(folder.join(shard_name(1)), folder.join(shard_name(2))).expect("copies");
        },
        "is in another shard too; each tensor must be in one shard",
    );
    refused(&|folder| change_index(folder, |map| drop(map.remove(&norm))), "does not list tensor `model.norm.weight`");
    refused(
        &|folder| change_index(folder, |map| map.retain(|_, shard| *shard == shard_name(1))),
        "names a numbered family of shards without model-00002-of-00002.safetensors",
    );
    refused(
        &|folder| fs::write(folder.join("model.safetensors.index.json"), "{}").expect("writes"),
        "no `weight_map` object in it",
    );
}

#[test]
fn files_that_no_one_names_are_warned_of() {
    let extra = |folder: &Path| {
        fs::copy(folder.join(shard_name(1)), folder.join("consolidated.safetensors")).expect("copies");
    };
    let warnings = sharded_after(extra).expect("accepted");
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("consolidated.safetensors is in the folder, but no part of the checkpoint"),
        "{warnings:?}"
    );
}

#[test]
fn without_an_index_only_a_whole_family_is_read() {
    let index = "model.safetensors.index.json";
    assert_eq!(sharded_after(|folder| fs::remove_file(folder.join(index)).expect("there")), Ok(vec![]));
    let message = sharded_after(|folder| {
        fs::remove_file(folder.join(index)).expect("there");
        fs::remove_file(folder.join(shard_name(1))).expect("there");
    });
    let message = message.expect_err("refused");
    assert!(message.contains("the numbered shards lack model-00001-of-00002.safetensors"), "{message}");
}
