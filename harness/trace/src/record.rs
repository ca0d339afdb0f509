//! Running a subject over prompts into a trace.

use crate::{Capture, Request, Scope, Status, Subject, Taps, TraceWriter, WriteError};

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
    /// Called when prompts are done, with the number done so far.
    pub on_prompt: &'a dyn Fn(usize),
    /// Asked before prompts are computed; once it says so, no more are, and the trace can be gone on with.
    pub stop: &'a dyn Fn() -> bool,
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Every prompt was tried.
    Complete,
    /// It was asked to stop before that.
    Stopped,
}

/// Runs every prompt of `writer`'s manifest that is not done yet and completes the trace. Prompts that fail are recorded as
/// failed and the others go on.
///
/// Which prompts are computed together depends on their place alone, so that a resumed recording computes what an unbroken
/// one would have: where one of a group is missing, the whole group is computed again.
///
/// # Errors
/// The trace cannot be written.
pub fn record(
    subject: &impl Subject,
    recording: &Recording<'_>,
    mut writer: TraceWriter,
) -> Result<Recorded, WriteError> {
    let prompts = &writer.manifest().prompts;
    let indices: Vec<usize> = (0..prompts.len()).collect();
    let missing = |group: &&[usize]| group.iter().any(|index| prompts[*index].status != Status::Ok);
    let groups: Vec<&[usize]> = indices.chunks(subject.together().max(1)).filter(missing).collect();
    let mut done = prompts.len() - groups.iter().map(|group| group.len()).sum::<usize>();
    for group in groups {
        if (recording.stop)() {
            return Ok(Recorded::Stopped);
        }
        record_group(subject, recording, &mut writer, group)?;
        done += group.len();
        (recording.on_prompt)(done);
    }
    writer.complete()?;
    Ok(Recorded::Complete)
}

fn record_group(
    subject: &impl Subject,
    recording: &Recording<'_>,
    writer: &mut TraceWriter,
    group: &[usize],
) -> Result<(), WriteError> {
    let token_ids: Vec<Vec<u32>> =
        group.iter().map(|index| writer.manifest().prompts[*index].token_ids.clone()).collect();
    let requests: Vec<_> = group
        .iter()
        .zip(&token_ids)
        .map(|(index, token_ids)| Request {
            token_ids,
            scopes: recording.scopes,
            continuation: recording.continuations.map(|all| all[*index].as_slice()),
            new_tokens: recording.new_tokens,
        })
        .collect();
    let mut captures = vec![Capture::new(recording.taps.clone()); group.len()];
    let outcome = subject.run(&requests, &mut captures);
    group.iter().zip(&captures).try_for_each(|(index, capture)| match &outcome {
        Ok(()) => writer.finish_prompt(*index, capture),
        Err(error) => writer.fail_prompt(*index, error.to_string()),
    })
}
