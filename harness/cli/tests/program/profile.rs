//! `fidelity profile` as a person meets it.

use serde_json::Value;

use crate::support::{Desk, json};

#[test]
fn a_profile_has_every_site_and_its_tables() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["profile", "--out", "p"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().starts_with("profiled: demo · "), "{answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    for kind in ["resid_post", "act", "logits", "attention sink", "norm inputs"] {
        assert!(answer.stdout.contains(kind), "{kind}");
    }
    let profile = json(&desk.path("p/profile.json"));
    assert_eq!(profile["sites"].as_object().map(serde_json::Map::len), Some(4 * 15 + 3));
    let site = &profile["sites"]["blocks.2.resid_post"];
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!(number(&site["min"]) < 0.0 && number(&site["magnitude"]["p50"]) < number(&site["magnitude"]["p999"]));
    let (eight, sixteen) = (number(&site["sqnr_8"]["whole_db"]), number(&site["sqnr_16"]["whole_db"]));
    // 257 times finer steps.
    assert!((sixteen - eight - 20.0 * 257.0_f64.log10()).abs() < 1e-6, "{eight} {sixteen}");
    let html = std::fs::read_to_string(desk.path("p/profile.html")).expect("there");
    assert!(
        html.matches("<svg").count() == 10 && !html.contains("href=") && !html.contains("src="),
        "{}",
        html.matches("<svg").count()
    );
    let lines = |name: &str| std::fs::read_to_string(desk.path(name)).expect("there").lines().count();
    assert_eq!((lines("p/sites.csv"), lines("p/sinks.csv")), (4 * 15 + 3 + 1, 5));
    assert!(lines("p/positions.csv") > 63 * 20 && lines("p/channels.csv") > 500 && lines("p/massive.csv") >= 1);
}

#[test]
fn a_profile_of_one_prompt_as_json_and_wrong_input() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["profile", "--prompt", "Once upon a time", "--json"]);
    let profile: Value = serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    assert_eq!(profile["prompts"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        profile["sites"]["blocks.0.q"]["by_position"].as_array().map(Vec::len),
        profile["tokens"].as_u64().map(|n| n as usize)
    );
    let wrong = desk.fidelity(&["profile", "--prompts", "nowhere.txt"]);
    assert_eq!(wrong.code, Some(2));
}
