//! What the stored checkpoint and prompts promise to everybody who reads them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fidelity_demo_trainer::grammar::Stories;
use fidelity_demo_trainer::model::DEMO;
use fidelity_demo_trainer::prompts::{self, CALIBRATION_SEED, COUNT, EVALUATION_SEED, LONGEST_TOKENS, SHORTEST_TOKENS};
use fidelity_demo_trainer::score::{continue_greedily, held_out};
use fidelity_demo_trainer::tokenizer::{self, END_OF_TEXT_ID, encode};
use fidelity_demo_trainer::train::{ROWS, STEPS, TRAINING_SEED};
use fidelity_demo_trainer::{Model, Result, logits};

/// What may be embedded in the binary.
const LARGEST_CHECKPOINT_BYTES: u64 = 2_000_000;

/// The README's perplexity, with room for another machine's rounding.
const LARGEST_PERPLEXITY: f64 = 1.3;

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn weights() -> PathBuf {
    demo().join("model.safetensors")
}

fn stored_prompts(file: &str) -> Vec<String> {
    let path = demo().join("../../prompts").join(file);
    let text = fs::read_to_string(path).expect("the prompts are stored in the repository");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn checkpoint_fits_the_size_it_may_have() {
    let files = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    let size = |file| fs::metadata(demo().join(file)).expect("the checkpoint is stored in the repository").len();
    let total: u64 = files.into_iter().map(size).sum();
    assert!(total <= LARGEST_CHECKPOINT_BYTES, "{total} bytes");
}

#[test]
fn stored_config_is_the_one_the_trainer_writes() {
    let text = fs::read_to_string(demo().join("config.json")).expect("the config is stored in the repository");
    assert_eq!(text, format!("{:#}\n", DEMO.to_json()));
}

#[test]
fn tokenizer_gives_back_any_text_and_starts_it_with_the_document_token() -> Result<()> {
    let tokenizer = tokenizer::load(&demo())?;
    let mut texts: Vec<String> = Stories::new(99).take(50).map(|story| story.text).collect();
    texts.extend(["naïve café – 日本語 🙂\t\n".to_owned(), String::new()]);
    for text in texts {
        let ids = encode(&tokenizer, &text)?;
        assert_eq!(ids[0], END_OF_TEXT_ID);
        assert!(ids.iter().all(|&id| (id as usize) < DEMO.vocabulary));
        assert_eq!(tokenizer.decode(&ids, true).expect("ids come from the tokenizer"), text);
    }
    Ok(())
}

#[test]
fn stored_prompts_are_the_ones_the_trainer_draws() -> Result<()> {
    let tokenizer = tokenizer::load(&demo())?;
    assert_eq!(stored_prompts("demo.txt"), prompts::draw(&tokenizer, EVALUATION_SEED)?);
    assert_eq!(stored_prompts("demo-calibration.txt"), prompts::draw(&tokenizer, CALIBRATION_SEED)?);
    Ok(())
}

#[test]
fn prompts_have_the_promised_length_and_none_is_in_both_files() -> Result<()> {
    let tokenizer = tokenizer::load(&demo())?;
    let (evaluation, calibration) = (stored_prompts("demo.txt"), stored_prompts("demo-calibration.txt"));
    assert_eq!((evaluation.len(), calibration.len()), (COUNT, COUNT));
    for prompt in evaluation.iter().chain(&calibration) {
        let length = encode(&tokenizer, prompt)?.len();
        assert!((SHORTEST_TOKENS..=LONGEST_TOKENS).contains(&length), "{length} tokens: {prompt}");
    }
    let different: BTreeSet<_> = evaluation.iter().chain(&calibration).collect();
    assert_eq!(different.len(), 2 * COUNT);
    Ok(())
}

#[test]
fn no_prompt_begins_a_story_of_the_training_run() {
    let mut prompts = stored_prompts("demo.txt");
    prompts.extend(stored_prompts("demo-calibration.txt"));
    // No story is shorter than half a row, so a row begins two at most.
    for story in Stories::new(TRAINING_SEED).take(STEPS * ROWS * 2) {
        assert!(prompts.iter().all(|prompt| !story.text.starts_with(prompt)), "{}", story.text);
    }
}

#[test]
fn stored_weights_predict_held_out_stories() -> Result<()> {
    let score = held_out(&Model::load(&weights())?, &tokenizer::load(&demo())?, 8)?;
    assert!(score.perplexity() < LARGEST_PERPLEXITY, "perplexity {}", score.perplexity());
    Ok(())
}

#[test]
fn logits_are_finite_and_do_not_see_later_tokens() -> Result<()> {
    let tokens = encode(&tokenizer::load(&demo())?, &stored_prompts("demo.txt")[0])?;
    let whole = logits(&weights(), &tokens)?.to_vec2::<f32>()?;
    let start = logits(&weights(), &tokens[..20])?.to_vec2::<f32>()?;
    assert_eq!((whole.len(), whole[0].len()), (tokens.len(), DEMO.vocabulary));
    assert!(whole.iter().flatten().all(|logit| logit.is_finite()));
    for (whole, start) in whole.iter().zip(&start) {
        assert!(whole.iter().zip(start).all(|(whole, start)| (whole - start).abs() < 1e-4));
    }
    Ok(())
}

#[test]
fn greedy_continuations_never_get_stuck() -> Result<()> {
    let (model, tokenizer) = (Model::load(&weights())?, tokenizer::load(&demo())?);
    for prompt in stored_prompts("demo.txt") {
        let text = continue_greedily(&model, &tokenizer, &prompt, 40)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.len() >= 10, "{prompt} ▸{text}");
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]), "{prompt} ▸{text}");
    }
    Ok(())
}
