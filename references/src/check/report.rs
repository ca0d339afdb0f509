//! What a check found. docs/CHECK.md explains every key.

use std::collections::BTreeMap;

use fidelity_trace::{CheckpointIdentity, Site};
use serde::Serialize;

use crate::SecondImplementation;

pub(super) const FORMAT: &str = "fidelity-check";
pub(super) const VERSION: u32 = 1;

/// What a part of the check, or all of it, comes to. The worst part decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Everything was compared, and every row is near enough.
    Pass,
    /// What was compared is near enough, but something was not compared.
    Incomplete,
    /// Nothing could be compared.
    NotApplicable,
    /// A row is too far off.
    Fail,
}

impl CheckOutcome {
    /// The word used in files and on terminals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Incomplete => "incomplete",
            Self::NotApplicable => "not applicable",
            Self::Fail => "fail",
        }
    }
}

/// The whole check.
#[derive(Clone, Debug, Serialize)]
pub struct ReferenceCheck {
    /// Always `fidelity-check`.
    pub format: &'static str,
    /// Version of this document's schema.
    pub version: u32,
    /// Version of the engine that was checked.
    pub engine: u32,
    /// What was computed.
    pub checkpoint: CheckpointIdentity,
    /// The worst part's outcome; incomplete when a part does not apply.
    pub outcome: CheckOutcome,
    /// Why, in one sentence.
    pub reason: String,
    /// The prompts; others point at them by index.
    pub prompts: Vec<CheckedPrompt>,
    /// (a) float32 against float64.
    pub noise: NoisePart,
    /// (b) float32 against another implementation.
    pub second_opinion: OpinionPart,
    /// (c) one pass over the prompt against chunks through the cache.
    pub chunks: Vec<ChunkedPart>,
}

/// A prompt that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedPrompt {
    /// Its id.
    pub id: String,
    /// How many tokens it has.
    pub tokens: usize,
}

/// A row of a site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorstRow {
    /// Index of the prompt.
    pub prompt: usize,
    /// Position in it.
    pub position: usize,
    /// Relative L2; not finite (null in JSON) when a value is not finite.
    pub relative_l2: f64,
    /// What it may be.
    pub bar: f64,
}

/// One site over all rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteDistance {
    /// Rows measured.
    pub rows: usize,
    /// Rows above their bar, or not finite.
    pub rows_above: usize,
    /// Median relative L2 of the rows.
    pub median: f64,
    /// Largest relative L2 of the rows.
    pub max: f64,
    /// The row that is nearest to its bar or furthest above it.
    pub worst: WorstRow,
}

/// (a) float32 against float64.
#[derive(Clone, Debug, Serialize)]
pub struct NoisePart {
    /// What it comes to.
    pub outcome: CheckOutcome,
    /// Why.
    pub reason: String,
    /// By site, in data-flow order.
    pub sites: BTreeMap<Site, SiteDistance>,
}

/// (c) One pass over the prompt against chunks through the cache.
#[derive(Clone, Debug, Serialize)]
pub struct ChunkedPart {
    /// Tokens a chunk; 1 is step by step.
    pub tokens: usize,
    /// What it comes to.
    pub outcome: CheckOutcome,
    /// Why.
    pub reason: String,
    /// By site, in data-flow order.
    pub sites: BTreeMap<Site, SiteDistance>,
}

/// (b) The logits against those of another implementation.
#[derive(Clone, Debug, Serialize)]
pub struct OpinionPart {
    /// What it comes to.
    pub outcome: CheckOutcome,
    /// Why.
    pub reason: String,
    /// Who was asked; absent when nobody supports the checkpoint.
    pub implementation: Option<SecondImplementation>,
    /// Rows that were not compared.
    pub rows_not_compared: usize,
    /// Logits over all rows compared; absent when none was.
    pub logits: Option<SiteDistance>,
    /// Every row compared.
    pub rows: Vec<OpinionRow>,
}

/// Logits at one position, here and there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OpinionRow {
    /// Index of the prompt.
    pub prompt: usize,
    /// Position in it.
    pub position: usize,
    /// Relative L2.
    pub relative_l2: f64,
    /// Largest difference of a logit.
    pub max_abs: f64,
    /// Relative L2 of the row's float32 from its float64.
    pub noise: f64,
    /// What `relative_l2` may be.
    pub bar: f64,
    /// Both choose the same id.
    pub same_choice: bool,
}

