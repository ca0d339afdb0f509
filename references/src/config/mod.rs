//! config.json → [`Architecture`], strictly: what changes the computation is understood or refused by name.

mod bert;
mod family;
mod faults;
mod gpt2;
mod layers;
mod network;
mod rope;

use serde_json::{Map, Value, json};

use crate::{CheckpointError, keys::Keys};
use family::Family;
pub use network::{NormPlacement, Output};
pub use rope::{Rope, RopeScaling};

/// The shape of a network and every constant in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// `model_type` in config.json.
    pub model_type: String,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Query heads.
    pub query_heads: usize,
    /// Key and value heads; query head h reads kv head h div (query heads / kv heads).
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the MLP.
    pub mlp: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Positions the checkpoint was made for.
    pub max_positions: usize,
    /// What every norm computes.
    pub norm: NormKind,
    /// Epsilon inside the root of every norm.
    pub norm_eps: f64,
    /// The rotary embedding; absent where positions are learned rows added to the embedding.
    pub rope: Option<Rope>,
    /// What an MLP computes.
    pub mlp_kind: MlpKind,
    /// The MLP's activation.
    pub activation: Activation,
    /// Where a block's norms stand.
    pub norm_placement: NormPlacement,
    /// The embedding is normalised before block 0.
    pub embedding_norm: bool,
    /// Rows of the table of token types, where there is one; row 0 is added to every token, as for a text of one segment.
    pub token_types: Option<usize>,
    /// What comes out.
    pub output: Output,
    /// The head is the embedding.
    pub tied_head: bool,
    /// Which projections have biases.
    pub biases: Biases,
    /// Queries and keys are normalised per head before RoPE.
    pub qk_norm: bool,
    /// What differs from block to block, one entry a block.
    pub layers: Vec<Layer>,
    /// Ids that end a generation.
    pub eos: Vec<u32>,
    /// The BOS id.
    pub bos: Option<u32>,
}

/// Which projections have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    /// q, k and v.
    pub qkv: bool,
    /// The attention's output projection.
    pub o: bool,
    /// gate, up and down.
    pub mlp: bool,
}

/// What differs from block to block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// How many keys a position sees, itself included; all before it when absent.
    pub window: Option<u32>,
    /// Queries and keys are rotated.
    pub rope: bool,
    /// What q·k is multiplied by.
    pub score_scale: f64,
}

/// What a norm computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// x / √(mean(x²) + ε) · w (Zhang & Sennrich 2019).
    Rms,
    /// (x − mean(x)) / √(var(x) + ε) · w + b (Ba et al. 2016).
    Layer,
}

/// What an MLP computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlpKind {
    /// down(activation(gate(x)) · up(x)) (Shazeer 2020).
    Gated,
    /// down(activation(up(x))); there is no site `gate`.
    Plain,
}

/// An activation, by the formula it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// x · Φ(x), by erf.
    GeluErf,
    /// x · Φ(x), by tanh.
    GeluTanh,
    /// x · sigmoid(1.702 x).
    GeluQuick,
    /// max(x, 0).
    Relu,
}

impl Activation {
    fn take(keys: &mut Keys, key: &str, default: Self) -> Result<Self, CheckpointError> {
        let Some(name) = keys.text(key)? else { return Ok(default) };
        match name.as_str() {
            "silu" | "swish" => Ok(Self::Silu),
            "gelu" => Ok(Self::GeluErf),
            "gelu_new" | "gelu_pytorch_tanh" => Ok(Self::GeluTanh),
            "quick_gelu" => Ok(Self::GeluQuick),
            "relu" => Ok(Self::Relu),
            _ => Err(keys.wrong(
                key,
                Some(&name.into()),
                "\"silu\", \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"quick_gelu\" or \"relu\"",
            )),
        }
    }
}

