//! config.json: every key that real implementations got wrong, read as transformers reads it, or refused by name.

mod common;

use std::fs;

use common::golden_folder;
use fidelity_references::{Activation, Architecture, Biases, Layer, RopeScaling};
use serde_json::{Value, json};

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

#[test]
fn what_changes_the_computation_is_refused_by_name() {
    for (key, value, expected) in [
        ("model_type", json!("gpt_neox"), "`model_type` is \"gpt_neox\", expected \"llama\""),
        ("architectures", json!(["LlamaForTokenClassification"]), "`architectures` is"),
        ("hidden_act", json!("mish"), "`hidden_act` is \"mish\", expected \"silu\""),
        ("rope_scaling", json!({"type": "linear"}), "`rope_scaling.factor` is missing"),
        ("rope_parameters", json!({"rope_type": "longrope"}), "`rope_parameters.rope_type` is \"longrope\""),
        ("rope_parameters", json!({"rope_theta": 1e4, "factor": 8.0}), "`rope_parameters.factor` = 8.0 is not a key"),
        ("partial_rotary_factor", json!(0.05), "`partial_rotary_factor` is 0.05, expected a share of head_dim 16"),
        ("quantization_config", json!({"bits": 4}), "`quantization_config` is {\"bits\":4}"),
        ("sliding_window", json!(128), "`sliding_window` is 128"),
        ("pretraining_tp", json!(2), "`pretraining_tp` is 2"),
        ("logit_scale", json!(2.0), "`logit_scale` = 2.0 is not a key this program knows"),
        ("num_key_value_heads", json!(3), "a divisor of num_attention_heads = 4"),
        ("num_key_value_heads", json!(8), "a divisor of num_attention_heads = 4"),
        ("num_attention_heads", json!(0), "`num_attention_heads` is 0"),
        (
            "rope_parameters",
            json!({"rope_theta": "1e4"}),
            "`rope_parameters.rope_theta` is \"1e4\", expected a positive number",
        ),
        ("rope_parameters", json!({"full_attention": {"rope_theta": 1e4}}), "`rope_parameters.full_attention` = "),
        ("rope_parameters", json!({"rope_type": "yarn"}), "`rope_parameters.factor` is missing"),
        ("rope_parameters", json!([1e4]), "`rope_parameters` is [10000.0], expected an object"),
        ("text_config", json!({"hidden_size": 64}), "`text_config` = {\"hidden_size\":64} is not a key"),
        ("vision_config", json!({}), "`vision_config` = {} is not a key"),
        ("original_max_position_embeddings", json!(32), "`original_max_position_embeddings` = 32 is not a key"),
        ("max_position_embeddings", json!(-1), "`max_position_embeddings` is -1"),
        ("intermediate_size", json!(172.5), "`intermediate_size` is 172.5"),
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
    assert!(parse(&both).is_ok_and(|a| (a.rope.expect("rope").theta - 1e4).abs() < 1e-9));
    both["rope_scaling"] = json!({"rope_type": "default"});
    assert!(parse(&both).is_ok_and(|a| (a.rope.expect("rope").theta - 5e5).abs() < 1e-9));
}

#[test]
fn defaults_are_those_of_the_configuration_class() {
    let bare = json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3.0,
        "num_attention_heads": 4, "vocab_size": 3.2e2, "num_key_value_heads": null, "head_dim": null, "eos_token_id": [2, 3]});
    let a = parse(&bare).expect("enough");
    assert_eq!((a.kv_heads, a.head_dim, a.vocabulary, a.blocks), (4, 16, 320, 3));
    assert_eq!(
        (a.tied_head, a.biases, a.eos.as_slice()),
        (false, Biases { qkv: false, o: false, mlp: false }, &[2, 3][..])
    );
    assert!((a.norm_eps - 1e-6).abs() < 1e-18 && (a.rope.expect("rope").theta - 1e4).abs() < 1e-9);
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

/// A config with just the keys every file has.
fn bare(model_type: &str, more: Value) -> Value {
    let mut config = json!({"model_type": model_type, "hidden_size": 128, "intermediate_size": 176, "num_hidden_layers": 4,
        "num_attention_heads": 32, "vocab_size": 320});
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    config
}

