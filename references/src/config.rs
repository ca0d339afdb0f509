//! config.json → [`Architecture`], strictly: what changes the computation is understood or refused by name.

use serde_json::{Map, Value, json};

use crate::{CheckpointError, keys::Keys};

/// The shape of a decoder and every constant in it. Defaults are those of transformers' `LlamaConfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Query heads.
    pub query_heads: usize,
    /// Key and value heads; query head h reads kv head h div (query heads / kv heads).
    pub kv_heads: usize,
    /// Width of a head; scores are scaled by `head_dim^-0.5`.
    pub head_dim: usize,
    /// Width of the MLP.
    pub mlp: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Positions the checkpoint was made for.
    pub max_positions: usize,
    /// Epsilon inside the root of every RMSNorm.
    pub norm_eps: f64,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// The head is the embedding.
    pub tied_head: bool,
    /// q, k, v and o have biases.
    pub attention_bias: bool,
    /// gate, up and down have biases.
    pub mlp_bias: bool,
    /// Ids that end a generation.
    pub eos: Vec<u32>,
    /// The BOS id.
    pub bos: Option<u32>,
}

/// Keys that do not change what a forward pass computes.
const INERT: [&str; 33] = [
    "_name_or_path",
    "attention_dropout",
    "attn_implementation",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "dtype",
    "finetuning_task",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "max_length",
    "max_sequence_length",
    "neftune_noise_alpha",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "problem_type",
    "resid_pdrop",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "use_cache",
];

impl Architecture {
    /// Reads config.json (and generation_config.json, whose eos ids win). `file` names the former in errors.
    ///
    /// # Errors
    /// Not a JSON object, a key of a wrong type, an unsupported value or an unknown key.
    pub fn parse(config: &[u8], generation: Option<&[u8]>, file: &str) -> Result<Self, CheckpointError> {
        let mut keys = Keys::new(file, "", object(config, file)?);
        let model_type = keys.text("model_type")?;
        if model_type.as_deref() != Some("llama") {
            let found = model_type.map(Value::String);
            return Err(keys.wrong(
                "model_type",
                found.as_ref(),
                "\"llama\": other architectures are not supported yet",
            ));
        }
        check_class(&mut keys)?;
        let mut architecture = dimensions(&mut keys)?;
        architecture.rope_theta = rope_theta(&mut keys)?;
        let activation = keys.take("hidden_act").unwrap_or_else(|| json!("silu"));
        if activation != json!("silu") && activation != json!("swish") {
            return Err(keys.wrong(
                "hidden_act",
                Some(&activation),
                "\"silu\": other activations are not supported yet",
            ));
        }
        for (key, supported) in
            [("pretraining_tp", json!(1)), ("rope_interleaved", json!(false)), ("partial_rotary_factor", json!(1))]
        {
            keys.only(key, &supported)?;
        }
        for key in ["quantization_config", "sliding_window", "is_encoder_decoder", "add_cross_attention"] {
            keys.only(key, &json!(false))?;
        }
        keys.finish(&INERT)?;
        if let Some(eos) = generation.map(|bytes| generation_eos(bytes)).transpose()?.flatten() {
            architecture.eos = eos;
        }
        Ok(architecture)
    }

    /// Query heads that share one kv head.
    #[must_use]
    pub fn group(&self) -> usize {
        self.query_heads / self.kv_heads
    }
}

pub(crate) fn object(bytes: &[u8], file: &str) -> Result<Map<String, Value>, CheckpointError> {
    let fail = |reason: String| CheckpointError::File { file: file.to_owned(), reason };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(fail("not a JSON object; is this the checkpoint's own file?".into())),
        Err(error) => Err(fail(format!("not valid JSON: {error}; download the file again"))),
    }
}

