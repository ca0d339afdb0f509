//! `fidelity selftest`: a slice of it reaches its bars.

use serde_json::Value;

use crate::support::Desk;

#[test]
fn a_slice_of_the_self_test_names_what_was_injected() {
    let answer = Desk::new().fidelity(&["selftest", "--slice", "7/61", "--json"]);
    let test: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    let cases = test["cases"].as_array().expect("cases");
    assert!(cases.len() >= 10, "{}", cases.len());
    let told = |case: &&Value| ["clean", "unexplained"].iter().all(|none| case["named"] != *none);
    let same = |case: &Value| case["equivalent"].as_array().is_some_and(|names| names.contains(&case["truth"]));
    let right = |case: &&Value| case["truth"] == case["named"] || same(case);
    // Few cases cannot say whether the bars are reached; a wrong name or a false alarm is one too many.
    assert!(cases.iter().filter(told).all(|case| right(&case)), "{test}");
    assert!(cases.iter().filter(|case| case["truth"] == "clean").all(|case| right(&case)), "{test}");
    assert!(cases.iter().filter(told).count() >= 8, "{test}");
    assert!(matches!(answer.code, Some(0 | 1)), "{answer:?}");
}

#[test]
fn a_slice_that_is_none_is_refused() {
    for slice in ["0/4", "5/4", "4", "a/b"] {
        assert_eq!(Desk::new().fidelity(&["selftest", "--slice", slice]).code, Some(2), "{slice}");
    }
}