fn parsed(model_type: &str, more: Value) -> Architecture {
    parse(&bare(model_type, more)).expect("supported")
}

fn windows(model_type: &str, more: Value) -> Vec<Option<u32>> {
    parsed(model_type, more).layers.iter().map(|layer| layer.window).collect()
}

#[test]
fn absent_head_dims_and_kv_heads_follow_the_family() {
    let shape = |model_type, more| {
        let a = parsed(model_type, more);
        (a.head_dim, a.kv_heads)
    };
    assert_eq!(shape("llama", json!({})), (4, 32));
    assert_eq!(shape("mistral", json!({})), (4, 8));
    assert_eq!(shape("qwen2", json!({})), (4, 32));
    assert_eq!(shape("qwen3", json!({})), (128, 32));
    assert_eq!(shape("smollm3", json!({})), (4, 4));
    for model_type in ["llama", "mistral", "qwen2", "qwen3", "smollm3"] {
        assert_eq!(
            shape(model_type, json!({"num_key_value_heads": null, "head_dim": 6})),
            (6, 32),
            "null means as many as query heads"
        );
    }
}

#[test]
fn biases_follow_the_family_and_its_keys() {
    let biases = |model_type, more| parsed(model_type, more).biases;
    let none = Biases { qkv: false, o: false, mlp: false };
    assert_eq!(
        biases("llama", json!({"attention_bias": true, "mlp_bias": true})),
        Biases { qkv: true, o: true, mlp: true }
    );
    assert_eq!(biases("qwen2", json!({})), Biases { qkv: true, ..none });
    assert_eq!(biases("qwen3", json!({"attention_bias": true})), Biases { qkv: true, o: true, mlp: false });
    assert_eq!(biases("mistral", json!({})), none);
    for (model_type, key) in [("qwen2", "attention_bias"), ("mistral", "attention_bias"), ("qwen3", "mlp_bias")] {
        let refused = parse(&bare(model_type, json!({key: true}))).expect_err("the class has no such key");
        assert!(refused.contains(&format!("`{key}` = true is not a key")), "{refused}");
    }
}

#[test]
fn mistral_windows_are_4096_when_absent_and_none_when_null() {
    assert_eq!(windows("mistral", json!({})), [Some(4096); 4]);
    assert_eq!(windows("mistral", json!({"sliding_window": null})), [None; 4]);
    assert_eq!(windows("mistral", json!({"sliding_window": 8})), [Some(8); 4]);
}

#[test]
fn qwen_windows_need_to_be_used_and_start_where_they_are_told() {
    for model_type in ["qwen2", "qwen3"] {
        let of = |more| windows(model_type, more);
        assert_eq!(of(json!({"sliding_window": 8, "max_window_layers": 0})), [None; 4], "filled in, not used");
        assert_eq!(of(json!({"use_sliding_window": true, "sliding_window": 8})), [None; 4], "from layer 28 on");
        let from_1 = json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1});
        assert_eq!(of(from_1.clone()), [None, Some(8), Some(8), Some(8)]);
        let mut decided = from_1;
        decided["layer_types"] = json!(["sliding_attention", "full_attention", "full_attention", "full_attention"]);
        assert_eq!(of(decided), [Some(8), None, None, None], "layer_types decides alone");
    }
    let contradiction =
        json!({"layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"]});
    assert!(
        parse(&bare("qwen2", contradiction))
            .expect_err("no window")
            .contains("`sliding_window` is missing, expected a window")
    );
    let short = json!({"layer_types": ["full_attention"]});
    assert!(parse(&bare("qwen2", short)).expect_err("too short").contains("expected 4 entries"));
}

#[test]
fn a_window_counts_the_position_itself() {
    let layer = Layer { window: Some(3), rope: true, score_scale: 1.0 };
    let seen: Vec<u32> = (0..10).filter(|key| layer.sees(5, *key)).collect();
    assert_eq!(seen, [3, 4, 5]);
}