fn check_class(keys: &mut Keys) -> Result<(), CheckpointError> {
    let Some(classes) = keys.take("architectures") else { return Ok(()) };
    match classes.as_array().is_some_and(|list| list.iter().any(|class| class == "LlamaForCausalLM")) {
        true => Ok(()),
        false => {
            Err(keys.wrong("architectures", Some(&classes), "[\"LlamaForCausalLM\"]: other heads are not supported"))
        }
    }
}

fn dimensions(keys: &mut Keys) -> Result<Architecture, CheckpointError> {
    let hidden = keys.required_size("hidden_size")?;
    let query_heads = keys.required_size("num_attention_heads")?;
    let kv_heads = keys.size("num_key_value_heads")?.unwrap_or(query_heads);
    if !query_heads.is_multiple_of(kv_heads) {
        return Err(keys.wrong(
            "num_key_value_heads",
            Some(&json!(kv_heads)),
            format!("a divisor of num_attention_heads = {query_heads}"),
        ));
    }
    let head_dim = match keys.size("head_dim")? {
        Some(explicit) => explicit,
        None if hidden.is_multiple_of(query_heads) => hidden / query_heads,
        None => {
            return Err(keys.wrong(
                "head_dim",
                None,
                format!("given, since hidden_size {hidden} is no multiple of num_attention_heads {query_heads}"),
            ));
        }
    };
    if !head_dim.is_multiple_of(2) {
        return Err(keys.wrong("head_dim", Some(&json!(head_dim)), "an even number: RoPE turns pairs"));
    }
    let blocks = keys.required_size("num_hidden_layers")?;
    if blocks > 4096 {
        return Err(keys.wrong("num_hidden_layers", Some(&json!(blocks)), "at most 4096"));
    }
    Ok(Architecture {
        hidden,
        blocks,
        query_heads,
        kv_heads,
        head_dim,
        mlp: keys.required_size("intermediate_size")?,
        vocabulary: keys.required_size("vocab_size")?,
        max_positions: keys.size("max_position_embeddings")?.unwrap_or(2048),
        norm_eps: keys.number("rms_norm_eps")?.unwrap_or(1e-6),
        rope_theta: 10_000.0,
        tied_head: keys.boolean("tie_word_embeddings")?.unwrap_or(false),
        attention_bias: keys.boolean("attention_bias")?.unwrap_or(false),
        mlp_bias: keys.boolean("mlp_bias")?.unwrap_or(false),
        eos: keys.ids("eos_token_id")?,
        bos: keys.ids("bos_token_id")?.first().copied(),
    })
}

/// A non-null legacy `rope_scaling` replaces `rope_parameters`; theta inside the dict wins over the top-level one.
fn rope_theta(keys: &mut Keys) -> Result<f64, CheckpointError> {
    let top_level = keys.number("rope_theta")?;
    let parameters = keys.object("rope_parameters")?;
    let scaling = keys.object("rope_scaling")?;
    let Some(mut rope) = scaling.or(parameters) else { return Ok(top_level.unwrap_or(10_000.0)) };
    let kinds = [("rope_type", rope.text("rope_type")?), ("type", rope.text("type")?)];
    for (key, kind) in kinds {
        if let Some(kind) = kind.filter(|kind| kind != "default") {
            return Err(rope.wrong(
                key,
                Some(&Value::String(kind)),
                "\"default\": other RoPE variants are not supported yet",
            ));
        }
    }
    rope.only("partial_rotary_factor", &json!(1))?;
    let inner = rope.number("rope_theta")?;
    rope.finish(&[])?;
    Ok(inner.or(top_level).unwrap_or(10_000.0))
}

fn generation_eos(bytes: &[u8]) -> Result<Option<Vec<u32>>, CheckpointError> {
    let file = "generation_config.json";
    let object = object(bytes, file)?;
    let present = object.get("eos_token_id").is_some_and(|value| !value.is_null());
    let eos = Keys::new(file, "", object).ids("eos_token_id")?;
    Ok(present.then_some(eos))
}
