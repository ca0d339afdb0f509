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

    /// The scopes it can run.
    fn scopes(&self) -> &[Scope];

    /// Computes one prompt into `capture`. Called once per prompt, in any order, possibly from several threads.
    ///
    /// # Errors
    /// A failed prompt: it is recorded as failed and the others go on.
    fn run(&self, request: &Request<'_>, capture: &mut Capture) -> Result<(), SubjectError>;
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
