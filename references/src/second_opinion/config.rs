//! config.json as candle-transformers reads it. This is a reading of its own, apart from [`crate::Architecture`]: a key that one of
//! the two misunderstands makes the numbers differ.

use serde_json::{Map, Value, json};

use super::defects::Implementation;

type Config = Map<String, Value>;

fn size(config: &Config, key: &str) -> Option<u64> {
    config.get(key).and_then(|value| value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)))
}

pub(super) fn model_type(config: &Config) -> &str {
    config.get("model_type").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn hidden_act(config: &Config) -> &str {
    config.get("hidden_act").and_then(Value::as_str).unwrap_or("silu")
}

/// (head_dim as stated, hidden_size / num_attention_heads, 0 when that is no whole number).
pub(super) fn head_dim(config: &Config) -> Option<(u64, u64)> {
    let (hidden, heads) = (size(config, "hidden_size")?, size(config, "num_attention_heads")?);
    let derived = hidden.checked_div(heads).filter(|_| hidden.is_multiple_of(heads));
    Some((size(config, "head_dim")?, derived.unwrap_or(0)))
}

/// The table that RoPE's settings are in: a `rope_scaling` that is not null, else `rope_parameters`.
fn rope_table(config: &Config) -> Option<&Config> {
    ["rope_scaling", "rope_parameters"].iter().find_map(|key| config.get(*key)?.as_object())
}

/// A setting of RoPE, from its table or else from the top level.
pub(super) fn rope<'a>(config: &'a Config, key: &str) -> Option<&'a Value> {
    let present = |config: &'a Config| config.get(key).filter(|value| !value.is_null());
    rope_table(config).and_then(present).or_else(|| present(config))
}

pub(super) fn rope_type(config: &Config) -> &str {
    let Some(table) = rope_table(config) else { return "default" };
    ["rope_type", "type"].iter().find_map(|key| table.get(*key)?.as_str()).unwrap_or("default")
}

/// How many keys the narrowest block sees, itself included.
pub(super) fn window(config: &Config) -> Option<usize> {
    let stated = size(config, "sliding_window").map(|window| window as usize);
    match model_type(config) {
        "mistral" if !config.contains_key("sliding_window") => Some(4096),
        "mistral" => stated,
        _ => stated.filter(|_| config.get("use_sliding_window").and_then(Value::as_bool) == Some(true)),
    }
}

/// What `implementation` is given to read. `longest` is the longest sequence it will be fed.
pub(super) fn translated(config: &Config, implementation: Implementation, longest: usize) -> Config {
    let mut given = config.clone();
    let mut set = |key: &str, value: Value| given.insert(key.to_owned(), value);
    if let Some(theta) = rope(config, "rope_theta") {
        set("rope_theta", theta.clone());
    }
    let scaling =
        rope_table(config).filter(|_| implementation == Implementation::Llama && rope_type(config) == "llama3");
    let scaling = scaling.map(|table| {
        let mut table = table.clone();
        table.insert("rope_type".into(), "llama3".into());
        Value::Object(table)
    });
    set("rope_scaling", scaling.into());
    // Decides the length of RoPE's tables, and in Llama also when the cache is cut, by comparing it to the number of kv heads.
    let heads = size(config, "num_attention_heads").unwrap_or(1) as usize;
    set("max_position_embeddings", json!(longest.max(heads)));
    for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        set(key, Value::Null);
    }
    // Fed step by step none of them has windows, and rows that a window would reach are not compared.
    set("use_sliding_window", json!(false));
    set("sliding_window", if implementation == Implementation::Qwen2 { json!(longest) } else { Value::Null });
    set("max_window_layers", json!(0));
    set("use_flash_attn", json!(false));
    // Absent keys whose defaults in transformers are others than here, or that must be written out here.
    let smollm3 = model_type(config) == "smollm3";
    let mut default = |key: &str, value: Value| {
        if config.get(key).is_none_or(Value::is_null) {
            given.insert(key.to_owned(), value);
        }
    };
    default("attention_bias", json!(false));
    default("tie_word_embeddings", json!(smollm3));
    match model_type(config) {
        "qwen3" => default("head_dim", json!(128)),
        "smollm3" => default("no_rope_layer_interval", json!(4)),
        // SmolLM3 in Llama's place: RoPE in every block.
        _ => ["no_rope_layers", "no_rope_layer_interval"].into_iter().for_each(|key| default(key, Value::Null)),
    }
    given
}
