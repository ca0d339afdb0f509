//! The names that each family gives its tensors.

use crate::{Architecture, WeightFiles};

/// The names of one family's tensors.
pub(super) enum Names {
    /// `model.layers.0.self_attn.q_proj.weight`, matrices `[out, in]`.
    Llama,
    /// `transformer.h.0.attn.c_attn.weight`, with or without the prefix, matrices `[in, out]`.
    Gpt2 { prefix: &'static str },
    /// `bert.encoder.layer.0.attention.self.query.weight`, with or without the prefix, matrices `[out, in]`. Norms of old files
    /// have `gamma` and `beta` for `weight` and `bias`.
    Bert { prefix: &'static str },
}

impl Names {
    pub(super) fn of(a: &Architecture, weights: &WeightFiles) -> Self {
        match a.model_type.as_str() {
            "gpt2" if weights.contains("transformer.wte.weight") => Self::Gpt2 { prefix: "transformer." },
            "gpt2" => Self::Gpt2 { prefix: "" },
            "bert" if weights.contains("bert.embeddings.word_embeddings.weight") => Self::Bert { prefix: "bert." },
            "bert" => Self::Bert { prefix: "" },
            _ => Self::Llama,
        }
    }

    pub(super) fn embedding(&self) -> String {
        match self {
            Self::Llama => "model.embed_tokens.weight".into(),
            Self::Gpt2 { prefix } => format!("{prefix}wte.weight"),
            Self::Bert { prefix } => format!("{prefix}embeddings.word_embeddings.weight"),
        }
    }

    pub(super) fn positions(&self) -> String {
        match self {
            Self::Llama => "model.embed_positions.weight".into(),
            Self::Gpt2 { prefix } => format!("{prefix}wpe.weight"),
            Self::Bert { prefix } => format!("{prefix}embeddings.position_embeddings.weight"),
        }
    }

    pub(super) fn token_types(&self) -> String {
        match self {
            Self::Llama | Self::Gpt2 { .. } => "token_type_embeddings.weight".into(),
            Self::Bert { prefix } => format!("{prefix}embeddings.token_type_embeddings.weight"),
        }
    }

    pub(super) fn embedding_norm(&self) -> String {
        match self {
            Self::Llama => "model.embed_norm".into(),
            Self::Gpt2 { prefix } => format!("{prefix}ln_emb"),
            Self::Bert { prefix } => format!("{prefix}embeddings.LayerNorm"),
        }
    }

    pub(super) fn final_norm(&self) -> String {
        match self {
            Self::Llama => "model.norm".into(),
            Self::Gpt2 { prefix } => format!("{prefix}ln_f"),
            Self::Bert { prefix } => format!("{prefix}encoder.norm"),
        }
    }

    pub(super) fn block(&self, index: usize, part: &str) -> String {
        match self {
            Self::Llama => format!("model.layers.{index}.{part}"),
            Self::Gpt2 { prefix } => format!("{prefix}h.{index}.{part}"),
            Self::Bert { prefix } => format!("{prefix}encoder.layer.{index}.{part}"),
        }
    }
}

/// Tensors of BERT's heads for pre-training.
pub(crate) fn bert_heads() -> impl Iterator<Item = String> {
    let norms = ["weight", "bias", "gamma", "beta"].map(|part| format!("transform.LayerNorm.{part}"));
    let others = ["bias", "transform.dense.weight", "transform.dense.bias", "decoder.weight", "decoder.bias"];
    let predictions = norms.into_iter().chain(others.map(str::to_owned)).map(|part| format!("cls.predictions.{part}"));
    predictions.chain(["weight", "bias"].map(|part| format!("cls.seq_relationship.{part}")))
}
