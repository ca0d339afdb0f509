//! Recipes and calibration as a person meets them.

use serde_json::Value;

use crate::support::Desk;

fn judged(arguments: &[&str]) -> Value {
    let desk = Desk::new();
    let base = ["run", "--json", "--no-diagnosis", "--scopes", "base", "--new-tokens", "0"];
    let answer = desk.fidelity(&[&base, arguments].concat());
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn notes(verdict: &Value) -> Vec<&str> {
    verdict["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn what_a_recipe_asks_for_and_is_not_emulated_is_in_the_verdict() {
    for (recipe, said) in [
        ("hailo-llm", &["smart_softmax_stats", "layer_norm_decomposition", "set_input_mask_to_softmax"][..]),
        ("hailo-llm-reduced", &["matmul_correction"]),
        ("default", &["model_optimization_flavor(compression_level=4)"]),
        ("a16w8", &["what norms, softmax, RoPE and activation functions round inside"]),
    ] {
        let verdict = judged(&["--recipe", recipe]);
        let note = notes(&verdict).into_iter().find(|note| note.starts_with("not emulated: ")).expect(recipe);
        assert!(said.iter().all(|said| note.contains(said)), "{recipe}: {note}");
        assert_eq!(note.contains("quarot"), recipe == "hailo-llm", "{note}");
        let pearson = verdict["scopes"]["base"]["sites"]["logits"]["pearson"]["mean"].as_f64().expect("a number");
        assert!(pearson > 0.9 && pearson < 1.0, "{recipe}: {pearson}");
    }
    assert!(!notes(&judged(&["--recipe", "none"])).iter().any(|note| note.starts_with("not emulated")));
}

/// Random values in the place of embeddings never reach where text goes: its values clip, as if the device were broken.
#[test]
fn calibrating_on_the_wrong_distribution_costs_a_large_factor_and_is_named() {
    let of = |calibration: &str| judged(&["--recipe", "a16w8", "--calibration", calibration]);
    let error = |verdict: &Value, site: &str| {
        let median = verdict["scopes"]["base"]["sites"][site]["relative_l2"]["p50"].as_f64();
        median.expect("a number")
    };
    let right = of("prompts");
    assert_eq!(right["verdict"], "faithful");
    for distribution in ["uniform", "normal"] {
        let wrong = of(distribution);
        assert_eq!(wrong["verdict"], "degraded", "{distribution}");
        for site in ["blocks.3.resid_post", "logits"] {
            let factor = error(&wrong, site) / error(&right, site);
            assert!(factor > 8.0, "{distribution}: {factor} at {site}");
        }
        // Looked at alone it is a bad site; the note says why.
        assert!(wrong["scopes"]["base"]["first_bad_site"].is_string(), "{distribution}");
        let named = |note: &&str| note.starts_with("calibration_range: in base, values of ");
        assert!(notes(&wrong).iter().any(named), "{distribution}: {:?}", notes(&wrong));
    }
    assert!(!notes(&right).iter().any(|note| note.contains("calibration_range")));
}

#[test]
fn calibrating_on_another_distribution_is_named_and_on_the_right_one_is_not() {
    let named = |calibration: &str| {
        let verdict = judged(&["--recipe", "a16w8", "--calibration", calibration]);
        let of = verdict["arms"]["device"]["deviations"][0]["parameters"]["calibration"].clone();
        let note = notes(&verdict).into_iter().find(|note| note.starts_with("calibration_range: ")).map(str::to_owned);
        let pearson = verdict["scopes"]["base"]["sites"]["logits"]["pearson"]["mean"].as_f64().expect("a number");
        (of.as_str().expect("text").to_owned(), note, pearson)
    };
    let (of, note, right) = named("prompts");
    assert!(of.starts_with("built-in demo-calibration: 16 prompts of ") && note.is_none(), "{of} {note:?}");
    for distribution in ["uniform", "normal"] {
        let (of, note, wrong) = named(distribution);
        let expected =
            format!("{distribution} values in place of the embeddings of built-in demo-calibration: 16 prompts");
        assert!(of.starts_with(&expected), "{of}");
        assert!(note.is_some_and(|note| note.starts_with("calibration_range: in base, values of ")));
        assert!(wrong < right - 0.001, "{wrong} against {right}");
    }
}
