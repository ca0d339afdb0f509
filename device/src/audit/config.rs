//! hailo-config.json, read as the GenAI server of `HailoRT` 5.2 reads it (`hailort_server/genai/llm/llm_server.cpp`).

use fidelity_trace::nearest;
use serde_json::{Map, Value};

/// A number of `pre_process_params`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// The key.
    pub(crate) key: &'static str,
    /// What the server uses.
    pub(crate) value: u64,
    /// It is in the file; otherwise it is the server's default.
    pub(crate) stated: bool,
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let origin = if self.stated { "" } else { ", the server's default" };
        write!(f, "{} = {}{origin}", self.key, self.value)
    }
}

/// What an input is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Embeddings,
    Mask,
    QueryCos,
    QuerySin,
    KeyCos,
    KeySin,
}

impl Role {
    pub(crate) const ALL: [Self; 6] =
        [Self::Embeddings, Self::Mask, Self::QueryCos, Self::QuerySin, Self::KeyCos, Self::KeySin];

    /// Its key in `input_layers_names_suffixes`.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Embeddings => "embeddings",
            Self::Mask => "attention_mask",
            Self::QueryCos => "pe_q_cos",
            Self::QuerySin => "pe_q_sin",
            Self::KeyCos => "pe_k_cos",
            Self::KeySin => "pe_k_sin",
        }
    }
}

/// hailo-config.json and the defaults of what it does not say.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) kv_cache_size: Parameter,
    pub(crate) query_heads: Parameter,
    pub(crate) kv_heads: Parameter,
    pub(crate) prefill_count: Parameter,
    /// Suffix of each role's input, in the order of [`Role::ALL`].
    pub(crate) suffixes: [String; 6],
    /// At least one of them is in the file.
    pub(crate) suffixes_stated: bool,
    pub(crate) eos: Option<i64>,
    pub(crate) chat_template: String,
    /// Values that the server does not accept.
    pub(crate) problems: Vec<String>,
    /// Keys that the server does not read, with what they lead to.
    pub(crate) unread: Vec<(String, Harm)>,
}

/// What becomes of a key that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    None,
    /// It may be meant for a key that is missing.
    Possible,
    /// The server takes another value than the file says.
    Certain,
}

const TOP: [&str; 8] = [
    "eos_token_id",
    "chat_template",
    "stop_token_id",
    "begin_of_reasoning_token_id",
    "end_of_reasoning_token_id",
    "default_generation_params",
    "pre_process_params",
    "input_layers_names_suffixes",
];
const GENERATION: [&str; 6] = ["max_new_tokens", "temperature", "top_p", "top_k", "repetition_penalty", "do_sample"];
const PRE_PROCESS: [(&str, u64); 4] = [
    ("kv_cache_size", 2048),
    ("num_attention_heads", 12),
    ("num_key_value_heads", 2),
    ("prefill_input_tokens_count", 96),
];
const MROPE: &str = "mrope_section";
/// Words in common from which on a key may be meant for another: `prefill_input_tokens_size` shares three with
/// `prefill_input_tokens_count`.
const SHARED_WORDS: usize = 2;

impl Default for Config {
    fn default() -> Self {
        Self::of(&Map::new())
    }
}

