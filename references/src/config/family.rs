//! What each `model_type` fixes: classes, defaults of absent keys, biases. Defaults are those of transformers 5's
//! configuration classes.

use serde_json::{Value, json};

use super::Biases;
use crate::{CheckpointError, keys::Keys};

/// One family of decoders.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    pub(super) class: &'static str,
    /// kv heads when the key is absent; `None`: as many as query heads. An explicit null always means the latter.
    kv_heads: Option<usize>,
    /// head_dim when the key is absent; `None`: hidden / query heads.
    head_dim: Option<usize>,
    pub(super) max_positions: usize,
    pub(super) rope_theta: f64,
    pub(super) tied_head: bool,
    pub(super) qk_norm: bool,
    attention_bias: AttentionBias,
    /// The key `mlp_bias` exists.
    mlp_bias: bool,
    pub(super) window: WindowRule,
}

#[derive(Clone, Copy)]
enum AttentionBias {
    /// The key `attention_bias` decides for q, k, v and o together.
    Key,
    /// q, k and v always have one, o never; there is no key.
    QkvAlways,
    /// There is none and no key.
    Never,
}

/// Which layers see a window only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowRule {
    /// None; a window in the file is refused.
    Never,
    /// All, by `sliding_window`: absent means 4096, null means none.
    All,
    /// Those that `layer_types` names, else from `max_window_layers` on, if `use_sliding_window`.
    Upper,
    /// Those that `layer_types` names, else those without RoPE, if `use_sliding_window`.
    WithoutRope,
}

const LLAMA: Family = Family {
    model_type: "llama",
    class: "LlamaForCausalLM",
    kv_heads: None,
    head_dim: None,
    max_positions: 2048,
    rope_theta: 10_000.0,
    tied_head: false,
    qk_norm: false,
    attention_bias: AttentionBias::Key,
    mlp_bias: true,
    window: WindowRule::Never,
};

const FAMILIES: [Family; 5] = [
    LLAMA,
    Family {
        model_type: "mistral",
        class: "MistralForCausalLM",
        kv_heads: Some(8),
        max_positions: 4096 * 32,
        attention_bias: AttentionBias::Never,
        mlp_bias: false,
        window: WindowRule::All,
        ..LLAMA
    },
    Family {
        model_type: "qwen2",
        class: "Qwen2ForCausalLM",
        kv_heads: Some(32),
        max_positions: 32_768,
        attention_bias: AttentionBias::QkvAlways,
        mlp_bias: false,
        window: WindowRule::Upper,
        ..LLAMA
    },
    Family {
        model_type: "qwen3",
        class: "Qwen3ForCausalLM",
        kv_heads: Some(32),
        head_dim: Some(128),
        max_positions: 32_768,
        qk_norm: true,
        mlp_bias: false,
        window: WindowRule::Upper,
        ..LLAMA
    },
    Family {
        model_type: "smollm3",
        class: "SmolLM3ForCausalLM",
        kv_heads: Some(4),
        max_positions: 32_768,
        rope_theta: 2_000_000.0,
        tied_head: true,
        window: WindowRule::WithoutRope,
        ..LLAMA
    },
];

impl Family {
    /// The family of that `model_type`.
    pub(super) fn named(keys: &Keys, model_type: Option<&str>) -> Result<Self, CheckpointError> {
        FAMILIES.into_iter().find(|family| Some(family.model_type) == model_type).ok_or_else(|| {
            let known = FAMILIES.map(|family| format!("\"{}\"", family.model_type)).join(", ");
            let found = model_type.map(Value::from);
            let others = format!("\"{}\" or \"{}\"", super::gpt2::MODEL_TYPE, super::bert::MODEL_TYPE);
            let expected = format!("{known}, {others}: other architectures are not supported");
            keys.wrong("model_type", found.as_ref(), expected)
        })
    }

    pub(super) fn kv_heads(&self, keys: &mut Keys, query_heads: usize) -> Result<usize, CheckpointError> {
        let absent = if keys.holds("num_key_value_heads") { None } else { self.kv_heads };
        let kv_heads = keys.size("num_key_value_heads")?.or(absent).unwrap_or(query_heads);
        if query_heads.is_multiple_of(kv_heads) {
            return Ok(kv_heads);
        }
        let expected = format!("a divisor of num_attention_heads = {query_heads}");
        Err(keys.wrong("num_key_value_heads", Some(&json!(kv_heads)), expected))
    }

    pub(super) fn head_dim(
        &self,
        keys: &mut Keys,
        hidden: usize,
        query_heads: usize,
    ) -> Result<usize, CheckpointError> {
        let even = hidden.is_multiple_of(query_heads).then(|| hidden / query_heads);
        let head_dim = keys.size("head_dim")?.or(self.head_dim).or(even);
        let Some(head_dim) = head_dim else {
            let expected =
                format!("given, since hidden_size {hidden} is no multiple of num_attention_heads {query_heads}");
            return Err(keys.wrong("head_dim", None, expected));
        };
        if head_dim.is_multiple_of(2) {
            return Ok(head_dim);
        }
        Err(keys.wrong("head_dim", Some(&json!(head_dim)), "an even number: RoPE turns pairs"))
    }

    pub(super) fn biases(&self, keys: &mut Keys) -> Result<Biases, CheckpointError> {
        let (qkv, o) = match self.attention_bias {
            AttentionBias::Key => {
                let all = keys.boolean("attention_bias")?.unwrap_or(false);
                (all, all)
            }
            AttentionBias::QkvAlways => (true, false),
            AttentionBias::Never => (false, false),
        };
        let mlp = self.mlp_bias && keys.boolean("mlp_bias")?.unwrap_or(false);
        Ok(Biases { qkv, o, mlp })
    }
}
