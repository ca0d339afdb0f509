//! Text to ids and back.

use fidelity_trace::BosConvention;

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
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| {
            wrong(format!("not a tokenizer this program can read: {error}; download the file again"))
        })?;
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
        let encoding =
            self.inner.encode(text, special).map_err(|error| fail(format!("cannot encode the prompt: {error}")))?;
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

    /// The text of ids, special tokens included; ids it does not know are left out.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, false).unwrap_or_default()
    }
}
