//! `advice.json`: which quantisers hurt, and the cheapest promotions found that reach a target. docs/ADVISE.md explains every field.

use std::collections::BTreeMap;

use fidelity_trace::{CheckpointIdentity, Site};
use serde::{Deserialize, Serialize};

use crate::{Interval, Outcome};

/// The value of `format`.
pub const ADVICE_FORMAT: &str = "fidelity-advice";
/// The schema version this crate writes.
pub const ADVICE_VERSION: u32 = 1;

/// What is advised for a recipe, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Always [`ADVICE_FORMAT`].
    pub format: String,
    /// Always [`ADVICE_VERSION`].
    pub version: u32,
    /// What was computed.
    pub checkpoint: CheckpointIdentity,
    /// The recipe that promotions are added to.
    pub recipe: String,
    /// SHA-256 of its text.
    pub recipe_sha256: String,
    /// Where activation ranges come from.
    pub calibration: String,
    /// What must be reached.
    pub target: AdviceTarget,
    /// Which prompts were for what.
    pub prompts: AdvicePrompts,
    /// What is concluded.
    pub conclusion: AdviceConclusion,
    /// Why, in one sentence.
    pub reason: String,
    /// What the process exits with.
    pub exit_code: u8,
    /// The recipe as it is.
    pub of_recipe: Trial,
    /// With everything promoted that a line can promote: no promotions reach more.
    pub of_everything: Trial,
    /// What can be promoted, the most harmful first.
    pub kinds: Vec<KindEffect>,
    /// The steps of the search, in their order.
    pub steps: Vec<AdviceStep>,
    /// By site, under the recipe as it is.
    pub sites: BTreeMap<Site, SiteSqnr>,
    /// Remedies other than bits.
    pub remedies: Vec<Remedy>,
    /// The promotions found; absent where nothing was searched for.
    pub advised: Option<Advised>,
    /// Everything promoted, where the search gave some of it back: advised instead where what it found does not hold on unseen prompts.
    pub everything: Option<Advised>,
    /// The recipe and the advised one on prompts that the search did not see; absent where nothing was advised.
    pub proof: Option<AdviceProof>,
    /// Recipes that were emulated on the search prompts.
    pub trials: usize,
    /// Things a reader must know.
    pub notes: Vec<String>,
}

/// What is concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceConclusion {
    /// The advised recipe reaches the target on the unseen prompts.
    Reached,
    /// The recipe as it is reaches it there.
    AlreadyReached,
    /// Nothing that was tried does.
    NotReached,
    /// Too few prompts to hold some out, or too few rows of them.
    Inconclusive,
}

impl AdviceConclusion {
    /// The name used in advice.json and on the terminal.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::AlreadyReached => "already reached",
            Self::NotReached => "not reached",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// What must be reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceTarget {
    /// Mean Pearson of logits; of an encoder the mean centred cosine of its last hidden state.
    pub similarity: f64,
    /// Tie-aware top-1 rate, if it must be reached too.
    pub top1: Option<f64>,
}

/// Ids of prompts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdvicePrompts {
    /// Those that trials are judged on.
    pub search: Vec<String>,
    /// Those that the search never sees.
    pub held_out: Vec<String>,
    /// Left out: the same tokens are calibrated or searched on.
    pub repeated: Vec<String>,
    /// Where they come from.
    pub origin: String,
}

/// One recipe on the search prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Mean over rows; absent where a row is not finite or none is defined.
    pub similarity: Option<f64>,
    /// Standard error of that mean over prompts; absent with fewer than two.
    pub standard_error: Option<f64>,
    /// Tie-aware top-1 rate; absent of an encoder.
    pub top1: Option<f64>,
    /// Standard error of that rate over prompts; absent with fewer than two.
    pub top1_standard_error: Option<f64>,
    /// Bytes that its promotions move more, a token.
    pub bytes: f64,
}

/// Activations or weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promotable {
    /// Values at sites.
    Activations,
    /// Weights of linears.
    Weights,
}

/// What one kind of tensor does, one at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindEffect {
    /// A kind of site, `resid` for both sums of a block; of weights the layer's name.
    pub kind: String,
    /// Which of the two it is.
    pub what: Promotable,
    /// Bits of it in the recipe, the fewest.
    pub bits: u32,
    /// Bits when promoted.
    pub promoted_bits: u32,
    /// Bytes that promoting it moves more, a token.
    pub bytes: f64,
    /// As the recipe has it, everything else promoted; absent where no line of a recipe can say that.
    pub alone_low: Option<Trial>,
    /// Promoted alone; absent where no line of a recipe can say that.
    pub alone_promoted: Option<Trial>,
    /// Blocks in which it can be promoted, as ranges.
    pub blocks: Vec<BlockRange>,
    /// Those in which the advised recipe promotes it; none where it does not.
    pub advised: Vec<BlockRange>,
}

/// Blocks from `first` to `last`; both absent of what is in no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRange {
    /// The first.
    pub first: Option<u32>,
    /// The last.
    pub last: Option<u32>,
}

/// One step of the search: something goes back to the recipe's bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceStep {
    /// What goes back, in words.
    pub back: String,
    /// What is left promoted.
    pub trial: Trial,
    /// The target is still reached, so it stays back.
    pub kept: bool,
}

/// Signal over error at a site, in dB, the median row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteSqnr {
    /// Bits; absent where it is not quantised.
    pub bits: Option<u32>,
    /// What the site's own quantiser adds, of the values that it meets; absent where nothing is quantised, or exactly.
    pub local_db: Option<f64>,
    /// Against the float32 reference; absent where exact.
    pub cumulative_db: Option<f64>,
}

/// A remedy other than bits, exact in float.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// In words.
    pub name: String,
    /// The line of a recipe that says its part of it, if it has one.
    pub line: Option<String>,
    /// Position 0 set apart in this way, which no recipe can say; its rows do not count where they are exact.
    pub first_position: Option<String>,
    /// With the recipe as it is.
    pub of_recipe: Trial,
    /// With the advised one.
    pub of_advised: Option<Trial>,
}

/// What is advised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advised {
    /// The lines to add to the recipe.
    pub lines: Vec<String>,
    /// The recipe with these lines.
    pub text: String,
    /// On the search prompts.
    pub trial: Trial,
}

/// One recipe on the held-out prompts, as `run` judges it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    /// SHA-256 of the text that was read again and emulated.
    pub recipe_sha256: String,
    /// What `run` concludes.
    pub verdict: Outcome,
    /// Mean similarity.
    pub similarity: Option<f64>,
    /// Its 95 % interval over prompts.
    pub interval: Option<Interval>,
    /// Tie-aware top-1 rate.
    pub top1: Option<f64>,
    /// Rows compared.
    pub rows: usize,
    /// Whether the target is reached.
    pub reached: bool,
}

/// Both recipes on the held-out prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceProof {
    /// The recipe as it is.
    pub recipe: Proven,
    /// The advised one; absent where nothing is advised.
    pub advised: Option<Proven>,
}
