//! Cells of a sweep: what a row of results.csv says, and how it came about. docs/SWEEP.md explains every field.

use std::collections::BTreeMap;

use fidelity_trace::{Scope, Site};
use serde::{Deserialize, Serialize};

use crate::{Covariates, ExitCode, Interval, Outcome, ScopeResult, Summary, Verdict};

/// The value of `format`.
pub const CELL_FORMAT: &str = "fidelity-cell";
/// The schema version this crate writes and reads.
pub const CELL_VERSION: u32 = 1;

/// How far a cell came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// It has a verdict.
    Done,
    /// It was tried and ended with an error, or its arm failed in a prompt.
    Failed,
    /// It was not tried: the checkpoint or its compiled model could not be had, or it is another shard's.
    NotRun,
}

impl CellState {
    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::NotRun => "not run",
        }
    }
}

/// A number and its 95 % interval over prompts, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The mean over rows.
    pub value: f64,
    /// Low end first.
    pub interval: Option<Interval>,
}

impl From<Summary> for Measured {
    fn from(summary: Summary) -> Self {
        Self { value: summary.mean, interval: summary.interval }
    }
}

/// One scope of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellScope {
    /// What is concluded.
    pub verdict: Outcome,
    /// Why.
    pub reason: String,
    /// Pearson of logits; of an encoder the centred cosine of its last hidden state.
    pub pearson: Option<Measured>,
    /// Tie-aware top-1.
    pub top1: Option<Measured>,
    /// KL(reference ‖ arm), nats.
    pub kl: Option<Measured>,
    /// NMSE of the judged site.
    pub nmse: Option<Measured>,
    /// Prompts compared.
    pub prompts: usize,
    /// Rows compared.
    pub rows: usize,
}

/// What a cell is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellKey {
    /// A row of checkpoints.toml, a folder or a GGUF file, as asked for.
    pub checkpoint: String,
    /// The arm, as asked for.
    pub device: String,
    /// The recipe, as asked for; empty for the checkpoint's own.
    pub recipe: String,
}

/// A cell and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Always [`CELL_FORMAT`].
    pub format: String,
    /// Always [`CELL_VERSION`].
    pub version: u32,
    /// Its place in the matrix.
    pub index: usize,
    /// What was asked for.
    pub key: CellKey,
    /// How far it came.
    pub state: CellState,
    /// The verdict's reason, or why there is none.
    pub reason: String,
    /// What its run exits with.
    pub exit_code: u8,
    /// The checkpoint's name; as asked for until it is known.
    pub checkpoint: String,
    /// Where the checkpoint came from; empty until it is known.
    pub source: String,
    /// Its resolved revision.
    pub revision: Option<String>,
    /// SHA-256 of its weights.
    pub weights_sha256: Option<String>,
    /// Kind and name of the arm.
    pub arm: String,
    /// The recipe's name.
    pub recipe: String,
    /// SHA-256 of the recipe's text.
    pub recipe_sha256: Option<String>,
    /// The run's verdict.
    pub verdict: Option<Outcome>,
    /// By scope.
    pub scopes: BTreeMap<Scope, CellScope>,
    /// What is known of the checkpoint.
    pub covariates: Covariates,
    /// Versions of what computed it.
    pub versions: BTreeMap<String, String>,
    /// The run's folder, relative to the sweep's.
    pub run: String,
    /// The command that does the same.
    pub command: String,
}

impl Cell {
    /// Takes over what a verdict says.
    pub fn conclude(&mut self, verdict: &Verdict) {
        let device = &verdict.arms.device;
        // What an arm failed at is tried again.
        let failed = verdict.exit_code == ExitCode::Device.code();
        self.state = if failed { CellState::Failed } else { CellState::Done };
        self.reason.clone_from(&verdict.reason);
        self.exit_code = verdict.exit_code;
        self.checkpoint.clone_from(&verdict.checkpoint.name);
        self.source.clone_from(&verdict.checkpoint.source);
        self.revision.clone_from(&verdict.checkpoint.revision);
        self.weights_sha256.clone_from(&verdict.checkpoint.weights_sha256);
        self.arm = format!("{} {}", device.arm.kind, device.arm.name).trim_end().to_owned();
        let quantisation = device.deviations.iter().find(|deviation| deviation.name == "quantisation");
        let of_recipe = |key: &str| quantisation?.parameters.get(key)?.as_str().map(str::to_owned);
        self.recipe_sha256 = of_recipe("recipe_sha256");
        self.recipe = of_recipe("recipe").unwrap_or_else(|| self.key.recipe.clone());
        self.verdict = Some(verdict.verdict);
        self.scopes = verdict.scopes.iter().map(|(scope, result)| (*scope, CellScope::of(result))).collect();
    }
}

impl CellScope {
    fn of(result: &ScopeResult) -> Self {
        let site = result.sites.get(&result.judged_site);
        let similarity = site.and_then(|site| match result.judged_site {
            Site::Logits => site.pearson,
            _ => site.centred_cosine,
        });
        let logits = site.and_then(|site| site.logits.as_ref());
        let top1 =
            logits.and_then(|logits| Some(Measured { value: logits.top1.rate?, interval: logits.top1.interval }));
        Self {
            verdict: result.verdict,
            reason: result.reason.clone(),
            pearson: similarity.map(Measured::from),
            top1,
            kl: logits.and_then(|logits| logits.kl).map(Measured::from),
            nmse: site.and_then(|site| site.nmse).map(Measured::from),
            prompts: result.coverage.prompts_compared,
            rows: result.coverage.rows_compared,
        }
    }
}

/// The columns of results.csv before those of the covariates. docs/SWEEP.md explains them.
pub const RESULT_COLUMNS: [&str; 33] = [
    "cell",
    "checkpoint",
    "source",
    "revision",
    "weights_sha256",
    "device",
    "arm",
    "recipe",
    "recipe_sha256",
    "scope",
    "measured",
    "state",
    "outcome",
    "verdict",
    "reason",
    "exit_code",
    "pearson",
    "pearson_low",
    "pearson_high",
    "top1",
    "top1_low",
    "top1_high",
    "kl",
    "kl_low",
    "kl_high",
    "nmse",
    "nmse_low",
    "nmse_high",
    "prompts",
    "rows",
    "versions",
    "run",
    "command",
];

/// The exit code of several cells: that of the worst, in the order of [`crate::worst`], with wrong usage worse than all. 3 where
/// there is none.
#[must_use]
pub fn worst_exit_code(codes: impl IntoIterator<Item = u8>) -> u8 {
    const BEST_FIRST: [u8; 5] = [0, 3, 4, 1, 2];
    let rank = |code: &u8| BEST_FIRST.iter().position(|known| known == code).unwrap_or(BEST_FIRST.len());
    codes.into_iter().max_by_key(rank).unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use super::worst_exit_code;

    #[test]
    fn a_sweep_is_its_worst_cell() {
        assert_eq!(worst_exit_code([0, 0]), 0);
        assert_eq!(worst_exit_code([0, 3, 0]), 3);
        assert_eq!(worst_exit_code([3, 4]), 4);
        assert_eq!(worst_exit_code([4, 1, 0]), 1);
        assert_eq!(worst_exit_code([1, 2]), 2);
        assert_eq!(worst_exit_code([1, 77]), 77);
        assert_eq!(worst_exit_code([]), 3, "nothing compared is no pass");
    }
}
