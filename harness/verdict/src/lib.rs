//! Noun: what a comparison concludes.
//!
//! Estimates with their intervals, per-row and per-site results, outcomes, coverage, exit codes and the `verdict.json`
//! schema. This crate must not know how a number was computed nor how it will be shown.

mod activations;
mod advice;
mod attribution;
mod baseline;
mod bisection;
mod covariate;
mod diagnosis;
mod estimate;
mod exit_code;
mod explanation;
mod forging;
mod gate;
mod gate_settings;
mod outcome;
mod past;
mod results;
mod self_test;
mod sweep;
mod thresholds;
mod verdict;
mod worst;

pub use activations::{
    ActivationProfile, AttentionSink, ChannelPeak, MagnitudePercentiles, MassiveActivation, NormInput, PROFILE_FORMAT,
    PROFILE_VERSION, Peak, SiteActivations, Sqnr,
};
pub use advice::{
    ADVICE_FORMAT, ADVICE_VERSION, Advice, AdviceConclusion, AdvicePrompts, AdviceProof, AdviceStep, AdviceTarget,
    Advised, BlockRange, KindEffect, Promotable, Proven, Remedy, SiteSqnr, Trial,
};
pub use attribution::{Attribution, ScopeAttribution};
pub use baseline::{
    BASELINE_FORMAT, BASELINE_LIMIT_BYTES, BASELINE_VERSION, Baseline, BaselineError, BlessedArm, BlessedCheckpoint,
    BlessedPrompt, BlessedScope, Metric, PromptMean, PromptNumbers, RecipeIdentity,
};
pub use bisection::{Bisection, BisectionAxis, Finding, Measurement, Standing};
pub use covariate::{Covariate, Covariates};
pub use diagnosis::{BadSite, CLEAN, Candidate, Diagnosis, Margin, Probe, UNEXPLAINED};
pub use estimate::{Interval, Summary};
pub use exit_code::ExitCode;
pub use explanation::{
    Confounded, CovariateTest, EXPLANATION_FORMAT, EXPLANATION_VERSION, Experiment, Explanation, GroupExplanation,
    GroupKey, Permutations, Prediction, RankCorrelation, Separation,
};
pub use forging::{FORGING_FORMAT, FORGING_VERSION, Forging, SiteProof};
pub use gate::{
    Change, Discordant, GATE_FORMAT, GATE_VERSION, Gate, GateConclusion, GateSide, MetricComparison, Movement,
};
pub use gate_settings::{DEFAULT_GATE, GateSettings};
pub use outcome::{Agreement, Outcome};
pub use past::{PastEstimate, PastRun, PastScope};
pub use results::{
    BlockError, Coverage, FirstBadSite, Generated, Likely, LogitsResult, Profile, Rate, RowResult, ScopeResult,
    SiteResult, telling_scopes,
};
pub use self_test::{Bars, CaseOutcome, DETECTABLE, Rates, SelfTest, SelfTestCase, bars};
pub use sweep::{
    CELL_FORMAT, CELL_VERSION, Cell, CellKey, CellScope, CellState, Measured, RESULT_COLUMNS, worst_exit_code,
};
pub use thresholds::{DEFAULT_THRESHOLDS, Thresholds, ThresholdsError};
pub use verdict::{ArmIdentity, Arms, Bootstrap, FORMAT, PromptResult, VERSION, Verdict, VerdictError};
pub use worst::worst;
