//! config.json of BERT: every key read as transformers reads it, or refused by name.

use fidelity_references::{Activation, Architecture, NormKind, NormPlacement};
use fidelity_trace::{Fault, Network};
use serde_json::{Value, json};

fn parse(config: &Value) -> Result<Architecture, String> {
    Architecture::parse(config.to_string().as_bytes(), None, "config.json").map_err(|error| error.to_string())
}

/// A config with just the keys every file has, and these.
fn bert(more: Value) -> Value {
    let mut config = json!({"model_type": "bert", "hidden_size": 128, "intermediate_size": 176, "num_hidden_layers": 4,
        "num_attention_heads": 4, "vocab_size": 320});
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    config
}

#[test]
fn bert_defaults_are_those_of_its_configuration_class() {
    let a = parse(&bert(json!({}))).expect("supported");
    assert_eq!((a.hidden, a.query_heads, a.kv_heads, a.head_dim, a.max_positions), (128, 4, 4, 32, 512));
    assert_eq!((a.norm, a.norm_placement, a.embedding_norm), (NormKind::Layer, NormPlacement::After, true));
    assert_eq!((a.activation, a.token_types, a.tied_head), (Activation::GeluErf, Some(2), false));
    assert_eq!((a.network(), a.longest_sequence()), (Network::Encoder, 512));
    assert!((a.norm_eps - 1e-12).abs() < 1e-24, "1e-12, not a decoder's");
    assert!(a.rope.is_none() && a.layers.iter().all(|layer| !layer.rope && layer.window.is_none()));
    let stated = parse(&bert(json!({"layer_norm_eps": 1e-5, "type_vocab_size": 1, "hidden_act": "gelu_new"})));
    let stated = stated.expect("supported");
    assert_eq!((stated.token_types, stated.activation), (Some(1), Activation::GeluTanh));
    assert!((stated.norm_eps - 1e-5).abs() < 1e-18);
}

#[test]
fn what_changes_an_encoder_is_refused_by_name() {
    for (key, value, expected) in [
        (
            "position_embedding_type",
            json!("relative_key"),
            "`position_embedding_type` is \"relative_key\", expected \"absolute\"",
        ),
        ("is_decoder", json!(true), "`is_decoder` is true, expected false"),
        ("add_cross_attention", json!(true), "`add_cross_attention` is true"),
        ("directionality", json!("uni"), "`directionality` is \"uni\""),
        ("pruned_heads", json!({"0": [1]}), "`pruned_heads` is {\"0\":[1]}"),
        ("hidden_act", json!("gelu_fast"), "`hidden_act` is \"gelu_fast\""),
        ("architectures", json!(["BertForSequenceClassification"]), "[\"BertModel\"] or [\"BertForMaskedLM\"]"),
        ("num_attention_heads", json!(3), "a divisor of hidden_size = 128"),
        // The key of GPT-2: here it would be ignored.
        ("layer_norm_epsilon", json!(1e-5), "`layer_norm_epsilon` = 0.00001 is not a key this program knows"),
        ("embedding_size", json!(64), "`embedding_size` = 64 is not a key"),
        ("type_vocab_size", json!(0), "`type_vocab_size` is 0"),
        ("layer_norm_eps", json!(0), "`layer_norm_eps` is 0"),
    ] {
        let mut config = bert(json!({}));
        config[key] = value;
        let found = parse(&config).expect_err("refused");
        assert!(found.contains(expected), "{key}: {found}");
    }
    // Positions are counted from padding_idx + 1 there.
    for other in ["roberta", "xlm-roberta", "camembert", "mpnet", "distilbert"] {
        let found = parse(&bert(json!({"model_type": other}))).expect_err("refused");
        assert!(found.contains(&format!("`model_type` is \"{other}\"")), "{found}");
    }
}

#[test]
fn inert_keys_of_real_bert_files_are_no_obstacle() {
    let more = json!({"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "gradient_checkpointing": false,
        "position_embedding_type": "absolute", "pad_token_id": 0, "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform",
        "directionality": "bidi", "classifier_dropout": null, "use_cache": true, "tie_word_embeddings": true,
        "architectures": ["BertForPreTraining"], "transformers_version": "4.8.2", "_name_or_path": "x"});
    assert_eq!(parse(&bert(more)), parse(&bert(json!({}))));
}

#[test]
fn faults_that_change_nothing_in_an_encoder_are_known() {
    let a = parse(&bert(json!({}))).expect("supported");
    let immune: Vec<Fault> = [Fault::SoftmaxAcrossHeads, Fault::MaskRepeated, Fault::GqaTile, Fault::RopeInterleaved]
        .into_iter()
        .filter(|fault| a.immune_to(&(*fault).into()).is_some())
        .collect();
    assert_eq!(immune, [Fault::MaskRepeated, Fault::GqaTile, Fault::RopeInterleaved]);
}
