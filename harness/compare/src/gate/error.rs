//! Why a run is not held against a baseline, or does not become one.

use fidelity_trace::Scope;
use fidelity_verdict::Change;

/// Something that differs between a run and its baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// What, as `--allow` names it.
    pub what: Change,
    /// What it was and what it is.
    pub said: String,
}

/// A run that is not held against a baseline, or does not become one.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Wrong on purpose, or in a way that this version does not know.
    #[error(
        "the run carries {kind} `{name}`: what is wrong on purpose is no baseline and is held against none; run it without"
    )]
    Injected {
        /// Kind of deviation.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The judge is not the float32 reference.
    #[error(
        "the run's first arm is `{0}`, not a float32 reference: only distances from a reference are compared; gate what `fidelity run` wrote"
    )]
    NoReference(String),
    /// verdict.json contradicts itself.
    #[error(
        "verdict.json contradicts itself: scope {scope} has a row of prompt {prompt}, but there are {prompts} prompts; run again"
    )]
    NoPrompt {
        /// The scope.
        scope: Scope,
        /// The row's prompt.
        prompt: usize,
        /// How many there are.
        prompts: usize,
    },
    /// Not fit to be a baseline.
    #[error("not blessed: {0}")]
    NotBlessed(String),
    /// A baseline whose prompts are not those that it was made of.
    #[error(
        "the baseline's prompts do not have its prompts_sha256: it was edited by hand; make it again with `fidelity bless`"
    )]
    Edited,
    /// Another thing was measured.
    #[error(
        "not comparable with the baseline:{}\nWrite a new baseline with `fidelity bless` if that is meant, or compare on purpose with --allow {}",
        .0.iter().map(|it| format!("\n  {}: {}", it.what.name(), it.said)).collect::<String>(),
        names(.0)
    )]
    Changed(Vec<Changed>),
    /// Nothing that both have.
    #[error(
        "the run and its baseline have no prompt of the same tokens in a scope that both hold; run the baseline's prompts"
    )]
    NothingInCommon,
}

fn names(changes: &[Changed]) -> String {
    let mut names: Vec<&str> = changes.iter().map(|it| it.what.name()).collect();
    names.dedup();
    names.join(",")
}
