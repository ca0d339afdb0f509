//! Estimates: a number never travels without its interval and its n.

use serde::{Deserialize, Serialize};

/// A 95 % interval, low end first.
pub type Interval = [f64; 2];

/// A metric summarised over rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Mean over rows.
    pub mean: f64,
    /// 95 % percentile-bootstrap interval of the mean over prompts; absent with fewer than two prompts.
    pub interval: Option<Interval>,
    /// Smallest row.
    pub min: f64,
    /// Largest row.
    pub max: f64,
    /// 5th percentile of rows.
    pub p05: f64,
    /// Median of rows.
    pub p50: f64,
    /// 95th percentile of rows.
    pub p95: f64,
    /// Rows on which the metric is defined.
    pub n: usize,
}
