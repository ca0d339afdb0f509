//! BERT and MiniLM: learned positions and token types, norms after the sums, positions that see each other, no head. Defaults
//! are those of transformers' `BertConfig`.

use serde_json::json;

use super::{Activation, Architecture, Biases, Layer, MlpKind, NormKind, NormPlacement, Output, blocks, check_class};
use crate::{CheckpointError, Pooling, keys::Keys};

pub(super) const MODEL_TYPE: &str = "bert";

/// The encoder alone, and those whose heads for pre-training stand on the hidden state that is computed here.
const CLASSES: [&str; 3] = ["BertModel", "BertForMaskedLM", "BertForPreTraining"];

/// Keys that do not change what the encoder computes: dropout, training, heads and the pooler that stand on it.
const INERT: [&str; 14] = [
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "gradient_checkpointing",
    "hidden_dropout_prob",
    "num_labels",
    "output_past",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    // Of the head for masked tokens.
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
];

pub(super) fn take(keys: &mut Keys) -> Result<Architecture, CheckpointError> {
    check_class(keys, &CLASSES)?;
    let hidden = keys.required_size("hidden_size")?;
    let heads = keys.required_size("num_attention_heads")?;
    if !hidden.is_multiple_of(heads) {
        return Err(keys.wrong(
            "num_attention_heads",
            Some(&json!(heads)),
            format!("a divisor of hidden_size = {hidden}"),
        ));
    }
    let head_dim = hidden / heads;
    let blocks = blocks(keys, "num_hidden_layers")?;
    let only = [
        ("position_embedding_type", json!("absolute")),
        ("is_decoder", json!(false)),
        ("pruned_heads", json!({})),
        ("directionality", json!("bidi")),
    ];
    only.iter().try_for_each(|(key, supported)| keys.only(key, supported))?;
    keys.ignore(&INERT);
    Ok(Architecture {
        hidden,
        blocks,
        query_heads: heads,
        kv_heads: heads,
        head_dim,
        mlp: keys.required_size("intermediate_size")?,
        vocabulary: keys.required_size("vocab_size")?,
        max_positions: keys.size("max_position_embeddings")?.unwrap_or(512),
        norm: NormKind::Layer,
        norm_eps: keys.number("layer_norm_eps")?.unwrap_or(1e-12),
        rope: None,
        mlp_kind: MlpKind::Plain,
        activation: Activation::take(keys, "hidden_act", Activation::GeluErf)?,
        norm_placement: NormPlacement::After,
        embedding_norm: true,
        token_types: Some(keys.size("type_vocab_size")?.unwrap_or(2)),
        output: Output::Hidden(Pooling::default()),
        tied_head: false,
        biases: Biases { qkv: true, o: true, mlp: true },
        qk_norm: false,
        layers: vec![Layer { window: None, rope: false, score_scale: (head_dim as f64).powf(-0.5) }; blocks],
        eos: Vec::new(),
        bos: None,
        model_type: MODEL_TYPE.to_owned(),
    })
}
