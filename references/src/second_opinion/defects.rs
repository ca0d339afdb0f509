//! What the implementations of candle-transformers 0.11.1 do otherwise than transformers, as data. Read from their sources; tests
//! hold each against a golden, so that one that is mended there is noticed here.

use serde_json::{Map, Value};

use super::config::{head_dim, hidden_act, rope, rope_type, window};

/// One of the implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Implementation {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
    SmolLm3,
}

use Implementation::{Llama, Mistral, Qwen2, Qwen3, SmolLm3};

impl Implementation {
    /// Its module in `candle_transformers::models`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Llama => "llama",
            Mistral => "mistral",
            Qwen2 => "qwen2",
            Qwen3 => "qwen3",
            SmolLm3 => "smol::smollm3",
        }
    }

    /// Those that compute checkpoints of this `model_type`, the first choice first. With NoPE off, SmolLM3 is Llama with biases,
    /// and Mistral without a window is Llama with a head_dim of its own.
    pub(super) const fn of(model_type: &str) -> &'static [Self] {
        match model_type.as_bytes() {
            b"llama" => &[Llama, SmolLm3, Mistral],
            b"mistral" => &[Mistral],
            b"qwen2" => &[Qwen2],
            b"qwen3" => &[Qwen3],
            b"smollm3" => &[SmolLm3],
            _ => &[],
        }
    }
}

/// What follows from a defect for a checkpoint that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    /// The implementation computes something else: it is not asked.
    NotAsked,
    /// Rows at positions from the window on are not compared.
    BeforeTheWindow,
    /// What it is given is changed so that it computes the right thing.
    WorkedAround,
}

/// One defect.
pub(super) struct Defect {
    pub(super) of: &'static [Implementation],
    /// Whether config.json is hit by it.
    pub(super) hits: fn(&Map<String, Value>) -> bool,
    pub(super) consequence: Consequence,
    /// A clause about the implementation.
    pub(super) reason: &'static str,
}

fn is_true(config: &Map<String, Value>, key: &str) -> bool {
    config.get(key).and_then(Value::as_bool) == Some(true)
}

pub(super) const DEFECTS: [Defect; 13] = [
    Defect {
        of: &[Llama, Qwen2, SmolLm3],
        hits: |config| head_dim(config).is_some_and(|(stated, derived)| stated != derived),
        consequence: Consequence::NotAsked,
        reason: "takes hidden_size / num_attention_heads for head_dim, whatever config.json says",
    },
    Defect {
        of: &[Llama, Mistral],
        hits: |config| is_true(config, "attention_bias"),
        consequence: Consequence::NotAsked,
        reason: "has no attention_bias",
    },
    Defect {
        of: &[Llama, Mistral],
        hits: |config| is_true(config, "mlp_bias"),
        consequence: Consequence::NotAsked,
        reason: "has no mlp_bias",
    },
    Defect {
        of: &[Llama],
        hits: |config| hidden_act(config) != "silu",
        consequence: Consequence::NotAsked,
        reason: "computes SiLU, whatever hidden_act says",
    },
    Defect {
        of: &[Mistral, Qwen2, Qwen3, SmolLm3],
        hits: |config| {
            !matches!(hidden_act(config), "silu" | "swish" | "gelu" | "gelu_new" | "gelu_pytorch_tanh" | "relu")
        },
        consequence: Consequence::NotAsked,
        reason: "does not know this hidden_act",
    },
    Defect {
        of: &[Llama],
        hits: |config| !matches!(rope_type(config), "default" | "llama3"),
        consequence: Consequence::NotAsked,
        reason: "knows the RoPE types default and llama3 only",
    },
    Defect {
        of: &[Mistral, Qwen2, Qwen3, SmolLm3],
        hits: |config| rope_type(config) != "default",
        consequence: Consequence::NotAsked,
        reason: "knows the RoPE type default only",
    },
    Defect {
        of: &[Llama, Mistral, Qwen2, Qwen3, SmolLm3],
        hits: |config| rope(config, "partial_rotary_factor").and_then(Value::as_f64).is_some_and(|share| share < 1.0),
        consequence: Consequence::NotAsked,
        reason: "rotates whole heads, whatever partial_rotary_factor says",
    },
    Defect {
        of: &[Mistral, Qwen2],
        hits: |config| window(config).is_some(),
        consequence: Consequence::BeforeTheWindow,
        reason: "keeps one key too many in a window (W + 1), in every block, and all keys in its cache",
    },
    Defect {
        of: &[Qwen3, SmolLm3],
        hits: |config| window(config).is_some(),
        consequence: Consequence::BeforeTheWindow,
        reason: "has no windows",
    },
    Defect {
        of: &[Llama, Mistral, Qwen2, Qwen3, SmolLm3],
        hits: |config| config.get("rope_parameters").is_some_and(Value::is_object),
        consequence: Consequence::WorkedAround,
        reason: "does not read rope_parameters, which transformers 5 writes: it is given rope_theta and rope_scaling instead",
    },
    Defect {
        of: &[Mistral],
        hits: |config| is_true(config, "tie_word_embeddings"),
        consequence: Consequence::WorkedAround,
        reason: "always reads lm_head.weight: it is given the tied embedding under that name",
    },
    Defect {
        of: &[Qwen2],
        hits: |config| is_true(config, "tie_word_embeddings"),
        consequence: Consequence::WorkedAround,
        reason: "prefers a stored lm_head.weight to the embedding it is tied to: it is not shown one",
    },
];
