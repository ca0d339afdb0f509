//! The thresholds behind a verdict.

use fidelity_trace::ThresholdOverrides;
use serde::{Deserialize, Serialize};

/// The default thresholds, commented.
pub const DEFAULT_THRESHOLDS: &str = include_str!("thresholds.toml");

/// The thresholds behind a verdict; each is explained in [`DEFAULT_THRESHOLDS`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Mean Pearson from which a scope can be faithful.
    pub faithful_pearson: f64,
    /// Tie-aware top-1 rate from which a scope can be faithful.
    pub faithful_top1: f64,
    /// Factor by which the norm of a row can be another in a faithful scope, up or down.
    pub faithful_norm_factor: f64,
    /// Mean Pearson below which a scope is broken.
    pub broken_pearson: f64,
    /// Fewer rows than this decide nothing.
    pub minimum_rows: usize,
    /// Median row relative L2 above which a site is bad.
    pub bad_site_relative_l2: f64,
    /// Factor over the noise floor above which a site is bad.
    pub bad_site_noise_factor: f64,
    /// Noise floor of the reference above which it cannot judge, relative L2.
    pub judging_noise_floor: f64,
    /// Shortest generation that can be degenerate, ids.
    pub degenerate_generation_length: usize,
    /// Repeats at the end that make a generation degenerate.
    pub degenerate_repeats: usize,
    /// Why they are not the defaults, if they are not.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Thresholds that contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum ThresholdsError {
    /// Broken would begin above faithful.
    #[error(
        "thresholds: broken_pearson {broken} must be below faithful_pearson {faithful}; correct them in checkpoints.toml"
    )]
    Order {
        /// Below this is broken.
        broken: f64,
        /// From this is faithful.
        faithful: f64,
    },
}

impl Thresholds {
    /// The thresholds compiled in.
    ///
    /// # Panics
    /// Never: a test reads the compiled-in file.
    #[must_use]
    pub fn compiled_in() -> Self {
        toml::from_str(DEFAULT_THRESHOLDS).expect("the compiled-in file is read by a test")
    }

    /// These thresholds with a checkpoint's own in their place.
    ///
    /// # Errors
    /// The result contradicts itself.
    pub fn with(mut self, overrides: Option<&ThresholdOverrides>) -> Result<Self, ThresholdsError> {
        let Some(own) = overrides else { return Ok(self) };
        self.faithful_pearson = own.faithful_pearson.unwrap_or(self.faithful_pearson);
        self.faithful_top1 = own.faithful_top1.unwrap_or(self.faithful_top1);
        self.broken_pearson = own.broken_pearson.unwrap_or(self.broken_pearson);
        self.reason = Some(own.reason.clone());
        if self.broken_pearson >= self.faithful_pearson {
            return Err(ThresholdsError::Order { broken: self.broken_pearson, faithful: self.faithful_pearson });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_file_reads() {
        let thresholds = Thresholds::compiled_in();
        assert!(thresholds.broken_pearson < thresholds.faithful_pearson);
        assert_eq!(thresholds.reason, None);
    }

    #[test]
    fn overrides_keep_their_reason_and_must_be_consistent() {
        let own = |broken| ThresholdOverrides {
            faithful_pearson: Some(0.95),
            faithful_top1: None,
            broken_pearson: Some(broken),
            reason: "why".into(),
        };
        let merged = Thresholds::compiled_in().with(Some(&own(0.5))).expect("consistent");
        assert_eq!(merged.reason.as_deref(), Some("why"));
        assert!(Thresholds::compiled_in().with(Some(&own(0.96))).is_err());
    }
}
