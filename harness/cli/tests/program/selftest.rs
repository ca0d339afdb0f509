//! `fidelity selftest`: a slice of it reaches its bars.

use serde_json::Value;

use crate::support::Desk;

#[test]
fn a_slice_of_the_self_test_names_what_was_injected() {
    let answer = Desk::new().fidelity(&["selftest", "--slice", "7/61", "--json"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let test: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    let cases = test["cases"].as_array().expect("cases");
    assert!(cases.len() >= 10, "{}", cases.len());
    let named = |case: &&Value| case["truth"] == case["named"] && case["truth"] != "clean";
    assert!(cases.iter().filter(named).count() >= 5, "{test}");
}

#[test]
fn a_slice_that_is_none_is_refused() {
    for slice in ["0/4", "5/4", "4", "a/b"] {
        assert_eq!(Desk::new().fidelity(&["selftest", "--slice", slice]).code, Some(2), "{slice}");
    }
}
