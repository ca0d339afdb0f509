//! Whose the error is, as a bar a scope: what the recipe costs, and what the device adds beyond it.

use fidelity_verdict::{Attribution, ScopeAttribution};
use serde::Serialize;

use crate::{
    identity::arm_name,
    numbers::{correlation, magnitude, or_absent},
    text::printable,
};

#[derive(Serialize)]
pub(super) struct AttributionView {
    emulator: String,
    sentence: String,
    scopes: Vec<ScopeView>,
}

#[derive(Serialize)]
struct ScopeView {
    name: &'static str,
    recipe: String,
    device: String,
    implementation: String,
    excess: String,
    interval: String,
    /// Parts of a bar of 100: what the recipe takes of the similarity, then the device beyond that.
    recipe_part: String,
    excess_part: String,
}

impl AttributionView {
    pub(super) fn of(attribution: &Attribution) -> Self {
        let lost = |scope: &ScopeAttribution| (1.0 - scope.device).max(1.0 - scope.recipe);
        let most = attribution.scopes.values().map(lost).fold(f64::MIN_POSITIVE, f64::max);
        let scopes = attribution.scopes.iter().map(|(scope, found)| ScopeView::of(scope.name(), found, most));
        Self {
            emulator: arm_name(&attribution.emulator.arm),
            sentence: printable(&attribution.sentence),
            scopes: scopes.collect(),
        }
    }
}

impl ScopeView {
    fn of(name: &'static str, found: &ScopeAttribution, most: f64) -> Self {
        let part = |lost: f64| format!("{:.2}", (lost / most * 100.0).clamp(0.0, 100.0));
        Self {
            name,
            recipe: correlation(found.recipe),
            device: correlation(found.device),
            implementation: or_absent(found.implementation, correlation),
            excess: magnitude(found.excess),
            interval: found
                .excess_interval
                .map_or_else(String::new, |[low, high]| format!("[{}, {}]", magnitude(low), magnitude(high))),
            recipe_part: part(1.0 - found.recipe),
            excess_part: part(found.excess),
        }
    }
}