impl SiteDistance {
    /// Rows in any order; `None` without rows.
    pub(super) fn of(rows: &[WorstRow]) -> Option<Self> {
        let excess =
            |row: &WorstRow| if row.relative_l2.is_finite() { row.relative_l2 / row.bar } else { f64::INFINITY };
        let worst =
            rows.iter().copied().reduce(|worst, row| if excess(&row) > excess(&worst) { row } else { worst })?;
        let mut distances: Vec<f64> = rows.iter().map(|row| row.relative_l2).collect();
        distances.sort_by(f64::total_cmp);
        let rows_above = rows.iter().filter(|row| row.is_above()).count();
        let (median, max) = (distances[distances.len() / 2], distances[distances.len() - 1]);
        Some(Self { rows: rows.len(), rows_above, median, max, worst })
    }
}

impl WorstRow {
    /// Its distance as a multiple of its bar; infinite when it is not finite.
    #[must_use]
    pub fn excess(&self) -> f64 {
        if self.relative_l2.is_finite() { self.relative_l2 / self.bar } else { f64::INFINITY }
    }

    /// Too far off. What is not a number is.
    #[must_use]
    pub fn is_above(&self) -> bool {
        self.relative_l2.is_nan() || self.relative_l2 > self.bar
    }
}

impl OpinionRow {
    /// Its place and distance alone.
    #[must_use]
    pub fn as_row(&self) -> WorstRow {
        WorstRow { prompt: self.prompt, position: self.position, relative_l2: self.relative_l2, bar: self.bar }
    }
}

/// Outcome and reason of a part that measured sites.
pub(super) fn of_sites(sites: &BTreeMap<Site, SiteDistance>) -> (CheckOutcome, String) {
    let rows: usize = sites.values().map(|site| site.rows).sum();
    let above: usize = sites.values().map(|site| site.rows_above).sum();
    if above > 0 {
        let first = sites.iter().find(|(_, site)| site.rows_above > 0);
        let first = first.map_or_else(String::new, |(site, distance)| {
            format!(", the first at {site} ({:.2e}, bar {:.2e})", distance.worst.relative_l2, distance.worst.bar)
        });
        return (CheckOutcome::Fail, format!("{above} of {rows} rows are above their bars{first}"));
    }
    match sites.iter().max_by(|a, b| a.1.max.total_cmp(&b.1.max)) {
        None => (CheckOutcome::NotApplicable, "no row was measured".into()),
        Some((_, largest)) if largest.max <= 0.0 => {
            (CheckOutcome::Pass, format!("no difference in {rows} rows at {} sites", sites.len()))
        }
        Some((site, largest)) => {
            let reason = format!("at most {:.2e}, at {site}, of {rows} rows at {} sites", largest.max, sites.len());
            (CheckOutcome::Pass, reason)
        }
    }
}

/// What is said when every part passes.
fn agreement(noise: &NoisePart, opinion: &OpinionPart) -> String {
    let logits = noise.sites.get(&Site::Logits).map_or(f64::NAN, |site| site.worst.relative_l2);
    let module = opinion.implementation.as_ref().map_or("nobody", |about| about.module);
    format!("noise at logits {logits:.2e}; candle's {module} agrees, and so do steps and chunks")
}

/// The outcome of all parts together.
pub(super) fn concluded(noise: &NoisePart, opinion: &OpinionPart, chunks: &[ChunkedPart]) -> (CheckOutcome, String) {
    let chunked = chunks.iter().map(|part| (part.outcome, format!("chunks of {}: {}", part.tokens, part.reason)));
    let parts = [
        (noise.outcome, format!("float32 against float64: {}", noise.reason)),
        (opinion.outcome, format!("second opinion: {}", opinion.reason)),
    ];
    let parts: Vec<_> = parts.into_iter().chain(chunked).collect();
    let worst = parts.iter().map(|(outcome, _)| *outcome).max().unwrap_or(CheckOutcome::NotApplicable);
    let (outcome, reason) = match parts.into_iter().find(|(outcome, _)| *outcome == worst) {
        Some((CheckOutcome::Pass, _)) | None => return (worst, agreement(noise, opinion)),
        Some(part) => part,
    };
    // Of a part that does not apply, the others still stand.
    (if outcome == CheckOutcome::NotApplicable { CheckOutcome::Incomplete } else { outcome }, reason)
}
