//! The prompts the demo is evaluated and calibrated on: beginnings of stories the model was not trained on.

use std::collections::BTreeMap;
use std::path::Path;

use tokenizers::Tokenizer;

use crate::Result;
use crate::error::write;
use crate::grammar::{Stories, plot_names};
use crate::tokenizer::encode;

/// Prompts in each file.
pub const COUNT: usize = 16;

/// Fewest tokens of a prompt, [`crate::tokenizer::END_OF_TEXT`] included.
pub const SHORTEST_TOKENS: usize = 64;

/// Most tokens of a prompt.
pub const LONGEST_TOKENS: usize = 90;

/// Seed of the stories the evaluation prompts begin.
pub const EVALUATION_SEED: u64 = 3;

/// Seed of the stories the calibration prompts begin.
pub const CALIBRATION_SEED: u64 = 4;

/// Tokens a story has to go on for after the cut, so that a continuation stays inside it.
const REST_TOKENS: usize = 40;

/// Writes `demo.txt` and `demo-calibration.txt`, one prompt a line, into `directory`.
///
/// # Errors
/// When the tokenizer refuses or a file can't be written.
pub fn save(tokenizer: &Tokenizer, directory: &Path) -> Result<()> {
    for (file, seed) in [("demo.txt", EVALUATION_SEED), ("demo-calibration.txt", CALIBRATION_SEED)] {
        let lines = draw(tokenizer, seed)?.join("\n");
        write(&directory.join(file), &format!("{lines}\n"))?;
    }
    Ok(())
}

/// [`COUNT`] prompts that use every plot before any plot a second time, cut at the end of a word.
///
/// # Errors
/// When the tokenizer refuses.
pub fn draw(tokenizer: &Tokenizer, seed: u64) -> Result<Vec<String>> {
    let mut uses = BTreeMap::new();
    let mut prompts = Vec::new();
    for story in Stories::new(seed) {
        let round = prompts.len() / plot_names().len();
        let used = uses.entry(story.plot).or_insert(0);
        if *used > round {
            continue;
        }
        let wanted = SHORTEST_TOKENS + prompts.len() * (LONGEST_TOKENS - 6 - SHORTEST_TOKENS) / (COUNT - 1);
        let prompt = beginning(tokenizer, &story.text, wanted)?;
        if encode(tokenizer, &story.text)?.len() < wanted + REST_TOKENS {
            continue;
        }
        *used += 1;
        prompts.push(prompt);
        if prompts.len() == COUNT {
            break;
        }
    }
    Ok(prompts)
}

/// The shortest run of whole words of `text` that has at least `tokens` tokens.
fn beginning(tokenizer: &Tokenizer, text: &str, tokens: usize) -> Result<String> {
    for (end, _) in text.match_indices(' ') {
        if encode(tokenizer, &text[..end])?.len() >= tokens {
            return Ok(text[..end].to_owned());
        }
    }
    Ok(text.to_owned())
}
