//! Several arms in one comparison.

use std::fs;

use serde_json::Value;

use crate::support::{Desk, PROMPTS, json};

/// A desk with a reference and three arms: as the reference, wrong from block 1 on, and without what was asked.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("p.jsonl", PROMPTS);
    let made = desk.fidelity(&["reference", "--prompts", "p.jsonl", "--new-tokens", "12", "--out", "ref"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let arm = ["record", "--reference", "ref", "--recipe", "none", "--new-tokens", "12", "--out"];
    for (name, more) in
        [("float", &[][..]), ("chip", &["--fault", "softmax_across_heads@1"]), ("half", &["--scopes", "base"])]
    {
        let made = desk.fidelity(&[&arm[..], &[name], more].concat());
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    desk
}

#[test]
fn the_worst_of_several_arms_decides_and_each_has_its_own_report() {
    let desk = desk();
    let answer = desk.fidelity(&["compare", "ref", "float", "chip", "half", "--out", "out"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.last_line().starts_with("broken: #2 emulator float32, fault injected on purpose: softmax_across_heads in block 1, worst of 3 arms · base: "), "{}", answer.last_line());
    assert!(answer.last_line().ends_with("report out/report.html"));
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    assert!(answer.stdout.contains("▲"), "the first bad site stands in the table of layers: {}", answer.stdout);
    let verdicts: Vec<_> = ["1-emulator-float32", "2-emulator-float32", "3-emulator-float32"]
        .map(|folder| json(&desk.path("out").join(folder).join("verdict.json")))
        .into();
    let outcomes: Vec<_> = verdicts.iter().map(|it| it["verdict"].as_str().unwrap_or_default()).collect();
    assert_eq!(outcomes, ["faithful", "broken", "faithful"]);
    for file in ["arms.csv", "report.html", "2-emulator-float32/report.html", "2-emulator-float32/positions.csv"] {
        assert!(desk.path("out").join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(desk.path("out/report.html")).expect("there");
    assert!(page.contains("href=\"2-emulator-float32/report.html\"") && page.contains("worst of 3 arms"));
    let alone = desk.fidelity(&["compare", "ref", "chip", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&alone.stdout).ok().as_ref(), Some(&verdicts[1]), "the same as alone");
    let lines = desk.fidelity(&["compare", "ref", "float", "chip", "--json"]);
    assert_eq!((lines.code, lines.stdout.lines().count()), (Some(1), 2));
    let good = desk.fidelity(&["compare", "ref", "float", "half", "--quiet"]);
    assert_eq!((good.code, good.stdout.lines().count()), (Some(0), 1), "{good:?}");
    assert!(good.stdout.starts_with("faithful: #1 emulator float32, worst of 2 arms"), "{}", good.stdout);
}

#[test]
fn an_arm_of_other_prompts_is_refused_by_name() {
    let desk = desk();
    desk.write("q.jsonl", "{\"id\":\"a\",\"token_ids\":[7,7,7]}\n");
    let made = desk.fidelity(&["reference", "--prompts", "q.jsonl", "--new-tokens", "2", "--out", "other"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let answer = desk.fidelity(&["compare", "ref", "float", "other", "--out", "out"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("other: the traces have no prompt in common"), "{}", answer.stderr);
    assert!(!desk.path("out").exists());
}
