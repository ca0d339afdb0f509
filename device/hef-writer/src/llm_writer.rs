//! A compiled language model, as small as one can be that keeps the whole contract.

use serde_json::{Value, json};

use crate::hef_writer::{Context, Edge, Group, Hef, Resource};

/// The dimensions of a language model and what is beside it.
#[derive(Clone)]
pub struct Llm {
    pub hidden: u64,
    pub query_heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub cache: u64,
    pub prefill: u64,
    pub vocabulary: u64,
    pub shards: u64,
    pub blocks: u64,
    pub theta: Vec<f32>,
    pub tokenizer: Vec<u8>,
    pub chat_template: String,
    /// Values of the embedding, row after row.
    pub embedding: Vec<f32>,
}

/// How embeddings are quantised.
pub const EMBEDDING_SCALE: f32 = 1.0 / 8192.0;
pub const EMBEDDING_ZERO_POINT: f32 = 32768.0;

impl Default for Llm {
    fn default() -> Self {
        let (hidden, vocabulary, head_dim) = (32, 40, 8);
        let half = head_dim / 2;
        let frequency = |index: u64| 10000_f32.powf(-((index % half) as f32) / half as f32);
        // Rows that are neither orthogonal nor alike.
        let value = |index: u64| ((index * 37 + index / hidden * 11) % 101) as f32 / 101.0 - 0.5;
        Self {
            hidden,
            query_heads: 4,
            kv_heads: 2,
            head_dim,
            cache: 16,
            prefill: 4,
            vocabulary,
            shards: 2,
            blocks: 2,
            theta: (0..head_dim).map(|index| if index < half { -frequency(index) } else { frequency(index) }).collect(),
            tokenizer: tokenizer(vocabulary),
            chat_template: "{{ bos_token }}{{ messages[0].content }}".into(),
            embedding: (0..hidden * vocabulary).map(value).collect(),
        }
    }
}

/// A tokenizer.json of that many tokens.
pub fn tokenizer(tokens: u64) -> Vec<u8> {
    let vocabulary: Value =
        (1..tokens).map(|id| (format!("token{id}"), json!(id))).collect::<serde_json::Map<_, _>>().into();
    let added = json!([{"id": 0, "content": "<bos>", "special": true}]);
    json!({"version": "1.0", "added_tokens": added, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}})
        .to_string()
        .into_bytes()
}

impl Llm {
    /// hailo-config.json.
    pub fn config(&self) -> Value {
        json!({
            "eos_token_id": 2,
            "chat_template": self.chat_template,
            "pre_process_params": {
                "kv_cache_size": self.cache,
                "num_attention_heads": self.query_heads,
                "num_key_value_heads": self.kv_heads,
                "prefill_input_tokens_count": self.prefill,
            },
        })
    }

    /// embeddings.bin: the nearest codes.
    pub fn embeddings(&self) -> Vec<u8> {
        let code = |value: &f32| (value / EMBEDDING_SCALE + EMBEDDING_ZERO_POINT).round().clamp(0.0, 65535.0) as u16;
        self.embedding.iter().flat_map(|value| code(value).to_le_bytes()).collect()
    }

    /// The file: two groups of two contexts, four resources.
    pub fn hef(&self) -> Hef {
        let theta: Vec<u8> = self.theta.iter().flat_map(|value| value.to_le_bytes()).collect();
        Hef {
            groups: vec![
                self.group("base_model__prefill", "small_prefill", self.prefill),
                self.group("base_model__tbt", "small_tbt", 1),
            ],
            resources: vec![
                Resource::new("hailo-config.json", self.config().to_string()),
                Resource::new("embeddings.bin", self.embeddings()),
                Resource::new("rope_theta_data.bin", theta),
                Resource::new("tokenizer.json", self.tokenizer.clone()),
            ],
            ccws: vec![7; 64],
            ..Hef::default()
        }
    }

    fn group(&self, name: &str, network: &str, rows: u64) -> Group {
        let input = |number: u64, width| Edge::new(&format!("{network}/input_layer{number}"), 0, [1, rows, width]);
        let (queries, keys) = (self.query_heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut embeddings = input(1, self.hidden);
        embeddings.data_bytes = 2;
        embeddings.quantisation = Some((EMBEDDING_SCALE, EMBEDDING_ZERO_POINT));
        embeddings.limits = [-4.0, 4.0];
        let mut mask = input(2, self.query_heads * self.cache);
        mask.quantisation = Some((100.0 / 255.0, 255.0));
        mask.limits = [-100.0, 0.0];
        let mut first = vec![mask, embeddings, input(3, queries), input(4, queries), input(5, keys), input(6, keys)];
        for id in 0..2 * self.blocks {
            first.push(cache(&format!("{network}/cache_in{id}"), 0, [1, self.cache - rows, keys], id));
            first.push(cache(&format!("{network}/cache_out{id}"), 1, [1, rows, keys], id));
        }
        let output =
            |number: u64| Edge::new(&format!("{network}/conv{number}"), 1, [1, 1, self.vocabulary / self.shards]);
        let outputs: Vec<_> = (1..=self.shards).map(output).collect();
        let outputs_order = outputs.iter().map(|edge| edge.name.clone()).collect();
        let contexts = vec![
            Context { index: 0, edges: first, ccws: vec![(0, 64)], ..Context::default() },
            Context { index: 1, edges: outputs, ..Context::default() },
        ];
        Group { name: name.into(), networks: vec![network.into()], contexts, outputs_order, more: Vec::new() }
    }
}

fn cache(name: &str, direction: u64, shape: [u64; 3], id: u64) -> Edge {
    Edge { connection: 3, cache_id: id.cast_signed(), quantisation: None, ..Edge::new(name, direction, shape) }
}
