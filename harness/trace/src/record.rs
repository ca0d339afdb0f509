//! Running a subject over prompts into a trace.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Capture, Request, Scope, Status, Subject, Taps, TraceWriter, WriteError, in_parallel};

/// What to record of every prompt.
pub struct Recording<'a> {
    /// Scopes to run.
    pub scopes: &'a [Scope],
    /// Sites to keep.
    pub taps: &'a Taps,
    /// How many ids to generate.
    pub new_tokens: usize,
    /// The reference's greedy ids by prompt; `None` for the reference itself.
    pub continuations: Option<&'a [Vec<u32>]>,
    /// How many prompts to compute at a time.
    pub jobs: usize,
    /// Called when a prompt is done (with the number done so far), from the thread that computed it.
    pub on_prompt: &'a (dyn Fn(usize) + Sync),
}

/// Runs every prompt of `writer`'s manifest that is not done yet and completes the trace. A prompt that fails is recorded
/// as failed and the others go on.
///
/// # Errors
/// The trace cannot be written.
pub fn record(
    subject: &(impl Subject + Sync),
    recording: &Recording<'_>,
    writer: TraceWriter,
) -> Result<(), WriteError> {
    let waiting: Vec<usize> = {
        let prompts = writer.manifest().prompts.iter().enumerate();
        prompts.filter(|(_, prompt)| prompt.status != Status::Ok).map(|(index, _)| index).collect()
    };
    let done = AtomicUsize::new(writer.manifest().prompts.len() - waiting.len());
    let writer = Mutex::new(writer);
    in_parallel(waiting.len(), recording.jobs, |index| {
        record_prompt(subject, recording, &writer, waiting[index])?;
        (recording.on_prompt)(done.fetch_add(1, Ordering::Relaxed) + 1);
        Ok::<_, WriteError>(())
    })?;
    writer.into_inner().unwrap_or_else(PoisonError::into_inner).complete()
}

fn record_prompt(
    subject: &impl Subject,
    recording: &Recording<'_>,
    writer: &Mutex<TraceWriter>,
    index: usize,
) -> Result<(), WriteError> {
    let token_ids = locked(writer).manifest().prompts[index].token_ids.clone();
    let request = Request {
        token_ids: &token_ids,
        scopes: recording.scopes,
        continuation: recording.continuations.map(|all| all[index].as_slice()),
        new_tokens: recording.new_tokens,
    };
    let mut capture = Capture::new(recording.taps.clone());
    match subject.run(&request, &mut capture) {
        Ok(()) => locked(writer).finish_prompt(index, &capture),
        Err(error) => locked(writer).fail_prompt(index, error.to_string()),
    }
}

fn locked(writer: &Mutex<TraceWriter>) -> std::sync::MutexGuard<'_, TraceWriter> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}
