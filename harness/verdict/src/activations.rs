//! `profile.json`: what the activations of a checkpoint look like to a quantiser. docs/PROFILE.md explains every field.

use std::collections::BTreeMap;

use fidelity_trace::{CheckpointIdentity, Site};
use serde::{Deserialize, Serialize};

/// The value of `format`.
pub const PROFILE_FORMAT: &str = "fidelity-profile";
/// The schema version this crate writes.
pub const PROFILE_VERSION: u32 = 1;

/// Activations of the float32 reference over a few prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActivationProfile {
    /// Always [`PROFILE_FORMAT`].
    pub format: String,
    /// Always [`PROFILE_VERSION`].
    pub version: u32,
    /// What was computed.
    pub checkpoint: CheckpointIdentity,
    /// Ids of the prompts, in their order.
    pub prompts: Vec<String>,
    /// Tokens in all.
    pub tokens: usize,
    /// By site.
    pub sites: BTreeMap<Site, SiteActivations>,
    /// Values far above the median of their site, the farthest first.
    pub massive: Vec<MassiveActivation>,
    /// By block, how much attention goes to the first token.
    pub sinks: Vec<AttentionSink>,
    /// What each norm squares and averages.
    pub norms: Vec<NormInput>,
}

/// Activations at one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteActivations {
    /// How many values.
    pub values: u64,
    /// How many of them are NaN or infinite; those are in no other number.
    pub non_finite: u64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// The largest by magnitude.
    pub largest: Peak,
    /// Percentiles of the magnitude, to 1.6 %.
    pub magnitude: MagnitudePercentiles,
    /// E[(x − μ)⁴] / σ⁴: 3 of a normal distribution; absent where all values are equal.
    pub kurtosis: Option<f64>,
    /// Predicted at 8 bits.
    pub sqnr_8: Sqnr,
    /// Predicted at 16 bits.
    pub sqnr_16: Sqnr,
    /// Largest magnitude by position; absent where no row has it.
    pub by_position: Vec<Option<f64>>,
    /// The channels with the largest magnitudes, largest first.
    pub channels: Vec<ChannelPeak>,
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The value.
    pub value: f64,
    /// Index into [`ActivationProfile::prompts`].
    pub prompt: usize,
    /// Position in the token sequence.
    pub position: u32,
    /// Index in the row: a channel, of `scores` and `pattern` a key.
    pub channel: usize,
}

/// Percentiles of |x|.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MagnitudePercentiles {
    /// The median.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    pub p9999: f64,
}

/// Signal over the noise of an asymmetric per-tensor grid from minimum to maximum, whose steps Δ make noise of Δ²/12, in dB. 0
/// where the noise would be larger than the signal: nothing is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sqnr {
    /// Of all values; absent where all are zero.
    pub whole_db: Option<f64>,
    /// Of the median row: large values in a few rows are no signal there.
    pub median_row_db: Option<f64>,
}

/// The largest magnitude of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelPeak {
    /// The channel.
    pub channel: usize,
    /// Its largest magnitude.
    pub magnitude: f64,
}

/// A channel that reaches far above the median magnitude of its site (Sun et al. 2024).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MassiveActivation {
    /// The site.
    pub site: Site,
    /// The largest value of the channel and where it stands.
    pub peak: Peak,
    /// Its magnitude over the median magnitude of the site.
    pub ratio: f64,
    /// In how many rows this channel is the row's largest and as far above.
    pub rows: usize,
}

/// Attention to the first token (Xiao et al. 2024), of rows behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttentionSink {
    /// The block.
    pub block: u32,
    /// Mean share over rows and heads.
    pub mean: f64,
    /// The head with the largest mean share.
    pub head: usize,
    /// Its mean share.
    pub head_mean: f64,
}

/// The mean square of rows that a norm divides by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormInput {
    /// What the norm reads.
    pub site: Site,
    /// The smallest mean square of a row.
    pub min: f64,
    /// That of the median row.
    pub p50: f64,
    /// The largest.
    pub max: f64,
}
