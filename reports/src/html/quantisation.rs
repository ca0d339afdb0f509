//! What quantisation did to each site, as far as the run tells: signal over error, and values beyond the calibrated ranges.

use fidelity_trace::{ArmKind, OutsideRange, Scope, Site};
use fidelity_verdict::{ScopeResult, SiteResult, Verdict};
use serde::Serialize;

use crate::numbers::{ABSENT, magnitude, or_absent};

/// How many sites are shown before the whole table.
const WORST: usize = 8;

#[derive(Serialize)]
pub(super) struct QuantisationView {
    scope: &'static str,
    /// Whether any value lay outside the range that was calibrated for it.
    clipped: bool,
    /// The lowest signal over error first.
    worst: Vec<SiteView>,
    /// All, in data-flow order; empty where the worst are all.
    all: Vec<SiteView>,
}

#[derive(Clone, Serialize)]
struct SiteView {
    name: String,
    median: String,
    low: String,
    largest: String,
    outside: String,
    farthest: String,
}

impl QuantisationView {
    /// Absent where the arm is not quantised, as far as it says, or no site has a signal over an error.
    pub(super) fn of(verdict: &Verdict) -> Option<Self> {
        let device = &verdict.arms.device;
        let emulated = device.deviations.iter().any(|it| it.kind == "emulation" && it.name == "quantisation");
        if !emulated && device.arm.kind != ArmKind::Hailo {
            return None;
        }
        let (scope, result) = verdict.scopes.iter().find(|(_, result)| has_noise(result))?;
        Some(Self::of_scope(*scope, result))
    }

    fn of_scope(scope: Scope, result: &ScopeResult) -> Self {
        let view = |(site, found): (&Site, &SiteResult)| SiteView::of(*site, found, result.outside_range.get(site));
        let all: Vec<SiteView> = result.sites.iter().map(view).collect();
        let mut by_signal: Vec<_> =
            result.sites.values().zip(&all).filter_map(|(found, view)| Some((found.sqnr_db?.p50, view))).collect();
        by_signal.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Self {
            scope: scope.name(),
            clipped: !result.outside_range.is_empty(),
            worst: by_signal.into_iter().take(WORST).map(|(_, view)| view.clone()).collect(),
            all: if all.len() > WORST { all } else { Vec::new() },
        }
    }
}

fn has_noise(result: &ScopeResult) -> bool {
    result.sites.values().any(|site| site.sqnr_db.is_some())
}

impl SiteView {
    fn of(site: Site, found: &SiteResult, outside: Option<&OutsideRange>) -> Self {
        let decibels = |value: f64| format!("{value:.1}");
        Self {
            name: site.to_string(),
            median: match found.sqnr_db {
                None if found.rows > 0 && found.exact_rows == found.rows => "exact".to_owned(),
                summary => or_absent(summary.map(|it| it.p50), decibels),
            },
            low: or_absent(found.sqnr_db.map(|it| it.p05), decibels),
            largest: or_absent(found.max_abs.map(|it| it.max), magnitude),
            outside: outside.map_or_else(
                || ABSENT.to_owned(),
                |it| format!("{} of {} ({} %)", it.outside, it.values, magnitude(percent_of(it))),
            ),
            farthest: outside.map_or_else(|| ABSENT.to_owned(), |it| magnitude(it.widths)),
        }
    }
}

fn percent_of(range: &OutsideRange) -> f64 {
    100.0 * range.outside as f64 / (range.values as f64).max(1.0)
}
