//! Writing GGUF files, valid ones and any other, after the format's document and without the reader's code.

use std::{collections::BTreeMap, fs, path::Path};

use ::safetensors::SafeTensors;
use serde_json::Value as Json;

/// The kind of float32 tensors.
pub(crate) const F32: u32 = 0;

/// A metadata value: its type number and its bytes.
#[derive(Clone)]
pub(crate) struct Value(pub(crate) u32, pub(crate) Vec<u8>);

pub(crate) fn u32_value(value: u32) -> Value {
    Value(4, value.to_le_bytes().to_vec())
}

pub(crate) fn f32_value(value: f32) -> Value {
    Value(6, value.to_le_bytes().to_vec())
}

pub(crate) fn text_value(text: &str) -> Value {
    Value(8, text_bytes(text))
}

/// A list of `count` values whose bytes follow.
pub(crate) fn list_value(kind: u32, count: u64, bytes: &[u8]) -> Value {
    Value(9, [&kind.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat())
}

fn text_bytes(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A tensor as the file describes it.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) name: String,
    /// Fastest axis first.
    pub(crate) dimensions: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
    /// Offset to write, if not the right one.
    pub(crate) offset: Option<u64>,
}

impl Stored {
    pub(crate) fn new(name: &str, dimensions: &[u64], kind: u32, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), dimensions: dimensions.to_vec(), kind, bytes, offset: None }
    }
}

/// A file; counts that are set are written instead of the right ones.
#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    pub(crate) tensor_count: Option<u64>,
    pub(crate) entry_count: Option<u64>,
    pub(crate) entries: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Stored>,
    pub(crate) alignment: usize,
}

impl Gguf {
    pub(crate) fn new(entries: Vec<(String, Value)>, tensors: Vec<Stored>) -> Self {
        Self { magic: *b"GGUF", version: 3, tensor_count: None, entry_count: None, entries, tensors, alignment: 32 }
    }

    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.entries.retain(|(name, _)| name != key);
        self.entries.push((key.to_owned(), value));
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.entry_count.unwrap_or(self.entries.len() as u64).to_le_bytes());
        for (key, Value(kind, value)) in &self.entries {
            bytes.extend(text_bytes(key));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(value);
        }
        let mut next = 0;
        for tensor in &self.tensors {
            bytes.extend(text_bytes(&tensor.name));
            bytes.extend((tensor.dimensions.len() as u32).to_le_bytes());
            tensor.dimensions.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
            bytes.extend(tensor.kind.to_le_bytes());
            bytes.extend(tensor.offset.unwrap_or(next as u64).to_le_bytes());
            next = (next + tensor.bytes.len()).next_multiple_of(self.alignment);
        }
        bytes
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header();
        for tensor in &self.tensors {
            bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
            bytes.extend(&tensor.bytes);
        }
        bytes
    }

    pub(crate) fn write(&self, path: &Path) {
        fs::write(path, self.bytes()).expect("writes");
    }
}

/// The float32 tensors of a safetensors file: shape and values by name.
pub(crate) fn float32_tensors(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let bytes = fs::read(path).expect("there");
    let file = SafeTensors::deserialize(&bytes).expect("whole");
    let values = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|quad| f32::from_le_bytes(*quad)).collect();
    file.iter().map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), values(view.data())))).collect()
}

