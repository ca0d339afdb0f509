//! GGUF metadata → the config.json that `Architecture::parse` reads, so that there is one strict reading of both.
//!
//! A key of the architecture's own table that is neither translated nor known to be inert is refused by name.

use serde_json::{Map, Value as Json, json};

use super::{
    header::Header,
    metadata::Metadata,
    value::{Kind, Value},
};
use crate::CheckpointError;

/// The architectures that are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// q and k rows are stored in adjacent pairs, k by its own head count.
    Llama { query_heads: usize, kv_heads: usize },
    /// Rows as in the Hugging Face checkpoint; q, k and v have biases.
    Qwen2,
    /// Rows as in the Hugging Face checkpoint; q and k are normed.
    Qwen3,
}

impl Family {
    const fn name(self) -> &'static str {
        match self {
            Self::Llama { .. } => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// How many heads the rows of a tensor are, if they are stored in adjacent pairs.
    pub(super) fn paired_heads(self, stored: &str) -> Option<usize> {
        let Self::Llama { query_heads, kv_heads } = self else { return None };
        let (stem, _) = stored.rsplit_once('.')?;
        match stem.rsplit_once('.')?.1 {
            "attn_q" => Some(query_heads),
            "attn_k" => Some(kv_heads),
            _ => None,
        }
    }
}

/// Reads `general.architecture`.
pub(super) fn family(header: &Header, file: &str) -> Result<Family, CheckpointError> {
    let mut keys = Metadata::new(header, file);
    let expected = "\"llama\", \"qwen2\" or \"qwen3\": GGUF files of other architectures are not supported";
    let name = keys.text("general.architecture")?;
    match name.as_deref() {
        Some("llama") => {
            let query_heads = keys.required("llama.attention.head_count")?;
            let kv_heads = keys.size("llama.attention.head_count_kv")?.unwrap_or(query_heads);
            Ok(Family::Llama { query_heads: query_heads as usize, kv_heads: kv_heads as usize })
        }
        Some("qwen2") => Ok(Family::Qwen2),
        Some("qwen3") => Ok(Family::Qwen3),
        other => {
            let found = other.map_or_else(|| "missing".to_owned(), |name| format!("{name:?}"));
            Err(keys.wrong("general.architecture", found, expected))
        }
    }
}

/// The whole metadata as config.json.
pub(super) fn config(header: &Header, family: Family, file: &str) -> Result<Map<String, Json>, CheckpointError> {
    refuse_factors(header, file)?;
    let mut keys = Metadata::new(header, file);
    whole_model(&mut keys)?;
    let table = family.name();
    let key = |name: &str| format!("{table}.{name}");
    let mut config = Map::new();
    let mut set = |name: &str, value: Json| config.insert(name.to_owned(), value);
    let hidden = keys.required(&key("embedding_length"))?;
    let heads = keys.required(&key("attention.head_count"))?;
    let head_dim = head_dim(&mut keys, &key, hidden, heads)?;
    set("model_type", json!(table));
    set("hidden_size", json!(hidden));
    set("intermediate_size", json!(keys.required(&key("feed_forward_length"))?));
    set("num_hidden_layers", json!(keys.required(&key("block_count"))?));
    set("num_attention_heads", json!(heads));
    set("num_key_value_heads", json!(keys.size(&key("attention.head_count_kv"))?.unwrap_or(heads)));
    set("head_dim", json!(head_dim));
    set("max_position_embeddings", json!(keys.required(&key("context_length"))?));
    set("rms_norm_eps", json!(keys.required_number(&key("attention.layer_norm_rms_epsilon"))?));
    set("rope_theta", json!(keys.number(&key("rope.freq_base"))?.unwrap_or(10_000.0)));
    set("vocab_size", json!(vocabulary(&mut keys, &key, header)?));
    set("tie_word_embeddings", json!(!header.tensors.contains_key("output.weight")));
    if let Some(factor) = rotary_factor(&mut keys, &key, family, head_dim)? {
        set("partial_rotary_factor", json!(factor));
    }
    if let Some(scaling) = rope_scaling(&mut keys, &key)? {
        set("rope_scaling", scaling);
    }
    for (name, value) in ids(&mut keys)?.into_iter().chain(biases(header, family)) {
        set(name, value);
    }
    for (name, only) in [("expert_count", 0), ("expert_used_count", 0)] {
        keys.only(&key(name), &Value::Whole { kind: Kind::U32, value: only })?;
    }
    keys.only(&key("attention.causal"), &Value::Flag(true))?;
    keys.only(&key("tensor_data_layout"), &Value::Text("Meta AI original pth".into()))?;
    keys.take(&key("rope.scaling.finetuned"));
    keys.finish()?;
    Ok(config)
}

/// Tensors that change RoPE and that config.json would have to say in numbers.
fn refuse_factors(header: &Header, file: &str) -> Result<(), CheckpointError> {
    let factors = ["rope_freqs", "rope_factors_long", "rope_factors_short"];
    let found = header.tensors.keys().find(|name| factors.iter().any(|part| name.contains(part)));
    match found {
        None => Ok(()),
        Some(name) => Err(CheckpointError::File {
            file: file.to_owned(),
            reason: format!(
                "tensor `{name}` scales RoPE by factors whose origin (llama3, longrope) the file does not say; use the Hugging \
                 Face folder of this checkpoint"
            ),
        }),
    }
}

/// Refuses adapters, projectors and parts of a split file.
fn whole_model(keys: &mut Metadata<'_>) -> Result<(), CheckpointError> {
    keys.only("general.type", &Value::Text("model".into()))?;
    keys.take("split.no");
    keys.take("split.tensors.count");
    match keys.take("split.count") {
        None | Some(Value::Whole { value: 0 | 1, .. }) => Ok(()),
        Some(other) => {
            Err(keys.wrong("split.count", other.to_string(), "1: merge the parts first (`llama-gguf-split --merge`)"))
        }
    }
}

fn head_dim(
    keys: &mut Metadata<'_>,
    key: &impl Fn(&str) -> String,
    hidden: u64,
    heads: u64,
) -> Result<u64, CheckpointError> {
    let explicit = keys.size(&key("attention.key_length"))?;
    if let Some(value) = keys.size(&key("attention.value_length"))?
        && explicit != Some(value)
    {
        let expected = explicit
            .map_or_else(|| "the same as attention.key_length, which is missing".into(), |length| length.to_string());
        return Err(keys.wrong(&key("attention.value_length"), value.to_string(), expected));
    }
    match explicit {
        Some(head_dim) => Ok(head_dim),
        None if hidden.is_multiple_of(heads) => Ok(hidden / heads),
        None => Err(keys.wrong(
            &key("attention.key_length"),
            "missing".into(),
            format!("given, since embedding_length {hidden} is no multiple of attention.head_count {heads}"),
        )),
    }
}

/// The part of a head that RoPE turns, if it is not all of it.
fn rotary_factor(
    keys: &mut Metadata<'_>,
    key: &impl Fn(&str) -> String,
    family: Family,
    head_dim: u64,
) -> Result<Option<f64>, CheckpointError> {
    let name = key("rope.dimension_count");
    let Some(turned) = keys.size(&name)?.filter(|turned| *turned != head_dim) else { return Ok(None) };
    // Row order of a partly turned llama head is not defined by the format.
    if matches!(family, Family::Llama { .. }) || turned > head_dim {
        return Err(keys.wrong(&name, turned.to_string(), format!("{head_dim}, the width of a head")));
    }
    Ok(Some(turned as f64 / head_dim as f64))
}

fn rope_scaling(keys: &mut Metadata<'_>, key: &impl Fn(&str) -> String) -> Result<Option<Json>, CheckpointError> {
    let kind = keys.text(&key("rope.scaling.type"))?;
    match kind.as_deref() {
        Some("none") => Ok(None),
        None | Some("linear") => {
            let factor = match keys.number(&key("rope.scaling.factor"))? {
                None => keys.number(&key("rope.scale_linear"))?,
                some => some,
            };
            match (kind, factor) {
                (None, None) => Ok(None),
                (Some(_), None) => Err(keys.wrong(&key("rope.scaling.factor"), "missing".into(), "a positive number")),
                (_, Some(factor)) => Ok(Some(json!({"rope_type": "linear", "factor": factor}))),
            }
        }
        Some("yarn") => {
            for name in ["yarn_ext_factor", "yarn_attn_factor", "attn_factor"] {
                keys.only(&key(&format!("rope.scaling.{name}")), &Value::Real(1.0))?;
            }
            let mut scaling = Map::from_iter([("rope_type".to_owned(), json!("yarn"))]);
            scaling.insert("factor".into(), json!(keys.required_number(&key("rope.scaling.factor"))?));
            let original = keys.required(&key("rope.scaling.original_context_length"))?;
            scaling.insert("original_max_position_embeddings".into(), json!(original));
            for (stored, name) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
                if let Some(beta) = keys.number(&key(&format!("rope.scaling.{stored}")))? {
                    scaling.insert(name.into(), json!(beta));
                }
            }
            Ok(Some(Json::Object(scaling)))
        }
        Some(other) => {
            Err(keys.wrong(&key("rope.scaling.type"), format!("{other:?}"), "\"none\", \"linear\" or \"yarn\""))
        }
    }
}

