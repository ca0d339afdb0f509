//! Where along an axis an arm begins to be wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Interval;

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BisectionAxis {
    /// The first blocks of the network, then final norm and head.
    Block,
    /// The first tokens of the prompts.
    Position,
    /// The first heads of a block; the others are silent.
    Head,
    /// Width of the residual stream, of a ladder of checkpoints.
    Hidden,
}

impl BisectionAxis {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Block, Self::Position, Self::Head, Self::Hidden];

    /// As `--by` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Position => "position",
            Self::Head => "head",
            Self::Hidden => "hidden",
        }
    }
}

impl fmt::Display for BisectionAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a measurement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// All of the interval is at the threshold or above.
    Good,
    /// All of the interval is below it.
    Bad,
    /// The interval holds the threshold.
    Undecided,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Undecided => "undecided",
        })
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The size: how many blocks, tokens or heads, or the width.
    pub size: usize,
    /// Mean Pearson of the logits of the worst scope; absent where none is defined.
    pub pearson: Option<f64>,
    /// Its 95 % interval over prompts.
    pub interval: Option<Interval>,
    /// Whether the threshold is met.
    pub standing: Standing,
    /// Whether it was measured before.
    pub again: bool,
}

/// What a bisection comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Good up to `last_good`, bad from `first_bad` on, with nothing between.
    Threshold,
    /// The same with sizes between that were not measured, or that decide nothing.
    Interval,
    /// Good at the largest size.
    NeverBad,
    /// Bad at the smallest size.
    AlwaysBad,
    /// A larger size is good, or a smaller one bad, or the same one both: no threshold explains this.
    NotMonotone,
    /// An end decides nothing, or was not measured.
    Undecided,
}

/// The result of `fidelity bisect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// What was varied.
    pub by: BisectionAxis,
    /// The block whose heads were silenced.
    pub block: Option<usize>,
    /// Mean Pearson that is good.
    pub threshold: f64,
    /// What it comes to.
    pub finding: Finding,
    /// The largest size below `first_bad` that is good.
    pub last_good: Option<usize>,
    /// The smallest size above `last_good` that is bad.
    pub first_bad: Option<usize>,
    /// Every measurement, in the order it was made.
    pub measured: Vec<Measurement>,
    /// Of the network without the block that is bad first.
    pub skipped: Option<Measurement>,
    /// How many compiled models it took: one a size where sizes are checkpoints.
    pub compiles: usize,
    /// The result in words.
    pub sentence: String,
}