#[test]
fn no_rope_layers_is_true_where_rope_is_applied() {
    let rope = |more| parsed("smollm3", more).layers.iter().map(|layer| layer.rope).collect::<Vec<_>>();
    assert_eq!(rope(json!({"no_rope_layers": [1, 0, 0, 1]})), [true, false, false, true]);
    assert_eq!(rope(json!({})), [true, true, true, false], "every fourth layer has none");
    assert_eq!(rope(json!({"no_rope_layer_interval": 2})), [true, false, true, false]);
    assert!(
        parse(&bare("smollm3", json!({"no_rope_layers": [1, 2]})))
            .expect_err("no flags")
            .contains("a list of 4 zeros and ones")
    );
    let sliding = json!({"use_sliding_window": true, "sliding_window": 8});
    assert_eq!(windows("smollm3", sliding), [None, None, None, Some(8)], "layers without RoPE slide");
    assert!(
        parsed("smollm3", json!({})).tied_head
            && (parsed("smollm3", json!({})).rope.expect("rope").theta - 2e6).abs() < 1e-9
    );
}

#[test]
fn rope_variants_are_read_in_both_spellings() {
    let of = |key: &str, dict: Value| {
        parsed("llama", json!({key: dict, "max_position_embeddings": 64})).rope.expect("rope").scaling
    };
    for (key, name) in [("rope_scaling", "type"), ("rope_scaling", "rope_type"), ("rope_parameters", "rope_type")] {
        assert_eq!(of(key, json!({name: "linear", "factor": 2})), RopeScaling::Linear { factor: 2.0 });
        assert_eq!(of(key, json!({name: "default"})), RopeScaling::None);
        assert_eq!(
            of(key, json!({name: "dynamic", "factor": 2.0})),
            RopeScaling::Dynamic { factor: 2.0, max_positions: 64 }
        );
    }
    let yarn = |more: Value| {
        let mut dict = json!({"type": "yarn", "factor": 4.0});
        dict.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        match of("rope_scaling", dict) {
            RopeScaling::Yarn { attention_factor, original, truncate, .. } => (attention_factor, original, truncate),
            other => panic!("{other:?}"),
        }
    };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    let paper = 0.1 * 4.0_f64.ln() + 1.0;
    assert!(close(yarn(json!({})).0, paper));
    assert!(
        close(yarn(json!({"attention_factor": 1.5, "mscale": 2.0, "mscale_all_dim": 1.0})).0, 1.5),
        "explicit wins"
    );
    assert!(close(yarn(json!({"mscale": 2.0, "mscale_all_dim": 1.0})).0, (0.2 * 4.0_f64.ln() + 1.0) / paper));
    assert!(close(yarn(json!({"mscale": 2.0})).0, paper), "one alone is not used");
    assert_eq!(yarn(json!({})).1, 64);
    let rounded = yarn(json!({"original_max_position_embeddings": 32, "truncate": false}));
    assert_eq!((rounded.1, rounded.2), (32, false));
    assert_eq!(parsed("llama", json!({"rope_parameters": {"partial_rotary_factor": 0.5}})).rope.expect("rope").dims, 2);
}

#[test]
fn gpt2_keys_have_their_own_names_and_defaults() {
    let parsed = |more: Value| {
        let mut config =
            json!({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 3, "vocab_size": 320, "n_ctx": 9});
        config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        parse(&config)
    };
    let plain = parsed(json!({"n_inner": null})).expect("supported");
    assert_eq!(
        (plain.mlp, plain.max_positions, plain.tied_head, plain.activation),
        (256, 1024, true, Activation::GeluTanh)
    );
    assert!((plain.norm_eps - 1e-5).abs() < 1e-18 && plain.rope.is_none());
    let scales =
        |more| parsed(more).expect("supported").layers.iter().map(|layer| layer.score_scale).collect::<Vec<_>>();
    assert_eq!(scales(json!({})), [0.25; 3]);
    assert_eq!(scales(json!({"scale_attn_weights": false})), [1.0; 3]);
    assert!((scales(json!({"scale_attn_by_inverse_layer_idx": true}))[1] - 0.125).abs() < 1e-12);
    assert!(
        parsed(json!({"rope_theta": 1e4})).expect_err("no such key").contains("`rope_theta` = 10000.0 is not a key")
    );
    assert!(
        parsed(json!({"activation_function": "tanh"}))
            .expect_err("refused")
            .contains("`activation_function` is \"tanh\"")
    );
}
