//! Encoders: judged by hidden rows, without a word of logits or generated text.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::{Answer, Desk, PROMPTS, json};

/// The encoder of the references' goldens, as a folder a person may have.
fn encoder() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens/bert");
    folder.to_str().expect("UTF-8").to_owned()
}

fn run(desk: &Desk, more: &[&str]) -> Answer {
    desk.write("p.jsonl", PROMPTS);
    let weights = encoder();
    let arguments = ["run", "--weights", &weights, "--prompts", "p.jsonl", "--calibration", "p.jsonl"];
    desk.fidelity(&[&arguments[..], more].concat())
}

#[test]
fn an_encoder_runs_in_scope_base_and_is_judged_by_its_hidden_rows() {
    let desk = Desk::new();
    let answer = run(&desk, &["--out", "out"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().starts_with("faithful: emulator a16w8 · base: centred cosine 0.99"), "{answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "tables fit 80 columns");
    let verdict = json(&desk.path("out/verdict.json"));
    let scopes = verdict["scopes"].as_object().expect("scopes");
    assert_eq!(scopes.keys().collect::<Vec<_>>(), ["base"]);
    let base = &scopes["base"];
    assert_eq!((&base["judged_site"], &base["coverage"]["rows_compared"]), (&"final_norm".into(), &19.into()));
    assert!(base["sites"]["final_norm"]["centred_cosine"]["mean"].as_f64().is_some_and(|mean| mean > 0.99));
    assert!(base["sites"]["pooled"]["rows"] == 2 && base["sites"].get("logits").is_none());
    let row = &base["rows"][0];
    assert!(row["centred_cosine"].is_number() && row["top1"].is_null() && row["reference_choice"].is_null());
    assert!(verdict["generated"].is_null());
    let manifest = json(&desk.path("out/reference/trace.json"));
    assert_eq!(manifest["network"], "encoder");
    assert_eq!(manifest["arm"]["detail"]["pooling"], "mean of the tokens (the default: no modules.json)");
    let everything = ["report.html", "positions.csv", "layers.csv"].map(|name| {
        let text = fs::read_to_string(desk.path("out").join(name)).expect("there");
        text.split_once("</style>").map_or(text.clone(), |(_, body)| body.to_owned())
    });
    let said = everything.concat() + &answer.stdout;
    assert!(!said.contains("NaN") && !answer.stdout.contains("top-1") && !answer.stdout.contains("logits"), "{said}");
    let again = desk.fidelity(&["report", "out"]);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_fault_breaks_an_encoder_and_those_without_effect_are_refused() {
    let desk = Desk::new();
    let broken = run(&desk, &["--recipe", "none", "--fault", "softmax_across_heads", "--out", "out"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    assert!(broken.last_line().contains("first bad site blocks.0."), "{}", broken.last_line());
    let verdict = json(&desk.path("out/verdict.json"));
    assert!(verdict["diagnosis"].is_null() && verdict["notes"].to_string().contains("no diagnosis: "), "{verdict}");
    for (fault, why) in
        [("mask_repeated", "it is an encoder"), ("gqa_tile", "as many kv heads"), ("rope_interleaved", "no rotary")]
    {
        let refused = run(&desk, &["--fault", fault]);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains(why), "{fault}: {}", refused.stderr);
    }
}

#[test]
fn what_an_encoder_does_not_offer_is_refused() {
    let desk = Desk::new();
    desk.write("long.jsonl", &format!("{{\"id\":\"a\",\"token_ids\":[{}1]}}", "1,".repeat(128)));
    for (more, expected) in [
        (&["--scopes", "base,tbt"][..], "`tbt` is not offered: this checkpoint is an encoder"),
        (&["--new-tokens", "4"], "this checkpoint is an encoder and generates nothing, found 4"),
        (&["--taps", "gate"], "a checkpoint of model_type bert has no site `gate`"),
        (&["--taps", "logits"], "has no site `logits`"),
    ] {
        let refused = run(&desk, more);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let long = desk.fidelity(&["run", "--weights", &encoder(), "--prompts", "long.jsonl"]);
    assert_eq!(long.code, Some(2));
    let expected = "prompt `a` has 129 tokens, but max_position_embeddings in config.json is 128; shorten the prompt\n";
    assert!(long.stderr.contains(expected), "{}", long.stderr);
    let plain = run(&desk, &["--scopes", "base", "--new-tokens", "0", "--taps", "q", "--quiet"]);
    assert_eq!(plain.code, Some(0), "what is judged is kept whatever is tapped: {plain:?}");
}

#[test]
fn arms_recorded_apart_compare_as_in_a_run() {
    let desk = Desk::new();
    let together = run(&desk, &["--out", "run"]);
    let weights = encoder();
    let common = ["--weights", &weights, "--prompts", "p.jsonl"];
    let reference = desk.fidelity(&[&["reference"][..], &common, &["--out", "ref"]].concat());
    assert_eq!(reference.code, Some(0), "{reference:?}");
    let arm = ["--calibration", "p.jsonl", "--reference", "ref", "--out", "arm"];
    let arm = desk.fidelity(&[&["record"][..], &common, &arm].concat());
    assert_eq!(arm.code, Some(0), "{arm:?}");
    let compared = desk.fidelity(&["compare", "ref", "arm", "--json"]);
    assert_eq!(compared.code, together.code);
    let (apart, run): (Value, Value) =
        (serde_json::from_str(&compared.stdout).expect("JSON"), json(&desk.path("run/verdict.json")));
    assert_eq!(apart["scopes"]["base"]["sites"], run["scopes"]["base"]["sites"]);

    // A reference that does not say that it is an encoder is judged by the logits it has not.
    let manifest = desk.path("ref/trace.json");
    let mut silent = json(&manifest);
    silent.as_object_mut().expect("an object").remove("network");
    fs::write(&manifest, silent.to_string()).expect("writes");
    let compared = desk.fidelity(&["compare", "ref", "arm"]);
    assert_eq!(compared.code, Some(3));
    assert!(compared.last_line().contains("the reference holds no logits"), "{}", compared.last_line());
}
