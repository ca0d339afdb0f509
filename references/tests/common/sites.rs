//! Golden values against what was computed, row by row.

use std::collections::BTreeMap;

use fidelity_trace::{Capture, Scope, Site};

use super::{Golden, relative_l2};

/// Per-row bound on relative L2: five times the float32 noise measured on a 135 M parameter model.
pub(crate) const TOLERANCE: f64 = 1e-5;

/// The row farthest from its golden values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worst {
    pub(crate) row: usize,
    pub(crate) error: f64,
}

impl Worst {
    /// Of rows of one width; NaN is farther than anything.
    pub(crate) fn of<'a>(expected: &[f32], width: usize, found: impl Fn(usize) -> &'a [f32]) -> Self {
        let errors = expected.chunks(width).enumerate().map(|(row, expected)| relative_l2(expected, found(row)));
        errors.enumerate().fold(Self { row: 0, error: 0.0 }, |worst, (row, error)| {
            if error > worst.error || error.is_nan() { Self { row, error } } else { worst }
        })
    }

    pub(crate) fn is_held(self) -> bool {
        self.error <= TOLERANCE
    }
}

/// The worst row of every stored site.
pub(crate) fn worst_rows(name: &str, golden: &Golden, capture: &Capture) -> BTreeMap<Site, Worst> {
    let mut worst = BTreeMap::new();
    for (tensor, (width, values)) in golden.floats.iter().filter(|(tensor, _)| *tensor != "greedy_logits") {
        let site = match tensor.as_str() {
            "last_hidden_state" => Site::FinalNorm,
            name => name.parse().expect("a site"),
        };
        let found = &capture.scopes[&Scope::Base].sites[&site];
        assert_eq!(found.rows() * width, values.len(), "{name}: {site}");
        worst.insert(site, Worst::of(values, *width, |row| found.row(row)));
    }
    let blocks = worst.keys().filter_map(|site| site.block()).max().map_or(0, |last| last as usize + 1);
    let ends = if golden.floats.contains_key("logits") { 3 } else { 2 };
    assert_eq!(worst.len(), ends + 3 * blocks, "{name}: embed, final_norm, logits and three sites of each block");
    let computed = capture.scopes[&Scope::Base].sites.keys().filter_map(|site| site.block()).max();
    assert_eq!(computed.map(|last| last as usize + 1), Some(blocks), "{name}: blocks");
    worst
}
