//! Runs the float32 reference again and again and prints what each repetition took: our side of
//! `references/benches/against_transformers.py`.
//!
//! `throughput FOLDER PROMPTS.json NEW_TOKENS default|logits`: PROMPTS.json is a list of lists of ids. With 0 new tokens every
//! prompt is prefilled, logits at all positions kept, and the default taps with `default`; with more, it is continued greedily
//! and only ids are kept. After loading, `ready` is printed; then, for each line read, one repetition is run, and its seconds and
//! the count of generated ids are printed.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write},
    path::Path,
    time::Instant,
};

use fidelity_references::{Checkpoint, Reference, TOGETHER};
use fidelity_trace::{Capture, Request, Scope, Subject, Taps};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, prompts, new_tokens, taps] = arguments.as_slice() else {
        return Err("usage: throughput FOLDER PROMPTS.json NEW_TOKENS default|logits".into());
    };
    let taps = match taps.as_str() {
        "default" => Taps::Default,
        "logits" => Taps::List(Vec::new()),
        other => return Err(format!("taps are `default` or `logits`, not `{other}`").into()),
    };
    let prompts: Vec<Vec<u32>> = serde_json::from_slice(&fs::read(prompts)?)?;
    let checkpoint = Checkpoint::open(Path::new(folder), "throughput")?;
    let vocabulary = checkpoint.architecture().vocabulary;
    if prompts.iter().any(Vec::is_empty) || prompts.iter().flatten().any(|id| *id as usize >= vocabulary) {
        return Err(format!("prompts need at least one id, all below {vocabulary}").into());
    }
    let reference = Reference::without_noise(checkpoint.decoder(&|_, tensor| Ok(tensor))?);
    let mut out = io::stdout();
    writeln!(out, "ready")?;
    for line in io::stdin().lines() {
        line?;
        let begun = Instant::now();
        let generated = repetition(&reference, &prompts, new_tokens.parse()?, &taps)?;
        writeln!(out, "{} {generated}", begun.elapsed().as_secs_f64())?;
    }
    Ok(())
}

/// Computes all prompts, as many at once as a run does, and returns how many ids were generated.
fn repetition(
    reference: &Reference,
    prompts: &[Vec<u32>],
    new_tokens: usize,
    taps: &Taps,
) -> Result<usize, Box<dyn Error>> {
    let scopes: &[Scope] = if new_tokens == 0 { &[Scope::Prefill] } else { &[Scope::TbtFree] };
    let request = |token_ids| Request { token_ids, scopes, continuation: None, new_tokens };
    let requests: Vec<_> = prompts.iter().map(|prompt| request(prompt.as_slice())).collect();
    let mut captures = vec![Capture::new(taps.clone()); prompts.len()];
    for (requests, captures) in requests.chunks(TOGETHER).zip(captures.chunks_mut(TOGETHER)) {
        reference.run(requests, captures)?;
    }
    Ok(captures.iter().filter_map(|capture| capture.generated.as_ref()).map(Vec::len).sum())
}
