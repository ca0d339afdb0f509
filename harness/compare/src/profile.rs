//! Where the error is: median relative L2 by site and position.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_trace::Site;
use fidelity_verdict::Profile;

use crate::{numbers::rounded, prompt::ScopeComparison, summary::median};

/// The profile over all prompts, rounded; positions are those at which any site was compared.
pub(crate) fn profile(prompts: &[&ScopeComparison]) -> Profile {
    // A row of a whole prompt is at no position.
    let rows = || prompts.iter().flat_map(|prompt| &prompt.sites).filter(|(site, _)| !site.is_per_prompt());
    let positions: BTreeSet<u32> = rows().flat_map(|(_, rows)| rows).map(|row| row.position).collect();
    let mut errors: BTreeMap<Site, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    for (site, rows) in rows() {
        let by_position = errors.entry(*site).or_default();
        for row in rows {
            if let Some(error) = row.metrics.and_then(|metrics| metrics.relative_l2) {
                by_position.entry(row.position).or_default().push(error);
            }
        }
    }
    let line = |mut by_position: BTreeMap<u32, Vec<f64>>| {
        positions.iter().map(|position| by_position.remove(position).and_then(median).map(rounded)).collect()
    };
    Profile {
        sites: errors.into_iter().map(|(site, by_position)| (site, line(by_position))).collect(),
        positions: positions.iter().copied().collect(),
    }
}
