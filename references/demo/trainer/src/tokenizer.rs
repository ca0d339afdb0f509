//! The byte-level BPE tokenizer of the demo checkpoint.

use std::path::Path;

use serde_json::json;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer};

use crate::error::write;
use crate::{Error, Result};

/// Number of token ids: one special, 256 bytes, 255 merges.
pub const VOCABULARY: usize = 512;

/// Starts every document, and so also ends the one before it.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// The id of [`END_OF_TEXT`].
pub const END_OF_TEXT_ID: u32 = 0;

/// Trains a tokenizer on `texts`. Every byte is in its vocabulary, so it can encode any text.
///
/// # Errors
/// When the tokenizer library refuses.
pub fn train<'a>(texts: impl Iterator<Item = &'a str> + Send) -> Result<Tokenizer> {
    let mut tokenizer = Tokenizer::new(BPE::default());
    let bytes = ByteLevel::new(false, true, true);
    tokenizer.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
    let bpe = BpeTrainer::builder()
        .vocab_size(VOCABULARY)
        .show_progress(false)
        .special_tokens(vec![AddedToken::from(END_OF_TEXT, true)])
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    tokenizer.train(&mut TrainerWrapper::BpeTrainer(bpe), texts).map_err(Error::Tokenizer)?;
    let start = TemplateProcessing::builder()
        .try_single(format!("{END_OF_TEXT} $A"))
        .and_then(|builder| builder.try_pair(format!("{END_OF_TEXT} $A {END_OF_TEXT} $B:1")))
        .map_err(|message| Error::Tokenizer(message.into()))?
        .special_tokens(vec![(END_OF_TEXT, END_OF_TEXT_ID)])
        .build()
        .map_err(|error| Error::Tokenizer(error.into()))?;
    tokenizer.with_post_processor(Some(start));
    Ok(tokenizer)
}

/// The token ids of `text`, [`END_OF_TEXT_ID`] first.
///
/// # Errors
/// When the tokenizer library refuses.
pub fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>> {
    let encoding = tokenizer.encode(text, true).map_err(Error::Tokenizer)?;
    Ok(encoding.get_ids().to_vec())
}

/// Writes `tokenizer.json` and `tokenizer_config.json` into `directory`.
///
/// # Errors
/// When a file can't be written.
pub fn save(tokenizer: &Tokenizer, directory: &Path) -> Result<()> {
    tokenizer.save(directory.join("tokenizer.json"), true).map_err(Error::Tokenizer)?;
    let config = json!({
        "add_bos_token": true,
        "add_eos_token": false,
        "bos_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": false,
        "eos_token": END_OF_TEXT,
        "model_max_length": crate::model::DEMO.max_positions,
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    write(&directory.join("tokenizer_config.json"), &format!("{config:#}\n"))
}

/// Reads `tokenizer.json` of `directory`.
///
/// # Errors
/// When the file is missing or malformed.
pub fn load(directory: &Path) -> Result<Tokenizer> {
    Tokenizer::from_file(directory.join("tokenizer.json")).map_err(Error::Tokenizer)
}
