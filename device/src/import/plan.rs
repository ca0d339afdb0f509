//! What is to be imported.

use std::path::Path;

use fidelity_trace::{CheckpointIdentity, Trace};

use super::{map::Map, shapes::ModelShape};

/// A prompt that goes with a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportPrompt {
    /// Its id in the trace.
    pub id: String,
    /// Its text, if it was text.
    pub text: Option<String>,
    /// Its tokens.
    pub token_ids: Vec<u32>,
}

/// Files, the map they are read with, and what is known beside them.
pub struct Import<'a> {
    /// The dumps, in the order of their prompts.
    pub files: &'a [&'a Path],
    /// How they are laid out.
    pub map: &'a Map,
    /// The prompts, for maps that do not say where the files hold them.
    pub prompts: Option<&'a [ImportPrompt]>,
    /// The checkpoint the dumps are said to be of.
    pub checkpoint: CheckpointIdentity,
    /// The checkpoint's sizes, to check the arrays against.
    pub model: Option<ModelShape>,
    /// A trace of the same prompts, to check the arrays against.
    pub against: Option<&'a Trace>,
}