impl Config {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(object)) => Ok(Self::of(&object)),
            Ok(_) => Err("it is not a JSON object".into()),
            Err(error) => Err(format!("it is not JSON: {error}")),
        }
    }

    fn of(object: &Map<String, Value>) -> Self {
        let mut problems = Vec::new();
        let mut table = |key: &str| match object.get(key) {
            None => Map::new(),
            Some(Value::Object(table)) => table.clone(),
            Some(other) => {
                problems.push(format!("{key} is {}, expected an object", shown(other)));
                Map::new()
            }
        };
        let (pre_process, suffixes) = (table("pre_process_params"), table("input_layers_names_suffixes"));
        let generation = table("default_generation_params");
        let [cache, heads, kv_heads, prefill] =
            PRE_PROCESS.map(|(key, default)| parameter(&pre_process, key, default, &mut problems));
        let mut role = 0;
        let suffixes_found = Role::ALL.map(|of| {
            role += 1;
            suffix(&suffixes, of.key(), role, &mut problems)
        });
        let eos = match object.get("eos_token_id").map(|eos| (eos, eos.as_i64())) {
            Some((_, Some(eos))) => Some(eos),
            Some((other, None)) => {
                problems.push(format!("eos_token_id is {}, expected a whole number", shown(other)));
                None
            }
            None => None,
        };
        let chat_template = match object.get("chat_template") {
            None => String::new(),
            Some(Value::String(template)) => template.clone(),
            Some(other) => {
                problems.push(format!("chat_template is {}, expected text", shown(other)));
                String::new()
            }
        };
        let mut unread = Vec::new();
        pre_process_keys(&pre_process, &mut unread);
        let roles = Role::ALL.map(Role::key);
        others(&suffixes, "input_layers_names_suffixes.", &roles, &mut unread);
        others(&generation, "default_generation_params.", &GENERATION, &mut unread);
        others(object, "", &TOP, &mut unread);
        Self {
            kv_cache_size: cache,
            query_heads: heads,
            kv_heads,
            prefill_count: prefill,
            suffixes: suffixes_found,
            suffixes_stated: roles.iter().any(|role| suffixes.contains_key(*role)),
            eos,
            chat_template,
            problems,
            unread,
        }
    }
}

fn parameter(table: &Map<String, Value>, key: &'static str, default: u64, problems: &mut Vec<String>) -> Parameter {
    match table.get(key) {
        None => Parameter { key, value: default, stated: false },
        Some(value) => match value.as_u64().filter(|value| u32::try_from(*value).is_ok()) {
            Some(value) => Parameter { key, value, stated: true },
            None => {
                problems
                    .push(format!("pre_process_params.{key} is {}, expected a whole number of 32 bits", shown(value)));
                Parameter { key, value: default, stated: false }
            }
        },
    }
}

fn suffix(table: &Map<String, Value>, key: &str, number: usize, problems: &mut Vec<String>) -> String {
    match table.get(key) {
        Some(Value::String(suffix)) => suffix.clone(),
        Some(other) => {
            problems.push(format!("input_layers_names_suffixes.{key} is {}, expected text", shown(other)));
            format!("input_layer{number}")
        }
        None => format!("input_layer{number}"),
    }
}

/// Keys of `pre_process_params` that nobody reads. One that is meant for another does harm where its value is not the default.
fn pre_process_keys(table: &Map<String, Value>, unread: &mut Vec<(String, Harm)>) {
    for (key, value) in table {
        if key == MROPE || PRE_PROCESS.iter().any(|(known, _)| known == key) {
            continue;
        }
        let absent = PRE_PROCESS.iter().filter(|(known, _)| !table.contains_key(*known));
        let meant: Vec<_> = absent.filter(|(known, _)| shared_words(key, known) >= SHARED_WORDS).collect();
        let (key, value) = (crate::hef::quoted(key), shown(value));
        unread.push(match meant[..] {
            [] => (format!("pre_process_params.{key} is not read"), Harm::None),
            [(known, default)] => (
                format!("pre_process_params.{key} = {value} is not read; `{known}` is, and without it the server takes {default}"),
                if value == default.to_string() { Harm::None } else { Harm::Certain },
            ),
            [(first, _), (second, _), ..] => (
                format!("pre_process_params.{key} = {value} is not read; is `{first}` or `{second}` meant?"),
                Harm::Possible,
            ),
        });
    }
}

fn shared_words(key: &str, known: &str) -> usize {
    key.split('_').filter(|word| known.split('_').any(|other| other == *word)).count()
}

fn others(table: &Map<String, Value>, prefix: &str, known: &[&'static str], unread: &mut Vec<(String, Harm)>) {
    for key in table.keys().filter(|key| !known.contains(&key.as_str())) {
        let near = nearest(key, known.iter().copied()).filter(|near| !table.contains_key(*near));
        let key = crate::hef::quoted(key);
        unread.push(match near {
            Some(near) => (format!("{prefix}{key} is not read; is `{near}` meant?"), Harm::Possible),
            None => (format!("{prefix}{key} is not read"), Harm::None),
        });
    }
}

/// A JSON value, cut to what fits in a message.
fn shown(value: &Value) -> String {
    crate::hef::quoted(&value.to_string()).trim_matches('`').to_owned()
}
