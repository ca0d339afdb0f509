//! Trains the demo checkpoint and writes it with its tokenizer and its prompts, or shows what the stored one writes.
//!
//! Run it with `CANDLE_NUM_THREADS=1`: two threads work on a shard each, and Candle's own pool would spin against them.
#![expect(clippy::print_stdout, reason = "the loss curve is this program's output")]

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use fidelity_demo_trainer::grammar::Stories;
use fidelity_demo_trainer::model::{DEMO, Model};
use fidelity_demo_trainer::prompts::{self, EVALUATION_SEED};
use fidelity_demo_trainer::score::{continue_greedily, held_out};
use fidelity_demo_trainer::train::{self, Progress, TRAINING_SEED};
use fidelity_demo_trainer::{Result, tokenizer};

/// Training makes and drops large buffers all the time, which the system's allocator hands back page by page.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TOKENIZER_STORIES: usize = 4000;
const CURVE_STORIES: usize = 32;
const FINAL_STORIES: usize = 200;
const SAMPLE_TOKENS: usize = 80;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    /// Directory of the checkpoint.
    #[arg(long, default_value = "references/demo")]
    out: PathBuf,
    /// Directory of the prompt files.
    #[arg(long, default_value = "prompts")]
    prompts: PathBuf,
    /// Optimiser steps.
    #[arg(long, default_value_t = train::STEPS)]
    steps: usize,
    /// Continue the evaluation prompts with the stored checkpoint instead of training one.
    #[arg(long)]
    sample: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if !arguments.sample {
        train_and_store(&arguments)?;
    }
    show(&arguments)
}

fn train_and_store(arguments: &Arguments) -> Result<()> {
    let start = Instant::now();
    let texts: Vec<String> = Stories::new(TRAINING_SEED).take(TOKENIZER_STORIES).map(|story| story.text).collect();
    let tokenizer = tokenizer::train(texts.iter().map(String::as_str))?;
    println!("{} parameters", DEMO.parameters());
    println!("| step | training loss | held-out loss | seconds |\n|---:|---:|---:|---:|");
    let tensors = train::train(&tokenizer, arguments.steps, |Progress { step, loss, model }| {
        if step == 1 || step % 50 == 0 || step == arguments.steps {
            let held_out = held_out(model, &tokenizer, CURVE_STORIES)?;
            println!("| {step} | {loss:.4} | {:.4} | {:.0} |", held_out.loss, start.elapsed().as_secs_f64());
        }
        Ok(())
    })?;
    // Together and last: files of two different runs would not fit each other.
    tokenizer::save(&tokenizer, &arguments.out)?;
    train::save(&tensors, &arguments.out)?;
    prompts::save(&tokenizer, &arguments.prompts)?;
    println!("total {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The stored checkpoint's perplexity and what it writes.
fn show(arguments: &Arguments) -> Result<()> {
    let tokenizer = tokenizer::load(&arguments.out)?;
    let model = Model::load(&arguments.out.join("model.safetensors"))?;
    let score = held_out(&model, &tokenizer, FINAL_STORIES)?;
    println!("held-out loss {:.4}, perplexity {:.4}, {} tokens", score.loss, score.perplexity(), score.tokens);
    for prompt in prompts::draw(&tokenizer, EVALUATION_SEED)? {
        let text = continue_greedily(&model, &tokenizer, &prompt, SAMPLE_TOKENS)?;
        println!("\n{prompt} ▸{text}");
    }
    Ok(())
}
