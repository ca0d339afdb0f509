//! Outcomes of scopes, runs and rows.

use serde::{Deserialize, Serialize};

/// What is concluded of a scope or a run. Ordered from best to worst: a run is its worst scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Computes what the reference computes.
    Faithful,
    /// Too little was compared to decide.
    Inconclusive,
    /// Between faithful and broken.
    Degraded,
    /// Computes something else.
    Broken,
}

impl Outcome {
    /// The name used in verdict.json and `expect`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faithful => "faithful",
            Self::Inconclusive => "inconclusive",
            Self::Degraded => "degraded",
            Self::Broken => "broken",
        }
    }

    /// The outcome of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Faithful, Self::Inconclusive, Self::Degraded, Self::Broken].into_iter().find(|it| it.name() == name)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Whether the arm makes the reference's choice at a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The same choice.
    Agree,
    /// Another choice, inside the reference's noise or the arm's own logit grid.
    Tie,
    /// Another choice.
    Flip,
}
