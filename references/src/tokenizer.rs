//! Text to ids and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fidelity_trace::BosConvention;
use serde::Deserialize;
use serde_json::Value;

use crate::{Architecture, CheckpointError};

/// A text above this is refused. The regular expressions that cut text give up after a million backtracks, one for each
/// character of a run of spaces, and `tokenizers` then takes the rest as one piece without a word.
const MAX_TEXT_BYTES: usize = 900_000;

/// A checkpoint's tokenizer, checked against its vocabulary.
pub struct Tokenizer {
    file: String,
    inner: tokenizers::Tokenizer,
}

/// Text that cannot become ids.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The library failed.
    #[error("{file}: {reason}")]
    Encode {
        /// The tokenizer's file.
        file: String,
        /// What it says.
        reason: String,
    },
}

impl From<TokenizerError> for CheckpointError {
    fn from(TokenizerError::Encode { file, reason }: TokenizerError) -> Self {
        Self::File { file, reason }
    }
}

impl Tokenizer {
    /// Reads tokenizer.json.
    ///
    /// # Errors
    /// Not a tokenizer, or it knows ids that the embedding has no row for.
    pub fn read(bytes: &[u8], file: &str, architecture: &Architecture) -> Result<Self, CheckpointError> {
        let wrong = |reason: String| CheckpointError::File { file: file.to_owned(), reason };
        let read = contained(|| tokenizers::Tokenizer::from_bytes(bytes));
        let mut inner = read.map_err(|error| {
            wrong(format!("not a tokenizer this program can read: {error}; download the file again"))
        })?;
        let declared: Declared = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if let Some(contradiction) = declared.contradiction(&inner) {
            return Err(wrong(contradiction));
        }
        // Padding and truncation are for batches; a prompt is fed as it is.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| wrong(error.to_string()))?;
        let largest = inner.get_vocab(true).into_iter().max_by_key(|(_, id)| *id);
        match largest {
            Some((token, id)) if id as usize >= architecture.vocabulary => Err(wrong(format!(
                "token {token:?} has id {id}, but config.json's vocab_size is {}: tokenizer and weights do not belong together",
                architecture.vocabulary
            ))),
            Some(_) => Ok(Self { file: file.to_owned(), inner }),
            None => Err(wrong("has no tokens".into())),
        }
    }

    pub(crate) fn encode(
        &self,
        text: &str,
        bos: BosConvention,
        bos_id: Option<u32>,
    ) -> Result<Vec<u32>, TokenizerError> {
        let fail = |reason: String| TokenizerError::Encode { file: self.file.clone(), reason };
        if text.len() > MAX_TEXT_BYTES {
            return Err(fail(format!("the prompt has {} bytes, at most {MAX_TEXT_BYTES} are read", text.len())));
        }
        let special = bos == BosConvention::Tokenizer;
        let encoding = contained(|| self.inner.encode(text, special))
            .map_err(|error| fail(format!("cannot encode the prompt: {error}")))?;
        let mut ids = encoding.get_ids().to_vec();
        if bos == BosConvention::Always {
            let id = bos_id.ok_or_else(|| fail("bos = \"always\", but config.json has no bos_token_id".into()))?;
            ids.insert(0, id);
        }
        if ids.is_empty() {
            return Err(fail(format!("the prompt {text:?} has no tokens; give it some text")));
        }
        Ok(ids)
    }

    /// The text of one id as it stands inside a text, with a leading space where it has one; empty for an id it does not know.
    #[must_use]
    pub fn token_text(&self, id: u32) -> String {
        let alone = self.decode(&[id]);
        // Some decoders drop the space before the first token.
        let twice = self.decode(&[id, id]);
        twice.strip_prefix(&alone).map(str::to_owned).unwrap_or(alone)
    }

    /// The text of ids, special tokens included; ids it does not know are left out.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        contained(|| self.inner.decode(ids, false)).unwrap_or_default()
    }
}

/// Calls the library, which panics on some files that contradict themselves.
fn contained<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the tokenizer contradicts itself".into()),
    }
}

/// What a tokenizer.json says that the library does not hold it to.
#[derive(Deserialize)]
struct Declared {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(default)]
    post_processor: Value,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}

impl Declared {
    fn contradiction(&self, tokenizer: &tokenizers::Tokenizer) -> Option<String> {
        let id = |token: &AddedToken| tokenizer.token_to_id(&token.content);
        // The library gives the next free id, whatever the file says.
        if let Some(token) = self.added_tokens.iter().find(|token| id(token) != Some(token.id)) {
            let AddedToken { id: declared, content } = token;
            let given = id(token).map_or_else(|| "none".to_owned(), |id| id.to_string());
            return Some(format!(
                "added token {content:?} has id {declared} there, but would be given {given}: the ids before it have holes, or \
                 it is another token's; download the file again"
            ));
        }
        let missing = undefined_special_token(&self.post_processor)?;
        Some(format!("its post-processor puts {missing:?} into the text, but does not say which id that is"))
    }
}

/// A special token that a template names and does not define.
fn undefined_special_token(processor: &Value) -> Option<&str> {
    let nested = processor["processors"].as_array().into_iter().flatten().find_map(undefined_special_token);
    let pieces = ["single", "pair"].into_iter().filter_map(|template| processor[template].as_array()).flatten();
    let names = pieces.filter_map(|piece| piece["SpecialToken"]["id"].as_str());
    nested.or_else(|| names.into_iter().find(|name| processor["special_tokens"].get(*name).is_none()))
}
