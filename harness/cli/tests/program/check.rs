//! `fidelity reference --check`.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::support::{Answer, Desk, PROMPTS, golden_checkpoint};

fn check(desk: &Desk, golden: &str, more: &[&str]) -> Answer {
    let prompts = desk.write("p.jsonl", PROMPTS);
    let (prompts, weights) = (prompts.to_str().expect("UTF-8").to_owned(), golden_checkpoint().with_file_name(golden));
    let weights = weights.to_str().expect("UTF-8");
    desk.fidelity(&[&["reference", "--check", "--weights", weights, "--prompts", &prompts][..], more].concat())
}

/// check.json of the only run of a checkpoint.
fn written(desk: &Desk, checkpoint: &str) -> PathBuf {
    let mut runs = fs::read_dir(desk.path(&format!("runs/{checkpoint}"))).expect("a run");
    runs.next().expect("one").expect("readable").path().join("check.json")
}

#[test]
fn a_right_reference_passes_and_leaves_a_document() {
    let desk = Desk::new();
    let answer = check(&desk, "llama-gqa", &[]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().starts_with("pass: float32 reference of llama-gqa · "), "{}", answer.last_line());
    let (tables, _) = answer.stdout.trim_end().rsplit_once('\n').expect("more than one line");
    let long = tables.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None, "a line is wider than 80 columns");
    for expected in ["PASS            second opinion: all 19 rows agree", "resid_post", "Noise by block", "steps"] {
        assert!(tables.contains(expected), "{expected}: {tables}");
    }
    let document: Value = serde_json::from_slice(&fs::read(written(&desk, "llama-gqa")).expect("there")).expect("JSON");
    assert_eq!((&document["format"], &document["version"]), (&"fidelity-check".into(), &1.into()));
    assert_eq!(document["outcome"], "pass");
    assert_eq!(document["second_opinion"]["implementation"]["module"], "llama");
    assert_eq!(document["second_opinion"]["rows"].as_array().map(Vec::len), Some(19));
    assert!(
        document["noise"]["sites"]["blocks.2.resid_post"]["worst"]["relative_l2"].as_f64().is_some_and(|it| it > 0.0)
    );
    assert_eq!(document["chunks"].as_array().map(Vec::len), Some(3));
}

#[test]
fn without_a_second_opinion_it_is_no_pass() {
    let desk = Desk::new();
    for (golden, said) in [
        (
            "llama-rope-yarn",
            "not available: candle-transformers 0.11.1 llama knows the RoPE types default and llama3 only",
        ),
        ("gpt2", "has no implementation of model_type \"gpt2\""),
        ("mistral-window", "16 of 19 rows agree; 3 were not compared"),
    ] {
        let answer = check(&desk, golden, &["--quiet", "--out", golden]);
        assert_eq!(answer.code, Some(3), "{answer:?}");
        assert!(answer.stdout.starts_with("incomplete: ") && answer.stdout.contains(said), "{}", answer.stdout);
        assert!(desk.path(golden).join("check.json").is_file());
    }
}

#[test]
fn json_is_the_document_and_nothing_else() {
    let desk = Desk::new();
    let answer = check(&desk, "qwen3", &["--json"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(answer.stdout, fs::read_to_string(written(&desk, "qwen3")).expect("there"));
}

#[test]
fn what_a_check_has_no_use_for_is_refused() {
    let desk = Desk::new();
    for arguments in [
        &["reference", "--json"][..],
        &["reference", "--check", "--no-noise"],
        &["reference", "--check", "--new-tokens", "8"],
        &["reference", "--check", "--taps", "all"],
        &["reference", "--check", "--scopes", "base"],
        &["reference", "--check", "--resume", "--out", "x"],
    ] {
        let answer = desk.fidelity(arguments);
        assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
        assert!(!desk.path("runs").exists(), "{arguments:?}");
    }
}
