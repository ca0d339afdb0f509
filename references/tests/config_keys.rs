//! Keys of config.json whose meaning is easily missed, beyond those of `config.rs`: activations, tied heads, ids, epsilons,
//! positions.

use fidelity_references::{Activation, Architecture};
use serde_json::{Value, json};

const FAMILIES: [&str; 5] = ["llama", "mistral", "qwen2", "qwen3", "smollm3"];

fn parse(model_type: &str, more: &Value) -> Result<Architecture, String> {
    let mut config = match model_type {
        "gpt2" => json!({"n_embd": 128, "n_head": 32, "n_layer": 4, "vocab_size": 320}),
        _ => json!({"hidden_size": 128, "intermediate_size": 176, "num_hidden_layers": 4, "num_attention_heads": 32,
            "vocab_size": 320}),
    };
    config["model_type"] = json!(model_type);
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    Architecture::parse(config.to_string().as_bytes(), None, "config.json").map_err(|error| error.to_string())
}

fn parsed(model_type: &str, more: &Value) -> Architecture {
    parse(model_type, more).expect("supported")
}

#[test]
fn activations_by_their_names() {
    let names = [
        ("silu", Activation::Silu),
        ("swish", Activation::Silu),
        ("gelu", Activation::GeluErf),
        ("gelu_new", Activation::GeluTanh),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
        ("quick_gelu", Activation::GeluQuick),
        ("relu", Activation::Relu),
    ];
    for (name, activation) in names {
        assert_eq!(parsed("llama", &json!({"hidden_act": name})).activation, activation);
        assert_eq!(parsed("gpt2", &json!({"activation_function": name})).activation, activation);
    }
    assert_eq!(FAMILIES.map(|family| parsed(family, &json!({})).activation), [Activation::Silu; 5]);
    // The key of the other family is none here.
    assert!(
        parse("gpt2", &json!({"hidden_act": "gelu"})).expect_err("no such key").contains("`hidden_act` = \"gelu\"")
    );
    let error = parse("llama", &json!({"activation_function": "gelu"})).expect_err("no such key");
    assert!(error.contains("`activation_function` = \"gelu\" is not a key"), "{error}");
}

#[test]
fn heads_are_tied_by_the_class_unless_the_file_says() {
    let tied = |family: &str, more: Value| parsed(family, &more).tied_head;
    assert_eq!(FAMILIES.map(|family| tied(family, json!({}))), [false, false, false, false, true]);
    assert!(tied("gpt2", json!({})));
    for family in FAMILIES.into_iter().chain(["gpt2"]) {
        for said in [true, false] {
            assert_eq!(tied(family, json!({"tie_word_embeddings": said})), said);
        }
    }
}

#[test]
fn epsilons_have_their_familys_name_and_default() {
    let eps = |family: &str, more: Value| parsed(family, &more).norm_eps;
    let near = |a: f64, b: f64| (a - b).abs() < 1e-18;
    assert!(FAMILIES.iter().all(|family| near(eps(family, json!({})), 1e-6)));
    assert!(FAMILIES.iter().all(|family| near(eps(family, json!({"rms_norm_eps": 1e-5})), 1e-5)));
    assert!(near(eps("gpt2", json!({"layer_norm_epsilon": 1e-6})), 1e-6));
    for (family, key) in [("llama", "layer_norm_epsilon"), ("llama", "layer_norm_eps"), ("gpt2", "layer_norm_eps")] {
        let error = parse(family, &json!({key: 1e-6})).expect_err("another family's key");
        assert!(error.contains(&format!("`{key}` = 1e-6 is not a key")), "{error}");
    }
}

#[test]
fn ids_are_one_or_several_or_none() {
    let ids = |more: Value| {
        let a = parsed("llama", &more);
        (a.bos, a.eos)
    };
    assert_eq!(ids(json!({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": -1})), (Some(1), vec![2]));
    assert_eq!(ids(json!({"bos_token_id": null, "eos_token_id": [2, 5], "pad_token_id": null})), (None, vec![2, 5]));
    assert_eq!(ids(json!({"eos_token_id": []})), (None, vec![]));
    let generation = |text: &[u8]| {
        let config =
            br#"{"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 9, "eos_token_id": 3}"#;
        Architecture::parse(config, Some(text), "config.json").map(|a| a.eos).map_err(|error| error.to_string())
    };
    assert_eq!(generation(br#"{"eos_token_id": [7, 8]}"#), Ok(vec![7, 8]));
    assert_eq!(generation(br#"{"eos_token_id": null}"#), Ok(vec![3]), "null says nothing");
    assert_eq!(generation(b"{}"), Ok(vec![3]));
    let error = generation(br#"{"eos_token_id": "7"}"#).expect_err("no id");
    assert!(error.starts_with("generation_config.json: `eos_token_id` is \"7\""), "{error}");
}

#[test]
fn positions_are_no_part_of_the_mathematics() {
    for family in FAMILIES {
        let of = |positions: u32| Architecture {
            max_positions: 0,
            ..parsed(family, &json!({"max_position_embeddings": positions}))
        };
        assert_eq!(of(64), of(4096), "{family}");
    }
    let longest = |more: Value| parsed("llama", &more).longest_sequence();
    assert_eq!(longest(json!({"max_position_embeddings": 64})), 64);
    let dynamic = json!({"max_position_embeddings": 64, "rope_scaling": {"type": "dynamic", "factor": 4.0}});
    assert_eq!(longest(dynamic), 256);
}

#[test]
fn theta_is_read_from_wherever_it_is() {
    let theta = |family: &str, more: Value| parsed(family, &more).rope.expect("rope").theta as u64;
    for family in FAMILIES {
        let default = if family == "smollm3" { 2_000_000 } else { 10_000 };
        assert_eq!(theta(family, json!({})), default, "{family}");
        assert_eq!(theta(family, json!({"rope_parameters": {"rope_type": "default"}})), default, "{family}");
        for more in [
            json!({"rope_theta": 1e6}),
            json!({"rope_theta": 1_000_000}),
            json!({"rope_parameters": {"rope_theta": 1e6}}),
            json!({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}}),
            json!({"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}}),
        ] {
            assert_eq!(theta(family, more.clone()), 1_000_000, "{family}: {more}");
        }
    }
}

#[test]
fn dtypes_and_reordered_scores_change_nothing() {
    let plain = parsed("gpt2", &json!({}));
    for more in
        [json!({"torch_dtype": "bfloat16"}), json!({"dtype": "float16"}), json!({"reorder_and_upcast_attn": true})]
    {
        assert_eq!(parsed("gpt2", &more), plain, "{more}");
    }
    assert_eq!(parsed("llama", &json!({"torch_dtype": "float16"})), parsed("llama", &json!({"dtype": "bfloat16"})));
}
