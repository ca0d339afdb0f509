//! From a device to a trace on disk.

use std::path::Path;

use fidelity_trace::{
    CheckpointIdentity, Manifest, PromptRecord, Recording, Scope, Subject, Taps, TraceWriter, WriteError, record,
};
use serde_json::json;

use super::HailoArm;

/// What to record on a device.
pub struct Task<'a> {
    /// The checkpoint that the file is said to be made of.
    pub checkpoint: CheckpointIdentity,
    /// The prompts.
    pub prompts: Vec<PromptRecord>,
    /// The reference's greedy ids by prompt.
    pub continuations: &'a [Vec<u32>],
    /// Scopes to run.
    pub scopes: &'a [Scope],
    /// How many ids to generate.
    pub new_tokens: usize,
    /// Called when prompts are done, with the number done so far.
    pub on_prompt: &'a dyn Fn(usize),
}

/// Records a trace into `folder`; with `resume`, prompts that an earlier run finished are kept. Prompts that fail are recorded
/// as failed and the others go on.
///
/// # Errors
/// The trace cannot be written, or the one there is of something else.
pub fn record_trace(arm: &HailoArm, task: Task<'_>, folder: &Path, resume: bool) -> Result<(), WriteError> {
    let mut manifest = Manifest::new(arm.arm(), task.checkpoint);
    manifest.prompts = task.prompts;
    manifest.logits_step = arm.logits_step();
    manifest.environment = arm.environment();
    let scopes: Vec<_> = task.scopes.iter().map(|scope| scope.name()).collect();
    let settings = json!({
        "scopes": scopes,
        "new_tokens": task.new_tokens,
        "eos": arm.settings.eos,
        "vocabulary": arm.settings.vocabulary,
        "continuations": task.continuations,
    });
    manifest.other.insert("settings".into(), settings);
    let writer = TraceWriter::open(folder, manifest, resume)?;
    let recording = Recording {
        scopes: task.scopes,
        taps: &Taps::List(Vec::new()),
        new_tokens: task.new_tokens,
        continuations: Some(task.continuations),
        on_prompt: task.on_prompt,
    };
    record(arm, &recording, writer)
}
