//! How right the reference is: float32 against float64, against another implementation, and however its tokens are fed.

mod bars;
mod opinion;
mod own;
mod report;
mod rows;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Checkpoint, CheckpointError, Decoder, ENGINE_VERSION, Wiring};
pub use report::{
    CheckOutcome, CheckedPrompt, ChunkedPart, NoisePart, OpinionPart, OpinionRow, ReferenceCheck, SiteDistance,
    WorstRow,
};

/// Checks `decoder` on `prompts` (id and tokens, none empty, every token below the vocabulary), `jobs` at a time. The second opinion
/// reads `checkpoint`'s own files. `on_prompt` is called with the number of prompts done, each of which is done twice.
///
/// # Errors
/// The files cannot be read any more, or memory runs out.
pub fn check_reference(
    checkpoint: &Checkpoint,
    decoder: &Decoder,
    wiring: &Wiring,
    prompts: &[(String, Vec<u32>)],
    jobs: usize,
    on_prompt: &(dyn Fn(usize) + Sync),
) -> Result<ReferenceCheck, CheckpointError> {
    let done = AtomicUsize::new(0);
    let count = || on_prompt(done.fetch_add(1, Ordering::Relaxed) + 1);
    let own = own::measure(decoder, wiring, prompts, jobs, &count)?;
    let second_opinion = opinion::ask(checkpoint, decoder, wiring, prompts, jobs, &own.logits_noise, &count)?;
    let checked = prompts.iter().map(|(id, token_ids)| CheckedPrompt { id: id.clone(), tokens: token_ids.len() });
    let (outcome, reason) = report::concluded(&own.noise, &second_opinion, &own.chunks);
    Ok(ReferenceCheck {
        format: report::FORMAT,
        version: report::VERSION,
        engine: ENGINE_VERSION,
        checkpoint: checkpoint.identity().clone(),
        outcome,
        reason,
        prompts: checked.collect(),
        noise: own.noise,
        second_opinion,
        chunks: own.chunks,
    })
}
