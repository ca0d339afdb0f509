//! GPT-2: learned positions, LayerNorm, one projection for q, k and v, a plain MLP. Defaults are those of transformers'
//! `GPT2Config`.

use serde_json::json;

use super::{Activation, Architecture, Biases, Layer, MlpKind, NormKind, NormPlacement, Output, blocks, check_class};
use crate::{CheckpointError, keys::Keys};

pub(super) const MODEL_TYPE: &str = "gpt2";

/// Keys that do not change what a forward pass computes in float32.
const INERT: [&str; 9] = [
    "attn_pdrop",
    "embd_pdrop",
    "n_ctx",
    // The same value in float32, computed in another order.
    "reorder_and_upcast_attn",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
];

pub(super) fn take(keys: &mut Keys) -> Result<Architecture, CheckpointError> {
    check_class(keys, &["GPT2LMHeadModel"])?;
    let hidden = keys.required_size("n_embd")?;
    let heads = keys.required_size("n_head")?;
    if !hidden.is_multiple_of(heads) {
        return Err(keys.wrong("n_head", Some(&json!(heads)), format!("a divisor of n_embd = {hidden}")));
    }
    let blocks = blocks(keys, "n_layer")?;
    let layers = layers(keys, blocks, hidden / heads)?;
    keys.ignore(&INERT);
    Ok(Architecture {
        hidden,
        blocks,
        query_heads: heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        mlp: keys.size("n_inner")?.unwrap_or(4 * hidden),
        vocabulary: keys.required_size("vocab_size")?,
        max_positions: keys.size("n_positions")?.unwrap_or(1024),
        norm: NormKind::Layer,
        norm_eps: keys.number("layer_norm_epsilon")?.unwrap_or(1e-5),
        rope: None,
        mlp_kind: MlpKind::Plain,
        activation: Activation::take(keys, "activation_function", Activation::GeluTanh)?,
        norm_placement: NormPlacement::Before,
        embedding_norm: false,
        token_types: None,
        output: Output::Logits,
        tied_head: keys.boolean("tie_word_embeddings")?.unwrap_or(true),
        biases: Biases { qkv: true, o: true, mlp: true },
        qk_norm: false,
        layers,
        eos: keys.ids("eos_token_id")?,
        bos: keys.ids("bos_token_id")?.first().copied(),
        model_type: MODEL_TYPE.to_owned(),
    })
}

fn layers(keys: &mut Keys, blocks: usize, head_dim: usize) -> Result<Vec<Layer>, CheckpointError> {
    let scaled = keys.boolean("scale_attn_weights")?.unwrap_or(true);
    let by_layer = keys.boolean("scale_attn_by_inverse_layer_idx")?.unwrap_or(false);
    let scale = if scaled { (head_dim as f64).powf(-0.5) } else { 1.0 };
    let layer = |index: usize| {
        let score_scale = if by_layer { scale / (index + 1) as f64 } else { scale };
        Layer { window: None, rope: false, score_scale }
    };
    Ok((0..blocks).map(layer).collect())
}
