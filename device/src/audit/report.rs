//! What an audit concludes. docs/AUDIT.md explains every field.

use serde::Serialize;

use super::check::{Check, Part, State};
use crate::hef::Description;

/// `format` of an audit.
pub const FORMAT: &str = "fidelity-audit";
/// `version` of an audit, raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// What an audit concludes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// The outcome of all checks.
    pub outcome: State,
    /// What the process exits with.
    pub exit_code: u8,
    /// Why this is taken for a language model; empty when it is not.
    pub language_model_traits: Vec<String>,
    /// The checkpoint it was compared with.
    pub checkpoint: Option<String>,
    /// What the file says.
    pub hef: Description,
    /// Every check, applicable or not.
    pub checks: Vec<Check>,
}

impl Audit {
    pub(super) fn new(
        hef: Description,
        language_model_traits: Vec<String>,
        checkpoint: Option<String>,
        checks: Vec<Check>,
    ) -> Self {
        let outcome = outcome(&checks, &language_model_traits);
        Self {
            format: FORMAT,
            version: VERSION,
            outcome,
            exit_code: exit_code(outcome),
            language_model_traits,
            checkpoint,
            hef,
            checks,
        }
    }

    /// Checks in a state.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.state == state)
    }

    /// The JSON of docs/AUDIT.md, on one line. Numbers that are not finite are null.
    ///
    /// # Errors
    /// Never: every value has a form in JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|json| json + "\n")
    }
}

/// Fail before unknown before pass. A sound file without traits of a language model is no pass: its contract was not looked at.
fn outcome(checks: &[Check], traits: &[String]) -> State {
    let any = |state| checks.iter().any(|check| check.state == state);
    let contract = checks.iter().any(|check| check.part != Part::File && check.state == State::Pass);
    if any(State::Fail) {
        State::Fail
    } else if any(State::Unknown) {
        State::Unknown
    } else if traits.is_empty() || !contract {
        State::NotApplicable
    } else {
        State::Pass
    }
}

/// As docs/ARCHITECTURE.md lists them for the whole program.
const fn exit_code(outcome: State) -> u8 {
    match outcome {
        State::Pass | State::NotApplicable => 0,
        State::Fail => 1,
        State::Unknown => 3,
    }
}
