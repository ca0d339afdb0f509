//! What emulation costs, in passes of the float32 reference over the same prompts, measured in turns in one run.
//!
//! `speed FOLDER PROMPTS.txt RECIPE.alls REPEATS NEW_TOKENS`: at most 16 prompts are prefilled, logits kept, and continued by so
//! many ids, by the reference and by the emulator; the calibration runs on the same prompts. Prints the median seconds of each and
//! their ratios to the reference's.

use std::{env, error::Error, fs, io::Write, path::Path, time::Instant};

use fidelity_emulator::{CalibrationSet, Distribution, Emulator, LayerNames, Recipe, calibrate};
use fidelity_references::{Checkpoint, Reference, TOGETHER};
use fidelity_trace::{BosConvention, Capture, Request, Scope, Subject, Taps};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, prompts, recipe, repeats, new_tokens] = arguments.as_slice() else {
        return Err("usage: speed FOLDER PROMPTS.txt RECIPE.alls REPEATS NEW_TOKENS".into());
    };
    let checkpoint = Checkpoint::open(Path::new(folder), "speed")?;
    let texts = fs::read_to_string(prompts)?;
    let encode = |text: &str| checkpoint.encode(text, BosConvention::Tokenizer);
    let prompts: Vec<Vec<u32>> =
        texts.lines().filter(|line| !line.is_empty()).take(TOGETHER).map(encode).collect::<Result<_, _>>()?;
    let set = CalibrationSet { origin: "speed".into(), prompts, distribution: Distribution::Prompts };
    let recipe = Recipe::parse(&fs::read_to_string(recipe)?, "speed", recipe)?;
    let plan = recipe.plan(checkpoint.architecture(), &LayerNames::default())?;

    let float32 = checkpoint.decoder(&|_, tensor| Ok(tensor))?;
    let begun = Instant::now();
    let emulator = Emulator::quantised(&checkpoint, &recipe, &plan, &float32, &set, None)?;
    let making = begun.elapsed().as_secs_f64();
    let reference = Reference::without_noise(float32);
    let new_tokens = new_tokens.parse()?;
    let mut seconds = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..repeats.parse()? {
        seconds[0].push(pass(&reference, &set.prompts, new_tokens)?);
        let begun = Instant::now();
        calibrate(reference.decoder(), &set, &plan)?;
        seconds[1].push(begun.elapsed().as_secs_f64());
        seconds[2].push(pass(&emulator, &set.prompts, new_tokens)?);
    }
    let [float, calibration, emulated] = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
    });
    let tokens: usize = set.prompts.iter().map(Vec::len).sum();
    writeln!(
        std::io::stdout(),
        "{} prompts, {tokens} tokens\nreference   {float:.3} s\ncalibration {calibration:.3} s  {:.2} ×\nemulator    {emulated:.3} s  {:.2} ×\nmaking it (calibration, reading, quantising) {making:.3} s",
        set.prompts.len(),
        calibration / float,
        emulated / float,
    )?;
    Ok(())
}

fn pass(subject: &impl Subject, prompts: &[Vec<u32>], new_tokens: usize) -> Result<f64, Box<dyn Error>> {
    let request = |token_ids| Request {
        token_ids,
        scopes: &[Scope::Prefill, Scope::TbtFree],
        continuation: Some(&[]),
        new_tokens,
    };
    let requests: Vec<_> = prompts.iter().map(|prompt| request(prompt.as_slice())).collect();
    let mut captures = vec![Capture::new(Taps::List(Vec::new())); prompts.len()];
    let begun = Instant::now();
    subject.run(&requests, &mut captures)?;
    Ok(begun.elapsed().as_secs_f64())
}
