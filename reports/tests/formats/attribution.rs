//! Whose the error is, on the page.

use std::collections::BTreeMap;

use fidelity_reports::html;
use fidelity_trace::Scope;
use fidelity_verdict::{Attribution, ScopeAttribution, Verdict};

use crate::sample::{HOSTILE, broken};

fn attributed(recipe: f64, device: f64) -> Verdict {
    let scope = ScopeAttribution {
        rows: 100,
        device_not_finite: 0,
        recipe,
        device,
        implementation: None,
        excess: recipe - device,
        excess_interval: Some([recipe - device - 0.01, recipe - device + 0.01]),
    };
    let verdict = broken();
    let attribution = Attribution {
        emulator: verdict.arms.device.clone(),
        sentence: HOSTILE.into(),
        scopes: BTreeMap::from([(Scope::Base, scope)]),
    };
    Verdict { attribution: Some(attribution), ..verdict }
}

fn page(recipe: f64, device: f64) -> String {
    html(&attributed(recipe, device), "").expect("a page")
}

#[test]
fn a_bar_is_what_the_recipe_takes_and_then_what_the_device_adds() {
    let page = page(0.96, 0.92);
    assert!(page.contains("Whose the error is"));
    assert!(page.contains(r#"class="part-recipe" d="M0 0h50.00v10h-50.00z""#), "half is the recipe's");
    assert!(page.contains(r#"class="part-excess" d="M50.00 0h50.00v10h-50.00z""#), "half is the device's");
    assert!(!page.contains("<script"));
    assert!(!html(&broken(), "").expect("a page").contains("Whose the error is"));
}

#[test]
fn a_device_better_than_its_recipe_adds_nothing() {
    let page = page(0.92, 0.96);
    assert!(page.contains(r#"d="M0 0h100.00v10h-100.00z""#) && page.contains(r#"d="M100.00 0h0.00v10h-0.00z""#));
}
