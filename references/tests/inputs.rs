//! Bad checkpoints: each is refused with one sentence that names file, field, found and expected.

mod common;

use std::{fs, path::Path};

use common::golden_folder;
use fidelity_references::{Architecture, Checkpoint};
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

fn config() -> Value {
    serde_json::from_slice(&fs::read(golden_folder("llama-gqa").join("config.json")).expect("there")).expect("JSON")
}

fn parse(config: &Value) -> Result<Architecture, String> {
    Architecture::parse(config.to_string().as_bytes(), None, "config.json").map_err(|error| error.to_string())
}

/// The refusal of a config with one key changed.
fn refusal(key: &str, value: Value) -> String {
    let mut config = config();
    config[key] = value;
    parse(&config).expect_err("refused")
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
fn what_changes_the_computation_is_refused_by_name() {
    for (key, value, expected) in [
        ("model_type", json!("gpt_neox"), "`model_type` is \"gpt_neox\", expected \"llama\""),
        ("architectures", json!(["LlamaForTokenClassification"]), "`architectures` is"),
        ("hidden_act", json!("gelu"), "`hidden_act` is \"gelu\", expected \"silu\""),
        ("rope_scaling", json!({"type": "linear", "factor": 2.0}), "`rope_scaling.type` is \"linear\""),
        ("rope_parameters", json!({"rope_type": "longrope"}), "`rope_parameters.rope_type` is \"longrope\""),
        ("rope_parameters", json!({"rope_theta": 1e4, "factor": 8.0}), "`rope_parameters.factor` = 8.0 is not a key"),
        ("partial_rotary_factor", json!(0.5), "`partial_rotary_factor` is 0.5, expected 1"),
        ("quantization_config", json!({"bits": 4}), "`quantization_config` is {\"bits\":4}"),
        ("sliding_window", json!(128), "`sliding_window` is 128"),
        ("pretraining_tp", json!(2), "`pretraining_tp` is 2"),
        ("logit_scale", json!(2.0), "`logit_scale` = 2.0 is not a key this program knows"),
        ("num_key_value_heads", json!(3), "a divisor of num_attention_heads = 4"),
        ("head_dim", json!(15), "`head_dim` is 15, expected an even number"),
        ("hidden_size", json!(-64), "`hidden_size` is -64"),
        ("hidden_size", json!("64"), "`hidden_size` is \"64\""),
        ("hidden_size", Value::Null, "`hidden_size` is missing"),
        ("num_hidden_layers", json!(1_000_000), "at most 4096"),
        ("vocab_size", json!(1e18), "`vocab_size` is 1e+18"),
        ("rms_norm_eps", json!(0), "`rms_norm_eps` is 0"),
        ("attention_bias", json!("yes"), "expected true or false"),
        ("eos_token_id", json!(-1), "expected a token id"),
    ] {
        let found = refusal(key, value);
        assert!(found.starts_with("config.json: ") && found.contains(expected), "{key}: {found}");
    }
}

#[test]
fn both_dialects_give_one_architecture() {
    let v5 = config();
    let mut v4 = v5.clone();
    let keys = v4.as_object_mut().expect("an object");
    keys.remove("rope_parameters");
    keys.insert("rope_theta".into(), json!(10000));
    keys.insert("rope_scaling".into(), Value::Null);
    assert_eq!(parse(&v4), parse(&v5));
    // theta inside the dict wins, and a legacy rope_scaling replaces rope_parameters.
    let mut both = v5;
    both["rope_theta"] = json!(5e5);
    assert!(parse(&both).is_ok_and(|a| (a.rope_theta - 1e4).abs() < 1e-9));
    both["rope_scaling"] = json!({"rope_type": "default"});
    assert!(parse(&both).is_ok_and(|a| (a.rope_theta - 5e5).abs() < 1e-9));
}

#[test]
fn defaults_are_those_of_the_configuration_class() {
    let bare = json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3.0,
        "num_attention_heads": 4, "vocab_size": 3.2e2, "num_key_value_heads": null, "head_dim": null, "eos_token_id": [2, 3]});
    let a = parse(&bare).expect("enough");
    assert_eq!((a.kv_heads, a.head_dim, a.vocabulary, a.blocks), (4, 16, 320, 3));
    assert_eq!((a.tied_head, a.attention_bias, a.mlp_bias, a.eos.as_slice()), (false, false, false, &[2, 3][..]));
    assert!((a.norm_eps - 1e-6).abs() < 1e-18 && (a.rope_theta - 1e4).abs() < 1e-9);
    let generation = Architecture::parse(bare.to_string().as_bytes(), Some(br#"{"eos_token_id": 7}"#), "config.json");
    assert_eq!(generation.expect("valid").eos, [7], "generation_config.json wins");
}

#[test]
fn a_config_that_is_no_json_object_is_refused() {
    for text in ["", "{", "[]", "// comment\n{}", "{\"hidden_size\": NaN}"] {
        let error = Architecture::parse(text.as_bytes(), None, "config.json").expect_err("refused").to_string();
        assert!(error.starts_with("config.json: not "), "{error}");
    }
    let with_bom = [b"\xef\xbb\xbf".as_slice(), config().to_string().as_bytes()].concat();
    assert!(Architecture::parse(&with_bom, None, "config.json").is_ok());
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
    let cases: [(fn(&mut Vec<u8>), &str); 8] = [
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
    assert!(dtype.contains("has dtype I64, expected F32, F16 or BF16"), "{dtype}");
}

#[test]
fn tensors_without_a_place_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The biased checkpoint's weights under a config without biases.
    fs::copy(golden_folder("llama-bias").join("model.safetensors"), folder.path().join("model.safetensors"))
        .expect("copies");
    fs::write(folder.path().join("config.json"), config().to_string()).expect("writes");
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
