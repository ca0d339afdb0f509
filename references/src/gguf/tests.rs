//! Metadata → config.json, key by key, whatever the config reader supports of it.

use std::collections::BTreeMap;

use candle_core::quantized::GgmlDType;
use serde_json::{Value as Json, json};

use super::{
    architecture::{config, family},
    header::{Header, Info},
    value::{Kind, Value},
};

fn whole(value: i128) -> Value {
    Value::Whole { kind: Kind::U32, value }
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// A minimal header of an architecture, with more entries and tensors.
fn translated(architecture: &str, entries: &[(&str, Value)], tensors: &[&str]) -> Result<Json, String> {
    let table = [
        ("embedding_length", whole(64)),
        ("feed_forward_length", whole(96)),
        ("block_count", whole(2)),
        ("attention.head_count", whole(4)),
        ("context_length", whole(512)),
        ("attention.layer_norm_rms_epsilon", Value::Real(1e-6)),
    ];
    let mut metadata: BTreeMap<_, _> =
        table.into_iter().map(|(key, value)| (format!("{architecture}.{key}"), value)).collect();
    metadata.insert("general.architecture".into(), text(architecture));
    metadata.extend(entries.iter().map(|(key, value)| (key.replace("ARCH", architecture), value.clone())));
    let info = || Info { kind: GgmlDType::F32, shape: vec![320, 64], offset: 0, size_bytes: 0 };
    let names = tensors.iter().chain(&["token_embd.weight"]);
    let tensors = names.map(|name| ((*name).to_owned(), info())).collect();
    let header = Header { metadata, tensors, data_start: 0 };
    family(&header, "x.gguf")
        .and_then(|family| config(&header, family, "x.gguf"))
        .map(Json::Object)
        .map_err(|error| error.to_string())
}

#[test]
fn every_size_is_written_out() {
    let found = translated("qwen2", &[("ARCH.attention.head_count_kv", whole(2))], &["output.weight"]);
    let expected = json!({"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": 320, "tie_word_embeddings": false});
    assert_eq!(found, Ok(expected));
    let alone = translated("qwen3", &[], &[]).expect("enough");
    assert_eq!((&alone["num_key_value_heads"], &alone["tie_word_embeddings"]), (&json!(4), &json!(true)));
    assert_eq!(alone["head_dim"], json!(16), "not the 128 of the configuration class");
}

#[test]
fn biases_are_what_the_tensors_are() {
    let biases = ["blk.0.attn_q.bias", "blk.0.ffn_gate.bias"];
    let llama = translated("llama", &[], &biases).expect("enough");
    assert_eq!((&llama["attention_bias"], &llama["mlp_bias"]), (&json!(true), &json!(true)));
    let bare = translated("llama", &[], &[]).expect("enough");
    assert_eq!((&bare["attention_bias"], &bare["mlp_bias"]), (&json!(false), &json!(false)));
    assert_eq!(translated("qwen2", &[], &biases).expect("enough").get("attention_bias"), None);
}

#[test]
fn ids_that_end_a_generation() {
    let ids =
        |entries: &[(&str, Value)]| translated("llama", entries, &[]).map(|config| config["eos_token_id"].clone());
    assert_eq!(ids(&[]), Ok(Json::Null));
    let (eos, eot) = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id");
    assert_eq!(ids(&[(eos, whole(0)), (eot, whole(9))]), Ok(json!([0, 9])));
    assert_eq!(ids(&[(eos, whole(9)), (eot, whole(9))]), Ok(json!([9])));
    assert!(ids(&[(eos, whole(-1))]).is_err_and(|error| error.contains("a whole number from 0 on")));
}

#[test]
fn rope_scaling() {
    let rope =
        |entries: &[(&str, Value)]| translated("llama", entries, &[]).map(|config| config["rope_scaling"].clone());
    let (kind, factor) = ("ARCH.rope.scaling.type", "ARCH.rope.scaling.factor");
    let linear = Ok(json!({"rope_type": "linear", "factor": 4.0}));
    assert_eq!(rope(&[(kind, text("none"))]), Ok(Json::Null));
    assert_eq!(rope(&[(kind, text("linear")), (factor, Value::Real(4.0))]), linear);
    assert_eq!(rope(&[(factor, Value::Real(4.0))]), linear);
    assert_eq!(rope(&[("ARCH.rope.scale_linear", Value::Real(4.0))]), linear);
    let yarn = [
        (kind, text("yarn")),
        (factor, Value::Real(4.0)),
        ("ARCH.rope.scaling.original_context_length", whole(128)),
        ("ARCH.rope.scaling.yarn_beta_fast", Value::Real(16.0)),
        ("ARCH.rope.scaling.finetuned", Value::Flag(true)),
    ];
    let expected =
        json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 16.0});
    assert_eq!(rope(&yarn), Ok(expected));
    for (entries, expected) in [
        (vec![(kind, text("longrope"))], "`llama.rope.scaling.type` is \"longrope\", expected"),
        (vec![(kind, text("linear"))], "`llama.rope.scaling.factor` is missing"),
        (vec![(kind, text("none")), (factor, Value::Real(4.0))], "`llama.rope.scaling.factor` = 4.0 is not a key"),
        (vec![(factor, Value::Real(f64::NAN))], "`llama.rope.scaling.factor` is NaN, expected a positive number"),
        ([&yarn[..], &[("ARCH.rope.scaling.attn_factor", Value::Real(2.0))]].concat(), "is 2.0, expected 1.0"),
    ] {
        assert!(rope(&entries).is_err_and(|error| error.contains(expected)), "{expected}: {:?}", rope(&entries));
    }
}

