//! Three arms: what a recipe costs by itself, and what a device adds to that.

use std::collections::BTreeMap;

use fidelity_trace::{Scope, Site};
use fidelity_verdict::{ArmIdentity, Attribution, RowResult, ScopeAttribution, ScopeResult, Verdict};

use crate::{
    bootstrap::{BOOTSTRAP, Contribution, Resamples},
    numbers::near_one,
};

/// Below this similarity a recipe predicts a broken arm by itself.
const BROKEN: f64 = 0.90;
/// Decimals of a similarity, at least.
const DECIMALS: usize = 4;

/// Lays a device's verdict beside that of an emulator of its recipe (`recipe`, of the same reference and prompts), and that of the
/// device with this emulator in the reference's place (`implementation`).
///
/// The excess is what the device is less similar to the reference than the emulator is, row by row; it is measurable where the 95 %
/// interval of its mean over prompts lies above 0. Two roundings of one recipe need not agree with each other, so that the distance
/// of the two arms alone says nothing.
#[must_use]
pub fn attribute(device: &Verdict, recipe: &Verdict, implementation: &Verdict) -> Attribution {
    let resamples = Resamples::draw(BOOTSTRAP, device.prompts.len());
    let pairs = device.scopes.iter().filter_map(|(scope, result)| Some((*scope, result, recipe.scopes.get(scope)?)));
    let scopes: BTreeMap<Scope, ScopeAttribution> = pairs
        .filter_map(|(scope, result, predicted)| {
            let between = implementation.scopes.get(&scope);
            Some((scope, of_scope(result, predicted, between, &resamples)?))
        })
        .collect();
    let emulator: ArmIdentity = recipe.arms.device.clone();
    Attribution { sentence: sentence(&scopes, device), emulator, scopes }
}

fn of_scope(
    device: &ScopeResult,
    recipe: &ScopeResult,
    between: Option<&ScopeResult>,
    resamples: &Resamples,
) -> Option<ScopeAttribution> {
    let place = |row: &RowResult| (row.prompt, row.position);
    let predicted: BTreeMap<_, f64> =
        recipe.rows.iter().filter_map(|row| Some((place(row), similarity(recipe, row)?))).collect();
    let device_not_finite = device.rows.iter().filter(|row| !row.finite && predicted.contains_key(&place(row))).count();
    let pairs: Vec<(usize, f64, f64)> = device
        .rows
        .iter()
        .filter_map(|row| Some((row.prompt, *predicted.get(&place(row))?, similarity(device, row)?)))
        .collect();
    let mut by_prompt: BTreeMap<usize, Contribution> = BTreeMap::new();
    for (prompt, predicted, found) in &pairs {
        let sums = by_prompt.entry(*prompt).or_insert(Contribution { sum: 0.0, rows: 0.0 });
        sums.sum += predicted - found;
        sums.rows += 1.0;
    }
    let rows = pairs.len();
    let mean = |of: fn(&(usize, f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / rows as f64;
    let contributions: Vec<Contribution> = by_prompt.into_values().collect();
    (rows > 0).then(|| ScopeAttribution {
        rows,
        device_not_finite,
        recipe: mean(|pair| pair.1),
        device: mean(|pair| pair.2),
        implementation: between.and_then(mean_similarity),
        excess: mean(|pair| pair.1 - pair.2),
        excess_interval: resamples.interval(&contributions),
    })
}

fn similarity(result: &ScopeResult, row: &RowResult) -> Option<f64> {
    if result.judged_site == Site::Logits { row.pearson } else { row.centred_cosine }
}

fn mean_similarity(result: &ScopeResult) -> Option<f64> {
    let site = result.sites.get(&result.judged_site)?;
    let summary = if result.judged_site == Site::Logits { &site.pearson } else { &site.centred_cosine };
    summary.as_ref().map(|summary| summary.mean)
}

/// The scope with the largest excess decides; `tbt_self` is a probe and does not.
fn sentence(scopes: &BTreeMap<Scope, ScopeAttribution>, device: &Verdict) -> String {
    let deciding = scopes.iter().filter(|(scope, _)| **scope != Scope::TbtSelf || scopes.len() == 1);
    let Some((scope, worst)) = deciding.max_by(|a, b| a.1.excess.total_cmp(&b.1.excess)) else {
        return "no row of the device has its counterpart in the emulator, so nothing can be attributed".to_owned();
    };
    let judged = device.scopes.get(scope).map_or(Site::Logits, |result| result.judged_site);
    let measure = if judged == Site::Logits { "Pearson" } else { "centred cosine" };
    let shown = |value: f64| near_one(value, DECIMALS);
    let head = format!(
        "the recipe alone predicts {measure} {} in {scope}, the device has {}",
        shown(worst.recipe),
        shown(worst.device)
    );
    if worst.device_not_finite > 0 {
        let count = worst.device_not_finite;
        return format!("{head}; and {count} of its rows are not finite, which the recipe does not explain");
    }
    let added = match worst.excess_interval {
        None => "; with one prompt there is no telling whether the device adds to that".to_owned(),
        Some([_, high]) if high < 0.0 => {
            ": the device is nearer to float32 than this recipe predicts, so it may not be what it was compiled with"
                .to_owned()
        }
        Some([low, _]) if low <= 0.0 => ": the device adds nothing measurable".to_owned(),
        Some([low, high]) => format!(
            ": toolchain, host or silicon take another {} (95 % interval {} to {})",
            decimals(worst.excess),
            decimals(low),
            decimals(high)
        ),
    };
    let blind =
        if worst.recipe < BROKEN { "; a recipe that breaks the model by itself hides what else is wrong" } else { "" };
    format!("{head}{added}{blind}")
}

/// A difference above 0, with two significant digits at least.
fn decimals(value: f64) -> String {
    if value < 0.01 { format!("{value:.1e}") } else { format!("{value:.3}") }
}
