//! How good a model is, and what it writes.

use candle_core::D;
use tokenizers::Tokenizer;

use crate::grammar::Stories;
use crate::model::{DEMO, Model};
use crate::ops::log_softmax;
use crate::tokenizer::{END_OF_TEXT_ID, encode};
use crate::{Error, Result};

/// Seed of the held-out stories that losses and perplexities are measured on.
pub const HELD_OUT_SEED: u64 = 2;

/// Mean loss over a set of stories.
#[derive(Debug, Clone, Copy)]
pub struct HeldOut {
    /// In nats per token.
    pub loss: f64,
    /// Number of predicted tokens.
    pub tokens: usize,
}

impl HeldOut {
    /// The exponential of the loss.
    #[must_use]
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }
}

/// Scores the first `stories` held-out stories, each on its own: every token after the first, and the end of the text.
///
/// # Errors
/// When the tokenizer or a tensor operation fails.
pub fn held_out(model: &Model, tokenizer: &Tokenizer, stories: usize) -> Result<HeldOut> {
    let (mut sum, mut count) = (0.0, 0);
    for story in Stories::new(HELD_OUT_SEED).take(stories) {
        let mut tokens = encode(tokenizer, &story.text)?;
        tokens.push(END_OF_TEXT_ID);
        let (inputs, targets) = (&tokens[..tokens.len() - 1], &tokens[1..]);
        let scores = log_softmax(&model.logits(inputs)?)?.to_vec2::<f32>()?;
        sum -= scores.iter().zip(targets).map(|(row, &target)| f64::from(row[target as usize])).sum::<f64>();
        count += targets.len();
    }
    Ok(HeldOut { loss: sum / count as f64, tokens: count })
}

/// Extends `prompt` by the most likely token, up to `limit` tokens or the end of the text, and returns the new text.
///
/// # Errors
/// When the tokenizer or a tensor operation fails.
pub fn continue_greedily(model: &Model, tokenizer: &Tokenizer, prompt: &str, limit: usize) -> Result<String> {
    let start = encode(tokenizer, prompt)?;
    let mut tokens = start.clone();
    while tokens.len() < (start.len() + limit).min(DEMO.max_positions) {
        let logits = model.logits(&tokens)?;
        let next = logits.get(tokens.len() - 1)?.argmax(D::Minus1)?.to_scalar::<u32>()?;
        if next == END_OF_TEXT_ID {
            break;
        }
        tokens.push(next);
    }
    tokenizer.decode(&tokens[start.len()..], true).map_err(Error::Tokenizer)
}
