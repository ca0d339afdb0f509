//! A gate: what is concluded of a run against its baseline. docs/GATE.md explains every field.

use std::collections::BTreeMap;

use fidelity_trace::Scope;
use serde::{Deserialize, Serialize};

use crate::{BlessedArm, ExitCode, GateSettings, Interval, Metric, Outcome};

/// The value of gate.json's `format`.
pub const GATE_FORMAT: &str = "fidelity-gate";
/// The schema version of gate.json.
pub const GATE_VERSION: u32 = 1;

/// What is concluded of a run against its baseline, or of one comparison. Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateConclusion {
    /// Shown not to be worse by the margin or more.
    Pass,
    /// Neither is shown: too few prompts, or too little of them.
    Inconclusive,
    /// The arm crashed on prompts; of the others nothing is worse.
    DeviceFailure,
    /// Shown to be worse by more than the margin, or broken in a way that is no matter of chance.
    Fail,
}

impl GateConclusion {
    /// The name used in gate.json and in the line that ends a gate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::DeviceFailure => "device_failure",
            Self::Fail => "fail",
        }
    }

    /// What the process exits with.
    #[must_use]
    pub const fn exit_code(self) -> ExitCode {
        match self {
            Self::Pass => ExitCode::Pass,
            Self::Inconclusive => ExitCode::Inconclusive,
            Self::DeviceFailure => ExitCode::Device,
            Self::Fail => ExitCode::FidelityFailure,
        }
    }
}

/// What can differ between a run and its baseline so that the two are not compared, unless on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Other weights.
    Checkpoint,
    /// Another arm: an emulator in the place of a device, or another device.
    Device,
    /// Another recipe text, or position 0 treated otherwise.
    Recipe,
    /// Other calibration prompts.
    Calibration,
    /// Another compiled model.
    Hef,
    /// Other prompts, or other tokens of the same.
    Prompts,
    /// Other scopes.
    Scopes,
    /// Other rows of the same prompts.
    Rows,
}

impl Change {
    /// Every change.
    pub const ALL: [Self; 8] = [
        Self::Checkpoint,
        Self::Device,
        Self::Recipe,
        Self::Calibration,
        Self::Hef,
        Self::Prompts,
        Self::Scopes,
        Self::Rows,
    ];

    /// The name used with `--allow`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Device => "device",
            Self::Recipe => "recipe",
            Self::Calibration => "calibration",
            Self::Hef => "hef",
            Self::Prompts => "prompts",
            Self::Scopes => "scopes",
            Self::Rows => "rows",
        }
    }
}

/// How a metric moved, as far as it can be told with all comparisons of the gate in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Movement {
    /// Every prompt has the same number.
    Same,
    /// Worse.
    Worse,
    /// Better.
    Better,
    /// It may be chance.
    Unclear,
}

/// One row a prompt: the rows in which exactly one of the two makes the reference's choice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Discordant {
    /// Rows that only the baseline gets right.
    pub lost: usize,
    /// Rows that only the run gets right.
    pub won: usize,
    /// Two-sided exact McNemar p.
    pub p: f64,
}

/// One metric of one scope. Differences point to the worse: above 0 the run is worse, whichever way the metric runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricComparison {
    /// What is concluded.
    pub conclusion: GateConclusion,
    /// Prompts in which both have a number.
    pub prompts: usize,
    /// The baseline's mean over these prompts.
    pub baseline: f64,
    /// The run's.
    pub run: f64,
    /// How much worse the run is, mean over prompts.
    pub difference: f64,
    /// 95 % paired bootstrap interval of `difference` over prompts; absent with fewer than two.
    pub interval: Option<Interval>,
    /// How much worse it may be.
    pub margin: f64,
    /// p of being worse by the margin or more: at or below alpha, it is not.
    pub p_not_worse: f64,
    /// p of being worse by the margin or less: at or below alpha, it is worse by more.
    pub p_worse: f64,
    /// Two-sided p of no difference.
    pub p_changed: f64,
    /// The same among all comparisons of the gate (Holm).
    pub p_changed_holm: f64,
    /// Whether it moved, by `p_changed_holm`.
    pub movement: Movement,
    /// The smallest difference that as many prompts would tell from none as often as `power` says, from the upper 80 % confidence
    /// limit of the spread seen; absent where nothing spreads or no number of such prompts could.
    pub detectable: Option<f64>,
    /// How often an unchanged run would pass here, from the same limit; absent as `detectable` is.
    pub power: Option<f64>,
    /// Prompts needed to decide, where this is inconclusive; absent where it is not, or where no million of them would do.
    pub needed: Option<u64>,
    /// Of top-1 with one row a prompt.
    pub discordant: Option<Discordant>,
}

/// One side of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateSide {
    /// Who it was.
    pub arm: BlessedArm,
    /// What was concluded of it by itself.
    pub verdict: Outcome,
    /// Versions of what computed it.
    pub versions: BTreeMap<String, String>,
}

/// What is concluded of a run against its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Always [`GATE_FORMAT`].
    pub format: String,
    /// Always [`GATE_VERSION`].
    pub version: u32,
    /// What is concluded.
    pub conclusion: GateConclusion,
    /// Why, in one sentence.
    pub reason: String,
    /// What the process exits with.
    pub exit_code: u8,
    /// The checkpoint's name.
    pub checkpoint: String,
    /// What the run is held against.
    pub baseline: GateSide,
    /// The run.
    pub run: GateSide,
    /// What was asked.
    pub settings: GateSettings,
    /// Prompts compared.
    pub prompts: usize,
    /// A harm that touches a smaller share of prompts than this can stay out of all prompts compared more often than alpha says.
    pub unseen_share: f64,
    /// Prompts needed to decide, where this is for want of prompts; absent where it is not, or where no million of them would do.
    pub needed: Option<u64>,
    /// What differs and was compared on purpose.
    pub allowed: Vec<Change>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// By scope and metric.
    pub scopes: BTreeMap<Scope, BTreeMap<Metric, MetricComparison>>,
}