#[test]
fn head_widths() {
    let count = "ARCH.rope.dimension_count";
    let factor = |architecture, turned| {
        translated(architecture, &[(count, whole(turned))], &[]).map(|config| config["partial_rotary_factor"].clone())
    };
    assert_eq!(factor("qwen3", 8), Ok(json!(0.5)));
    assert_eq!(factor("llama", 16), Ok(Json::Null));
    assert!(factor("llama", 8).is_err_and(|error| error.contains("`llama.rope.dimension_count` is 8, expected 16")));
    assert!(factor("qwen3", 32).is_err());
    let (key, value) = ("ARCH.attention.key_length", "ARCH.attention.value_length");
    let width = |entries: &[(&str, Value)]| translated("qwen3", entries, &[]).map(|config| config["head_dim"].clone());
    assert_eq!(width(&[(key, whole(128)), (value, whole(128))]), Ok(json!(128)));
    assert!(width(&[(key, whole(128)), (value, whole(64))]).is_err_and(|error| error.contains("is 64, expected 128")));
    assert!(width(&[("ARCH.attention.head_count", whole(5))]).is_err_and(|error| error.contains("no multiple")));
}

#[test]
fn keys_that_change_the_computation() {
    for (key, value, expected) in [
        ("ARCH.expert_count", whole(8), "`llama.expert_count` is 8, expected 0"),
        ("ARCH.attention.causal", Value::Flag(false), "is false, expected true"),
        ("ARCH.tensor_data_layout", text("reference"), "`llama.tensor_data_layout` is \"reference\""),
        ("ARCH.logit_scale", Value::Real(0.5), "`llama.logit_scale` = 0.5 is not a key this program knows"),
        ("ARCH.block_count", whole(0), "`llama.block_count` is 0, expected a whole number from 1 on"),
        ("ARCH.feed_forward_length", Value::List { kind: Kind::I32, count: 2 }, "is a list of 2 I32"),
        ("ARCH.context_length", text("512"), "is \"512\", expected a whole number"),
        ("ARCH.attention.layer_norm_rms_epsilon", Value::Real(0.0), "is 0.0, expected a positive number"),
        ("other.block_count", whole(2), "`other.block_count` = 2 is not a key"),
    ] {
        let found = translated("llama", &[(key, value)], &[]);
        assert!(found.as_ref().is_err_and(|error| error.contains(expected)), "{key}: {found:?}");
    }
    assert!(translated("llama", &[("general.name", text("x")), ("quantize.imatrix.file", text("y"))], &[]).is_ok());
    let factors = translated("llama", &[], &["rope_freqs.weight"]);
    assert!(factors.is_err_and(|error| error.contains("tensor `rope_freqs.weight` scales RoPE")));
}