impl Layer {
    /// Whether a position sees a key, both counted in the token sequence.
    #[must_use]
    pub fn sees(self, position: u32, key: u32) -> bool {
        key <= position && self.window.is_none_or(|window| position - key < window)
    }
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
        let mut architecture = match model_type.as_deref() {
            Some(gpt2::MODEL_TYPE) => gpt2::take(&mut keys)?,
            Some(bert::MODEL_TYPE) => bert::take(&mut keys)?,
            other => llama_like(&mut keys, other)?,
        };
        for key in ["quantization_config", "is_encoder_decoder", "add_cross_attention"] {
            keys.only(key, &json!(false))?;
        }
        keys.finish(&INERT)?;
        if let Some(eos) = generation.map(generation_eos).transpose()?.flatten() {
            architecture.eos = eos;
        }
        Ok(architecture)
    }

    /// Whether a position's angle is the same in every chunk. Under dynamic RoPE it depends on how far the chunk reaches, so
    /// that steps and one pass over all differ.
    pub(crate) fn angles_are_fixed(&self) -> bool {
        !self.rope.as_ref().is_some_and(|rope| matches!(rope.scaling, RopeScaling::Dynamic { .. }))
    }

    /// How long a sequence may be: `max_position_embeddings`, stretched where RoPE grows with the sequence.
    #[must_use]
    pub fn longest_sequence(&self) -> usize {
        match self.rope.as_ref().map(|rope| &rope.scaling) {
            Some(RopeScaling::Dynamic { factor, max_positions }) => (*max_positions as f64 * factor.max(1.0)) as usize,
            _ => self.max_positions,
        }
    }
}

/// Whether a config.json, as far as it can be understood, is that of an encoder: fetching is not judging.
pub(crate) fn is_encoder(config: &[u8]) -> bool {
    object(config, "").is_ok_and(|object| object.get("model_type").is_some_and(|found| found == bert::MODEL_TYPE))
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

fn llama_like(keys: &mut Keys, model_type: Option<&str>) -> Result<Architecture, CheckpointError> {
    let family = Family::named(keys, model_type)?;
    check_class(keys, &[family.class])?;
    let mut architecture = dimensions(keys, &family)?;
    architecture.layers = layers::take(keys, &family, &architecture)?;
    for (key, supported) in [("pretraining_tp", json!(1)), ("rope_interleaved", json!(false))] {
        keys.only(key, &supported)?;
    }
    Ok(architecture)
}

fn check_class(keys: &mut Keys, supported: &[&str]) -> Result<(), CheckpointError> {
    let Some(classes) = keys.take("architectures") else { return Ok(()) };
    let known = |found: &Value| supported.iter().any(|class| found == class);
    match classes.as_array().is_some_and(|list| list.iter().any(known)) {
        true => Ok(()),
        false => {
            let supported = supported.iter().map(|class| format!("[\"{class}\"]")).collect::<Vec<_>>().join(" or ");
            let expected = format!("{supported}: other heads are not supported");
            Err(keys.wrong("architectures", Some(&classes), expected))
        }
    }
}

fn blocks(keys: &mut Keys, key: &str) -> Result<usize, CheckpointError> {
    let blocks = keys.required_size(key)?;
    if blocks > 4096 {
        return Err(keys.wrong(key, Some(&json!(blocks)), "at most 4096"));
    }
    Ok(blocks)
}

fn dimensions(keys: &mut Keys, family: &Family) -> Result<Architecture, CheckpointError> {
    let hidden = keys.required_size("hidden_size")?;
    let query_heads = keys.required_size("num_attention_heads")?;
    let kv_heads = family.kv_heads(keys, query_heads)?;
    let head_dim = family.head_dim(keys, hidden, query_heads)?;
    let blocks = blocks(keys, "num_hidden_layers")?;
    let max_positions = keys.size("max_position_embeddings")?.unwrap_or(family.max_positions);
    Ok(Architecture {
        hidden,
        blocks,
        query_heads,
        kv_heads,
        head_dim,
        mlp: keys.required_size("intermediate_size")?,
        vocabulary: keys.required_size("vocab_size")?,
        max_positions,
        norm: NormKind::Rms,
        norm_eps: keys.number("rms_norm_eps")?.unwrap_or(1e-6),
        rope: Some(rope::take(keys, family.rope_theta, head_dim, max_positions)?),
        mlp_kind: MlpKind::Gated,
        activation: Activation::take(keys, "hidden_act", Activation::Silu)?,
        norm_placement: NormPlacement::Before,
        embedding_norm: false,
        token_types: None,
        output: Output::Logits,
        tied_head: keys.boolean("tie_word_embeddings")?.unwrap_or(family.tied_head),
        biases: family.biases(keys)?,
        qk_norm: family.qk_norm,
        layers: Vec::new(),
        eos: keys.ids("eos_token_id")?,
        bos: keys.ids("bos_token_id")?.first().copied(),
        model_type: family.model_type.to_owned(),
    })
}

fn generation_eos(bytes: &[u8]) -> Result<Option<Vec<u32>>, CheckpointError> {
    let file = "generation_config.json";
    let object = object(bytes, file)?;
    let present = object.get("eos_token_id").is_some_and(|value| !value.is_null());
    let eos = Keys::new(file, "", object).ids("eos_token_id")?;
    Ok(present.then_some(eos))
}
