//! The producer side of a trace.

use crate::{Arm, Capture, Scope};

/// What a subject is asked to compute for one prompt.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The prompt's tokens, never empty.
    pub token_ids: &'a [u32],
    /// Scopes to run, each one that the subject offers.
    pub scopes: &'a [Scope],
    /// The reference's greedy ids, to be fed in [`Scope::Tbt`]. `None` only for the reference itself, which feeds its own.
    pub continuation: Option<&'a [u32]>,
    /// How many ids to generate in [`Scope::TbtFree`].
    pub new_tokens: usize,
}

/// One way to compute a checkpoint.
pub trait Subject {
    /// Who this is, as the trace records it.
    fn arm(&self) -> Arm;

    /// How many prompts it likes to compute together; at least 1.
    fn together(&self) -> usize {
        1
    }

    /// Computes prompts, each into the capture of the same index; all ask for the same scopes and as many new tokens. Called
    /// with at most [`Subject::together`] prompts, in any order, possibly from several threads.
    ///
    /// # Errors
    /// The prompts failed: they are recorded as failed and the others go on.
    fn run(&self, requests: &[Request<'_>], captures: &mut [Capture]) -> Result<(), SubjectError>;
}

/// Why a prompt could not be computed.
#[derive(Debug, thiserror::Error)]
#[error("{scope}: {message}")]
pub struct SubjectError {
    /// The scope that failed.
    pub scope: Scope,
    /// What happened.
    pub message: String,
}
