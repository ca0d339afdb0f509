//! A Hugging Face checkpoint of the Llama architecture, read from its folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::network::Dimensions;

/// A checkpoint that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// config.json is not JSON.
    #[error("config.json: {0}")]
    Json(#[from] serde_json::Error),
    /// A key of config.json is not there, or nothing that this decoder computes.
    #[error("config.json: {key} is {found}, expected {expected}")]
    Config {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// What is computed.
        expected: &'static str,
    },
}

/// A checkpoint: all that is compiled into a HEF.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Its dimensions.
    pub dimensions: Dimensions,
    /// Angle per position of each pair of dimensions of a head, in radians: pair i is dimensions i and i + `head_dim` / 2.
    pub frequencies: Vec<f64>,
    /// Ends a text.
    pub eos_ids: Vec<u64>,
    /// model.safetensors
    pub weights: Vec<u8>,
    /// tokenizer.json
    pub tokenizer: Vec<u8>,
    /// Jinja; empty when the folder has none.
    pub chat_template: String,
}

impl Checkpoint {
    /// Reads config.json, model.safetensors, tokenizer.json and, if it is there, `tokenizer_config.json`.
    ///
    /// # Errors
    /// A file is missing, or config.json says what this decoder does not compute.
    pub fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let config: Value = serde_json::from_slice(&file(folder, "config.json")?)?;
        let tokenizer_config = match fs::read(folder.join("tokenizer_config.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(_) => Value::Null,
        };
        let config = Config(config);
        config.refuse_what_is_not_computed()?;
        let query_heads = config.size("num_attention_heads")?;
        let hidden = config.size("hidden_size")?;
        let head_dim = match config.0.get("head_dim") {
            None | Some(Value::Null) => hidden.checked_div(query_heads).unwrap_or_default(),
            Some(_) => config.size("head_dim")?,
        };
        let dimensions = Dimensions {
            layers: config.size("num_hidden_layers")?,
            hidden,
            intermediate: config.size("intermediate_size")?,
            query_heads,
            kv_heads: config.size("num_key_value_heads")?,
            head_dim,
            vocabulary: config.size("vocab_size")?,
            norm_epsilon: config.number("rms_norm_eps", config.0.get("rms_norm_eps"))? as f32,
        };
        if !dimensions.is_sound() {
            let found = format!("{dimensions:?}");
            return Err(CheckpointError::Config { key: "its dimensions", found, expected: "those of a decoder" });
        }
        let base = config.rope_theta()?;
        let frequency = |pair: usize| base.powf(-2.0 * pair as f64 / head_dim as f64);
        Ok(Self {
            dimensions,
            frequencies: (0..head_dim / 2).map(frequency).collect(),
            eos_ids: config.eos_ids()?,
            weights: file(folder, "model.safetensors")?,
            tokenizer: file(folder, "tokenizer.json")?,
            chat_template: tokenizer_config["chat_template"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

fn file(folder: &Path, name: &str) -> Result<Vec<u8>, CheckpointError> {
    let path = folder.join(name);
    fs::read(&path).map_err(|source| CheckpointError::File { path, source })
}

struct Config(Value);

impl Config {
    fn wrong(key: &'static str, found: Option<&Value>, expected: &'static str) -> CheckpointError {
        CheckpointError::Config { key, found: found.map_or_else(|| "absent".into(), Value::to_string), expected }
    }

    fn size(&self, key: &'static str) -> Result<usize, CheckpointError> {
        let value = self.0.get(key);
        let size = value.and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| Self::wrong(key, value, "a whole number"))
    }

    fn number(&self, key: &'static str, value: Option<&Value>) -> Result<f64, CheckpointError> {
        value.and_then(Value::as_f64).ok_or_else(|| Self::wrong(key, value, "a number"))
    }

    fn refuse_what_is_not_computed(&self) -> Result<(), CheckpointError> {
        for (key, expected) in [("model_type", "llama"), ("hidden_act", "silu")] {
            if self.0.get(key).and_then(Value::as_str) != Some(expected) {
                return Err(Self::wrong(key, self.0.get(key), expected));
            }
        }
        let scaling = self.0.get("rope_scaling").filter(|scaling| !scaling.is_null());
        if scaling.is_some() {
            return Err(Self::wrong("rope_scaling", scaling, "none"));
        }
        let kind = self.0.pointer("/rope_parameters/rope_type");
        if kind.is_some_and(|kind| kind != "default") {
            return Err(Self::wrong("rope_parameters.rope_type", kind, "default"));
        }
        Ok(())
    }

    fn rope_theta(&self) -> Result<f64, CheckpointError> {
        let base = self.0.pointer("/rope_parameters/rope_theta").or_else(|| self.0.get("rope_theta"));
        match base {
            // transformers' own default (`LlamaConfig`).
            None => Ok(10_000.0),
            Some(_) => self.number("rope_theta", base),
        }
    }

    fn eos_ids(&self) -> Result<Vec<u64>, CheckpointError> {
        let value = self.0.get("eos_token_id");
        let ids = match value {
            Some(Value::Array(ids)) => ids.iter().map(Value::as_u64).collect(),
            Some(id) => id.as_u64().map(|id| vec![id]),
            None => None,
        };
        ids.filter(|ids| !ids.is_empty()).ok_or_else(|| Self::wrong("eos_token_id", value, "an id, or several"))
    }
}
