//! What is asked of a session, and who takes what it computes.

use std::io;

use fidelity_trace::Scope;
use serde::{Deserialize, Serialize};

/// Which positions of a prompt have their logits computed. A compiled prefill gives the last row alone, so that each other
/// costs a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefillRows {
    /// The last.
    Last,
    /// Every.
    All,
    /// So many, up to the last.
    Count(usize),
}

impl PrefillRows {
    /// The first position of a prompt of `tokens` tokens whose row is wanted.
    pub(super) fn first(self, tokens: usize) -> usize {
        match self {
            Self::Last => tokens - 1,
            Self::All => 0,
            Self::Count(count) => tokens.saturating_sub(count.max(1)),
        }
    }
}

impl std::fmt::Display for PrefillRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Last => f.write_str("last"),
            Self::All => f.write_str("all"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// Neither `last`, `all` nor a number above 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither `last`, `all` nor a number above 0")]
pub struct NoPrefillRows(pub String);

impl std::str::FromStr for PrefillRows {
    type Err = NoPrefillRows;

    fn from_str(text: &str) -> Result<Self, NoPrefillRows> {
        match text {
            "last" => Ok(Self::Last),
            "all" => Ok(Self::All),
            number => match number.parse() {
                Ok(count) if count > 0 => Ok(Self::Count(count)),
                Ok(_) | Err(_) => Err(NoPrefillRows(text.to_owned())),
            },
        }
    }
}

/// What to compute of one prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The prompt's tokens.
    pub token_ids: Vec<u32>,
    /// Scopes to run.
    pub scopes: Vec<Scope>,
    /// The reference's greedy ids, fed in `tbt` and `tbt_self`.
    pub continuation: Option<Vec<u32>>,
    /// How many ids to generate at most.
    pub new_tokens: usize,
    /// Ids that end a generation.
    pub eos: Vec<u32>,
    /// Logits that belong to a token; those after them are padding and never handed on. All where absent.
    pub vocabulary: Option<usize>,
    /// Which rows of `prefill`, and of `base` where a run gives the last row alone.
    pub prefill_rows: PrefillRows,
}

impl Job {
    /// The ids fed after the prompt in `tbt` and `tbt_self`. The last generated id is never fed, so it costs no step.
    pub(crate) fn continued(&self) -> &[u32] {
        let ids = self.continuation.as_deref().unwrap_or_default();
        &ids[..ids.len().saturating_sub(1)]
    }

    /// The token whose row a scope may give at a position.
    pub(crate) fn fed(&self, scope: Scope, position: u32) -> Option<u32> {
        let position = position as usize;
        let fed = match scope {
            Scope::Base | Scope::Prefill => self.token_ids.get(position),
            Scope::Tbt | Scope::TbtSelf => {
                position.checked_sub(self.token_ids.len()).and_then(|step| self.continued().get(step))
            }
            Scope::TbtFree => None,
        };
        fed.copied().filter(|_| self.scopes.contains(&scope))
    }
}

/// Takes what a session computes, as it comes.
pub trait Sink {
    /// One row of logits: of the token at `position`. Called in no order of positions.
    ///
    /// # Errors
    /// Nobody takes it; the prompt ends.
    fn row(&mut self, scope: Scope, position: u32, token: u32, logits: &[f32]) -> io::Result<()>;

    /// A run was done that gives no row.
    ///
    /// # Errors
    /// Nobody takes it; the prompt ends.
    fn step(&mut self, scope: Scope) -> io::Result<()>;

    /// The ids that were generated.
    ///
    /// # Errors
    /// Nobody takes them; the prompt ends.
    fn generated(&mut self, ids: &[u32]) -> io::Result<()>;
}