/// A folder of a llama, mistral, qwen2 or qwen3 as a float32 GGUF file. Of the first two, q and k rows are stored in adjacent
/// pairs, k by `kv_heads` heads, or by its own.
pub(crate) fn from_folder(folder: &Path, kv_heads: Option<usize>) -> Gguf {
    let config: Json = serde_json::from_slice(&fs::read(folder.join("config.json")).expect("there")).expect("JSON");
    let size = |key: &str| config[key].as_u64().expect("a size") as usize;
    let architecture = match config["model_type"].as_str().expect("a type") {
        "mistral" => "llama",
        other => other,
    };
    let tensors = float32_tensors(&folder.join("model.safetensors")).into_iter().map(|(name, (shape, values))| {
        let name = gguf_name(&name);
        let heads = match name.as_str() {
            _ if architecture != "llama" => None,
            name if name.contains(".attn_q.") => Some(size("num_attention_heads")),
            name if name.contains(".attn_k.") => Some(kv_heads.unwrap_or(size("num_key_value_heads"))),
            _ => None,
        };
        let values = heads.map_or_else(|| values.clone(), |heads| adjacent_pairs(&values, shape[0], heads));
        let dimensions: Vec<_> = shape.iter().rev().map(|size| *size as u64).collect();
        Stored::new(&name, &dimensions, F32, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    });
    Gguf::new(entries(&config, architecture), tensors.collect())
}

/// config.json as metadata.
fn entries(config: &Json, architecture: &str) -> Vec<(String, Value)> {
    let size = |key: &str| config[key].as_u64().expect("a size") as u32;
    let head_dim = config["head_dim"].as_u64().map_or(size("hidden_size") / size("num_attention_heads"), |d| d as u32);
    let rope = if config["rope_parameters"].is_null() { config } else { &config["rope_parameters"] };
    let number = |value: &Json| f32_value(value.as_f64().expect("a number") as f32);
    let own = [
        ("vocab_size", u32_value(size("vocab_size"))),
        ("context_length", u32_value(size("max_position_embeddings"))),
        ("embedding_length", u32_value(size("hidden_size"))),
        ("block_count", u32_value(size("num_hidden_layers"))),
        ("feed_forward_length", u32_value(size("intermediate_size"))),
        ("attention.head_count", u32_value(size("num_attention_heads"))),
        ("attention.head_count_kv", u32_value(size("num_key_value_heads"))),
        ("attention.key_length", u32_value(head_dim)),
        ("attention.value_length", u32_value(head_dim)),
        ("rope.dimension_count", u32_value(head_dim)),
        ("rope.freq_base", number(&rope["rope_theta"])),
        ("attention.layer_norm_rms_epsilon", number(&config["rms_norm_eps"])),
    ];
    let mut entries = vec![
        ("general.architecture".to_owned(), text_value(architecture)),
        ("general.type".to_owned(), text_value("model")),
        ("tokenizer.ggml.bos_token_id".to_owned(), u32_value(size("bos_token_id"))),
        ("tokenizer.ggml.eos_token_id".to_owned(), u32_value(size("eos_token_id"))),
    ];
    entries.extend(own.map(|(key, value)| (format!("{architecture}.{key}"), value)));
    let scaling = if config["rope_scaling"].is_null() { rope } else { &config["rope_scaling"] };
    if let Some(kind @ ("linear" | "yarn")) = scaling["rope_type"].as_str() {
        let mut scale = |key: &str, value| entries.push((format!("{architecture}.rope.scaling.{key}"), value));
        scale("type", text_value(kind));
        scale("factor", number(&scaling["factor"]));
        if let Some(original) = scaling["original_max_position_embeddings"].as_u64() {
            scale("original_context_length", u32_value(original as u32));
        }
    }
    entries
}

fn gguf_name(name: &str) -> String {
    [
        ("model.embed_tokens", "token_embd"),
        ("lm_head", "output"),
        ("model.norm", "output_norm"),
        ("model.layers", "blk"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ]
    .iter()
    .fold(name.to_owned(), |name, (checkpoint, gguf)| name.replace(checkpoint, gguf))
}

/// Rows h·d + s·d/2 + j of the checkpoint become rows h·d + 2j + s.
fn adjacent_pairs(values: &[f32], rows: usize, heads: usize) -> Vec<f32> {
    let (columns, width) = (values.len() / rows, rows / heads);
    let mut stored = vec![0.0; values.len()];
    for row in 0..rows {
        let (head, inside) = (row / width, row % width);
        let (half, pair) = (inside / (width / 2), inside % (width / 2));
        let target = head * width + 2 * pair + half;
        stored[target * columns..][..columns].copy_from_slice(&values[row * columns..][..columns]);
    }
    stored
}
