//! Scopes: how tokens are fed.

use serde::{Deserialize, Serialize};

/// How tokens are fed to an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole sequence at once, no cache.
    Base,
    /// The prompt into the KV-cache.
    Prefill,
    /// One token at a time through the KV-cache, teacher-forced on the reference's greedy ids.
    Tbt,
    /// One token at a time, fed the arm's own greedy ids. Leaves generated ids, no tensors.
    TbtFree,
    /// A `tbt` step that may attend only to itself.
    TbtSelf,
}

impl Scope {
    /// Every scope, in the order they run.
    pub const ALL: [Self; 5] = [Self::Base, Self::Prefill, Self::Tbt, Self::TbtFree, Self::TbtSelf];

    /// The name used in traces and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Prefill => "prefill",
            Self::Tbt => "tbt",
            Self::TbtFree => "tbt_free",
            Self::TbtSelf => "tbt_self",
        }
    }

    /// Whether its rows are those of prompts, not of steps after them.
    #[must_use]
    pub const fn is_of_prompts(self) -> bool {
        matches!(self, Self::Base | Self::Prefill)
    }

    /// The scope of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
