//! Runs as they are remembered: what a history keeps of a verdict, and when it was made.

use std::collections::BTreeMap;

use fidelity_trace::Scope;

use crate::{Interval, Outcome};

/// A run as the history keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRun {
    /// Made when the run began, and kept by `--resume`: the same run is never two.
    pub id: String,
    /// When it began: RFC 3339, UTC.
    pub begun: String,
    /// How long its last session took, seconds.
    pub wall_seconds: f64,
    /// Its folder.
    pub folder: String,
    /// The checkpoint's name.
    pub checkpoint: String,
    /// The arm's kind and name.
    pub arm: String,
    /// What was injected on purpose, names joined by commas; empty for an honest run.
    pub injected: String,
    /// What was concluded.
    pub verdict: Outcome,
    /// What the process exited with.
    pub exit_code: u8,
    /// Why, in one sentence.
    pub reason: String,
    /// What was diagnosed; absent where nothing was looked for.
    pub diagnosis: Option<String>,
    /// What decides numbers and may change from run to run, by one of [`PastRun::VERSIONS`].
    pub versions: BTreeMap<String, String>,
    /// By scope.
    pub scopes: BTreeMap<Scope, PastScope>,
}

/// One scope of a [`PastRun`].
#[derive(Clone, Debug, PartialEq)]
pub struct PastScope {
    /// What was concluded.
    pub verdict: Outcome,
    /// Rows compared.
    pub rows: usize,
    /// The first site that goes wrong.
    pub first_bad_site: Option<String>,
    /// Means and rates of the judged site, by the metric's name in verdict.json.
    pub estimates: BTreeMap<String, PastEstimate>,
}

/// A mean or a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PastEstimate {
    /// Its value.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// Rows it is made of.
    pub n: usize,
}

impl PastRun {
    /// What may change between two runs and is marked where it does, in the order it is shown.
    pub const VERSIONS: [&'static str; 10] =
        ["weights", "prompts", "recipe", "ranges", "HEF", "DFC", "HailoRT", "firmware", "driver", "fidelity"];

    /// What two runs must share to be points of one curve: checkpoint, arm and what was injected on purpose.
    #[must_use]
    pub fn series(&self) -> (&str, &str, &str) {
        (&self.checkpoint, &self.arm, &self.injected)
    }

    /// The versions that differ from those of `earlier`, each with what it was and what it is. What only one of them knows is no
    /// change.
    pub fn changes<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (&'static str, &'a str, &'a str)> {
        Self::VERSIONS.into_iter().filter_map(|name| {
            let (was, is) = (earlier.versions.get(name)?, self.versions.get(name)?);
            (was != is).then_some((name, was.as_str(), is.as_str()))
        })
    }

    /// The scope that says most of the run: of those that decide, the one whose outcome is worst, the first of them.
    #[must_use]
    pub fn telling_scope(&self) -> Option<(Scope, &PastScope)> {
        let alone = self.scopes.len() == 1;
        let deciding = self.scopes.iter().filter(|(scope, _)| alone || **scope != Scope::TbtSelf);
        // The last of equals is the first scope.
        deciding.rev().max_by_key(|(_, result)| result.verdict).map(|(scope, result)| (*scope, result))
    }
}

impl PastScope {
    /// The similarity that decided: centred cosine of an encoder, else Pearson.
    #[must_use]
    pub fn similarity(&self) -> Option<(&'static str, PastEstimate)> {
        let named = |key: &str, name| self.estimates.get(key).map(|estimate| (name, *estimate));
        named("centred_cosine", "centred cosine").or_else(|| named("pearson", "Pearson"))
    }
}
