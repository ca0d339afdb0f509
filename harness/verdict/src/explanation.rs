//! What `fidelity attribute` concludes: which covariate explains who passes, and what remains undecided.

use serde::Serialize;

use crate::{Covariate, Interval};

/// The value of `format`.
pub const EXPLANATION_FORMAT: &str = "fidelity-attribution";
/// The schema version this crate writes.
pub const EXPLANATION_VERSION: u32 = 1;

/// Every group of a results.csv.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Always [`EXPLANATION_FORMAT`].
    pub format: &'static str,
    /// Always [`EXPLANATION_VERSION`].
    pub version: u32,
    /// Where the rows came from.
    pub origin: String,
    /// By device, recipe, scope and what was measured: never pooled.
    pub groups: Vec<GroupExplanation>,
}

/// What rows must share to be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupKey {
    /// The device, or the arm.
    pub device: String,
    /// The recipe.
    pub recipe: String,
    /// SHA-256 of its text, where that is known.
    pub recipe_sha256: Option<String>,
    /// The scope.
    pub scope: String,
    /// What was measured.
    pub measured: String,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupExplanation {
    /// What its rows share.
    #[serde(flatten)]
    pub key: GroupKey,
    /// Checkpoints that pass.
    pub passed: Vec<String>,
    /// Checkpoints that fail.
    pub failed: Vec<String>,
    /// Checkpoints with a fidelity number alone.
    pub measured_only: Vec<String>,
    /// Checkpoints of which nothing is known; in no test.
    pub undecided: Vec<String>,
    /// Covariates known of every checkpoint that passes or fails, and not the same of all.
    pub tested: Vec<CovariateTest>,
    /// Covariates that are the same of all.
    pub constant: Vec<Covariate>,
    /// Covariates that are not known of every checkpoint, and of how many they are not.
    pub unknown: Vec<(Covariate, usize)>,
    /// How p-values of passing were made; absent where nothing could be tested.
    pub labels: Option<Permutations>,
    /// Checkpoints with a fidelity number; their rank correlations with the covariates.
    pub measured_checkpoints: usize,
    /// How p-values of correlations were made; absent where nothing could be tested.
    pub numbers: Option<Permutations>,
    /// Pairs of tested covariates that these data cannot or can hardly tell apart.
    pub confounded: Vec<Confounded>,
    /// What is concluded, in one sentence.
    pub conclusion: String,
    /// What the data leave open.
    pub open: Vec<String>,
    /// What would decide best.
    pub next: Vec<Experiment>,
}

/// How permutations were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Permutations {
    /// How many.
    pub count: u64,
    /// All there are, the data's own among them; else drawn at random, and the data's own counted as one more.
    pub exact: bool,
    /// Seed of the draws.
    pub seed: u64,
}

/// One covariate against what passes, and against the fidelity number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CovariateTest {
    /// The covariate.
    pub covariate: Covariate,
    /// A threshold that separates those that pass from those that fail.
    pub separation: Option<Separation>,
    /// 2 AUC − 1 of failing: 1 where every checkpoint that fails has more than every one that passes, −1 where it has less.
    /// Absent where all pass or all fail.
    pub strength: Option<f64>,
    /// Two-sided permutation p-value of `strength` as if it were the only covariate tried.
    pub p: Option<f64>,
    /// The same for the strongest of all covariates tried (max statistic).
    pub p_adjusted: Option<f64>,
    /// Spearman's rank correlation with the fidelity number.
    pub spearman: Option<RankCorrelation>,
    /// Kendall's τ-b with the fidelity number.
    pub kendall: Option<RankCorrelation>,
}

/// Thresholds that separate perfectly: any between the two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Separation {
    /// Whether those above fail.
    pub fails_above: bool,
    /// The highest value of those below.
    pub low: f64,
    /// The lowest value of those above.
    pub high: f64,
}

/// A rank correlation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RankCorrelation {
    /// From −1 to 1.
    pub value: f64,
    /// Checkpoints.
    pub n: usize,
    /// 95 % interval; absent with fewer than 20 checkpoints.
    pub interval: Option<Interval>,
    /// Two-sided permutation p-value as if this were the only covariate tried; of Spearman's alone.
    pub p: Option<f64>,
    /// The same for the largest of all covariates tried.
    pub p_adjusted: Option<f64>,
}

/// Two covariates that go together in these checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confounded {
    /// One.
    pub a: Covariate,
    /// The other.
    pub b: Covariate,
    /// Spearman's rank correlation between them.
    pub rho: f64,
    /// Both separate perfectly, so that what passes cannot tell them apart.
    pub both_separate: bool,
}

/// What a hypothesis says of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    /// It passes.
    Passes,
    /// It fails.
    Fails,
    /// Nothing: a value between those that were seen, or one that is not known.
    Open,
}

/// An experiment and what the hypotheses that survive say of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// What it is.
    pub what: String,
    /// The command.
    pub command: String,
    /// By hypothesis: a covariate, or `something else`.
    pub predictions: Vec<(String, Prediction)>,
}
