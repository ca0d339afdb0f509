//! What an audit is told of a checkpoint, as plain data.

use std::io::Read;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sha2::{Digest, Sha256};

use crate::hef::Xxh3;

/// Rows of an embedding, `[rows, hidden]` row after row, given the first and how many; or why they cannot be read.
pub type EmbeddingRows<'a> = Box<dyn FnMut(usize, usize) -> Result<Vec<f32>, String> + 'a>;

/// What an audit is told of a checkpoint.
pub struct CheckpointFacts<'a> {
    /// Its name.
    pub name: String,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Query heads.
    pub query_heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// The rotary embedding; absent where positions are learned.
    pub rope: Option<RopeFacts>,
    /// Reads the embedding.
    pub embedding_rows: EmbeddingRows<'a>,
    /// tokenizer.json; absent when the checkpoint has none.
    pub tokenizer: Option<TokenizerFacts>,
    /// How a prompt begins.
    pub bos: BosFacts,
}

/// A rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeFacts {
    /// Angle per position of each pair of dimensions, in radians; pair i is dimensions i and i + length.
    pub frequencies: Vec<f64>,
    /// cos and sin are multiplied by this (YaRN); 1 otherwise.
    pub magnitude: f64,
    /// Frequencies change with the length of the sequence (dynamic scaling); these are those of a short one.
    pub depends_on_length: bool,
}

/// Whether the checkpoint was made to begin with BOS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BosFacts {
    /// A prompt begins with BOS; absent when that is not known.
    pub expected: Option<bool>,
    /// BOS as text, where the tokenizer has one.
    pub token: Option<String>,
}

/// A tokenizer.json.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerFacts {
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Its tokens.
    pub vocabulary: Vocabulary,
}

/// The tokens of a tokenizer.json.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Entries of vocabulary and added tokens.
    pub entries: u64,
    /// The largest id; absent when there is no token.
    pub largest_id: Option<u64>,
    /// A digest of all tokens with their ids, whatever their order.
    pub digest: u64,
}

impl TokenizerFacts {
    /// Reads a tokenizer.json as it streams by, without keeping its tokens.
    ///
    /// # Errors
    /// Not JSON, or no tokenizer.
    pub fn read(file: impl Read) -> Result<Self, String> {
        let mut hashing = Hashing { inner: std::io::BufReader::with_capacity(1 << 16, file), hasher: Sha256::new() };
        let parsed: Tokenizer = serde_json::from_reader(&mut hashing).map_err(|error| error.to_string())?;
        // What follows the value was read as white space, and belongs to the hash all the same.
        std::io::copy(&mut hashing, &mut std::io::sink()).map_err(|error| error.to_string())?;
        let mut vocabulary = parsed.model.map(|model| model.vocab).unwrap_or_default();
        for token in parsed.added_tokens.unwrap_or_default() {
            vocabulary.add(&token.content, token.id);
        }
        Ok(Self { sha256: fidelity_trace::hex(&hashing.hasher.finalize()), vocabulary })
    }
}

struct Hashing<R> {
    inner: R,
    hasher: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

#[derive(serde::Deserialize)]
struct Tokenizer {
    model: Option<TokenizerModel>,
    added_tokens: Option<Vec<AddedToken>>,
}

#[derive(serde::Deserialize)]
struct TokenizerModel {
    #[serde(default)]
    vocab: Vocabulary,
}

#[derive(serde::Deserialize)]
struct AddedToken {
    id: u64,
    content: String,
}

impl Vocabulary {
    fn add(&mut self, token: &str, id: u64) {
        let mut hasher = Xxh3::default();
        hasher.update(&id.to_le_bytes());
        hasher.update(token.as_bytes());
        self.digest = self.digest.wrapping_add(hasher.finish());
        self.entries += 1;
        self.largest_id = self.largest_id.max(Some(id));
    }
}

/// A map from token to id, or a list of tokens with scores, whose ids are their places.
impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vocabulary;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map from token to id, or a list of tokens with scores")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
        let mut vocabulary = Vocabulary::default();
        while let Some((token, id)) = map.next_entry::<String, u64>()? {
            vocabulary.add(&token, id);
        }
        Ok(vocabulary)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
        let mut vocabulary = Vocabulary::default();
        while let Some((token, _)) = list.next_element::<(String, IgnoredAny)>()? {
            vocabulary.add(&token, vocabulary.entries);
        }
        Ok(vocabulary)
    }
}