/// Rows of the embedding, which what else is said of the vocabulary must agree with.
fn vocabulary(keys: &mut Metadata<'_>, key: &impl Fn(&str) -> String, header: &Header) -> Result<u64, CheckpointError> {
    let Some(rows) = header.tensors.get("token_embd.weight").and_then(|info| info.shape.first()) else {
        return Err(CheckpointError::File {
            file: keys.file().to_owned(),
            reason: "tensor `token_embd.weight` is missing; is this file a whole checkpoint?".into(),
        });
    };
    let rows = *rows as u64;
    let agree = format!("{rows}, the rows of token_embd.weight");
    if let Some(size) = keys.size(&key("vocab_size"))?.filter(|size| *size != rows) {
        return Err(keys.wrong(&key("vocab_size"), size.to_string(), agree));
    }
    match keys.take("tokenizer.ggml.tokens") {
        Some(Value::List { count, .. }) if *count == rows => Ok(rows),
        None => Ok(rows),
        Some(tokens) => {
            let found = tokens.to_string();
            Err(keys.wrong("tokenizer.ggml.tokens", found, format!("a list of {agree}")))
        }
    }
}

/// BOS, and what ends a generation: end of text, end of turn.
fn ids(keys: &mut Metadata<'_>) -> Result<Vec<(&'static str, Json)>, CheckpointError> {
    let mut ends = Vec::new();
    for name in ["eos_token_id", "eot_token_id"] {
        let id = keys.whole(&format!("tokenizer.ggml.{name}"))?;
        ends.extend(id.filter(|id| !ends.contains(id)));
    }
    let bos = keys.whole("tokenizer.ggml.bos_token_id")?.map(|id| ("bos_token_id", json!(id)));
    let ends = (!ends.is_empty()).then(|| ("eos_token_id", json!(ends)));
    Ok(bos.into_iter().chain(ends).collect())
}

/// What llama and qwen3 configs say of biases; a qwen2's are not optional.
fn biases(header: &Header, family: Family) -> Vec<(&'static str, Json)> {
    let has = |name: &str| json!(header.tensors.contains_key(name));
    let attention = ("attention_bias", has("blk.0.attn_q.bias"));
    match family {
        Family::Llama { .. } => vec![attention, ("mlp_bias", has("blk.0.ffn_gate.bias"))],
        Family::Qwen2 => Vec::new(),
        Family::Qwen3 => vec![attention],
    }
}
