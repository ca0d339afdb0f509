//! Bad checkpoints: each is refused with one sentence that names file, field, found and expected.

mod common;

use std::{fs, path::Path};

use common::golden_folder;
use fidelity_references::Checkpoint;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A copy of a golden checkpoint, to be damaged.
fn copy() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden_folder("llama-gqa").join(file), folder.path().join(file)).expect("copies");
    }
    folder
}

fn open(folder: &Path) -> Result<(), String> {
    let checkpoint = Checkpoint::open(folder, "test").map_err(|error| error.to_string())?;
    checkpoint.decoder(&|_, tensor| Ok(tensor)).map(|_| ()).map_err(|error| error.to_string())
}

fn damaged(damage: impl FnOnce(&Path)) -> String {
    let folder = copy();
    damage(folder.path());
    open(folder.path()).expect_err("refused")
}

#[test]
fn damaged_weight_files_are_refused() {
    let file = |folder: &Path| folder.join("model.safetensors");
    let rewrite = |change: fn(&mut Vec<u8>)| {
        move |folder: &Path| {
            let mut bytes = fs::read(file(folder)).expect("there");
            change(&mut bytes);
            fs::write(file(folder), bytes).expect("writes");
        }
    };
    type Case = (fn(&mut Vec<u8>), &'static str);
    let cases: [Case; 8] = [
        (
            |bytes| {
                bytes.pop();
            },
            "truncated; download it again",
        ),
        (|bytes| bytes.truncate(bytes.len() / 2), "truncated; download it again"),
        (|bytes| bytes.push(0), "followed by other bytes"),
        (|bytes| bytes.truncate(5), "5 bytes, too short"),
        (|bytes| bytes.clear(), "0 bytes, too short"),
        (|bytes| bytes[7] = 0x80, "its header claims"),
        (|bytes| bytes[8] = b'[', "its header is not a safetensors header"),
        (
            |bytes| *bytes = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n".to_vec(),
            "a Git LFS pointer",
        ),
    ];
    for (change, expected) in cases {
        let found = damaged(rewrite(change));
        assert!(found.contains("model.safetensors: ") && found.contains(expected), "{found}");
    }
    let missing = damaged(|folder| fs::remove_file(file(folder)).expect("there"));
    assert!(missing.contains("model.safetensors is missing"), "{missing}");
}

/// Writes a safetensors file of zero tensors.
fn write(path: &Path, tensors: &[(&str, &str, &[usize])]) {
    let size = |dtype: &str| if dtype == "F32" { 4 } else { 8 };
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, dtype, shape) in tensors {
        let start = end;
        end += shape.iter().product::<usize>() * size(dtype);
        header.insert((*name).into(), json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]}));
    }
    let header = Value::Object(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; end]].concat();
    fs::write(path, bytes).expect("writes");
}

#[test]
fn tensors_must_fit_the_architecture() {
    let with = |tensors: &'static [(&str, &str, &[usize])]| {
        damaged(move |folder| write(&folder.join("model.safetensors"), tensors))
    };
    let none = with(&[]);
    assert!(none.contains("tensor `model.embed_tokens.weight` is missing, expected with shape [320, 64]"), "{none}");
    let shape = with(&[("model.embed_tokens.weight", "F32", &[64, 320])]);
    assert!(shape.contains("has shape [64, 320], expected [320, 64] as config.json says"), "{shape}");
    let dtype = with(&[("model.embed_tokens.weight", "I64", &[320, 64])]);
    assert!(dtype.contains("has dtype I64, expected F32, F16, BF16 or F64"), "{dtype}");
}

#[test]
fn tensors_without_a_place_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The biased checkpoint's weights under a config without biases.
    fs::copy(golden_folder("llama-bias").join("model.safetensors"), folder.path().join("model.safetensors"))
        .expect("copies");
    fs::write(
        folder.path().join("config.json"),
        fs::read(golden_folder("llama-gqa").join("config.json")).expect("there"),
    )
    .expect("writes");
    let error = open(folder.path()).expect_err("refused");
    assert!(
        error.contains("tensors have no place in this architecture: `model.layers.0.mlp.down_proj.bias`"),
        "{error}"
    );
}

#[test]
fn shards_are_read_and_contradictions_refused() {
    let folder = copy();
    let at = |name: &str| folder.path().join(name);
    fs::rename(at("model.safetensors"), at("model-00001-of-00001.safetensors")).expect("renames");
    let names: Vec<String> = {
        let bytes = fs::read(at("model-00001-of-00001.safetensors")).expect("there");
        safetensors::SafeTensors::deserialize(&bytes).expect("whole").names().into_iter().map(str::to_owned).collect()
    };
    let index = |shard: &str, extra: Option<&str>| {
        let map: serde_json::Map<_, _> =
            names.iter().map(String::as_str).chain(extra).map(|name| (name.to_owned(), json!(shard))).collect();
        fs::write(at("model.safetensors.index.json"), json!({ "weight_map": map }).to_string()).expect("writes");
        open(folder.path())
    };
    assert_eq!(index("model-00001-of-00001.safetensors", None), Ok(()));
    let ghost = index("model-00001-of-00001.safetensors", Some("ghost")).expect_err("refused");
    assert!(ghost.contains("puts tensor `ghost` in model-00001-of-00001.safetensors, found in no shard"), "{ghost}");
    assert!(
        index("model-00002.safetensors", None)
            .expect_err("refused")
            .contains("names the shard model-00002.safetensors, which is not")
    );
    assert!(index("../x.safetensors", None).expect_err("refused").contains("expected a file name inside the folder"));
}

#[test]
fn a_tokenizer_with_more_ids_than_the_embedding_is_refused() {
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 320}, "unk_token": "a"}});
    let error = damaged(|folder| fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("writes"));
    assert!(error.contains("token \"b\" has id 320, but config.json's vocab_size is 320"), "{error}");
    let error = damaged(|folder| fs::write(folder.join("tokenizer.json"), "{}").expect("writes"));
    assert!(error.contains("not a tokenizer this program can read"), "{error}");
}

#[test]
fn a_contradiction_about_bos_is_a_warning() {
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}});
    let warnings = |said: bool| {
        let folder = copy();
        fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).expect("writes");
        fs::write(folder.path().join("tokenizer_config.json"), json!({"add_bos_token": said}).to_string())
            .expect("writes");
        Checkpoint::open(folder.path(), "test").expect("supported").warnings().to_vec()
    };
    assert!(warnings(false).is_empty());
    let found = warnings(true);
    assert!(found.len() == 1 && found[0].contains("add_bos_token = true, but tokenizer.json puts no BOS"), "{found:?}");
}

#[test]
fn a_partial_rotation_that_transformers_does_not_do_is_a_warning() {
    let warnings = |factor: f64| {
        let folder = copy();
        let file = folder.path().join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
        config["partial_rotary_factor"] = json!(factor);
        fs::write(&file, config.to_string()).expect("writes");
        Checkpoint::open(folder.path(), "test").expect("supported").warnings().to_vec()
    };
    assert!(warnings(1.0).is_empty());
    let found = warnings(0.5);
    let expected =
        "8 of 16 dimensions of a head are rotated, and the reference rotates so many; transformers 5 rotates them all";
    assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
}
