//! `run --gate` on a device.

use std::fs;

use fidelity_mock_soc::{Fault, HefOptions};
use serde_json::{Value, json as value};

use crate::{
    Bench, prompts,
    support::{Answer, json},
};

/// Where the baseline of the demo on this device belongs.
const BASELINE: &str = "reports/baselines/demo/hailo10h/compiled.json";

/// Prompts enough for a gate to decide, quick to compute.
fn gated(bench: &Bench, out: &str, more: &[&str]) -> Answer {
    bench.desk.write("prompts.jsonl", &prompts(&[3, 4, 5, 6, 7, 8, 9, 10]));
    let address = bench.address();
    let common = ["run", "--device", "hailo", "--hef", "demo.hef", "--device-id", &address, "--out", out];
    let quick = ["--prompts", "prompts.jsonl", "--new-tokens", "5", "--scopes", "prefill,tbt", "--no-diagnosis"];
    bench.desk.fidelity(&[&common[..], &quick, more].concat())
}

/// A chip without fault, its run `good`, and the baseline made of it.
fn blessed() -> (Bench, String) {
    let bench = Bench::new(&HefOptions::precise(8, 48));
    let good = gated(&bench, "good", &["--prefill-rows", "all"]);
    assert_eq!(good.code, Some(0), "{}{}", good.stdout, good.stderr);
    let answer = bench.desk.fidelity(&["bless", "good"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let baseline = fs::read_to_string(bench.desk.path(BASELINE)).unwrap_or_else(|_| panic!("{answer:?}"));
    (bench, baseline)
}

#[test]
fn the_same_device_passes_and_a_faulty_one_fails() {
    let (bench, baseline) = blessed();
    let again = gated(&bench, "again", &["--prefill-rows", "all", "--gate"]);
    assert_eq!(again.code, Some(0), "{}{}", again.stdout, again.stderr);
    let gate = json(&bench.desk.path("again/gate.json"));
    assert_eq!((&gate["conclusion"], &gate["prompts"]), (&"pass".into(), &8.into()));
    assert_eq!(gate["run"]["versions"]["hailort"], "5.2.0");
    let page = fs::read_to_string(bench.desk.path("again/report.html")).expect("there");
    assert!(page.contains("Gate against the baseline</a>: ✓ pass"), "{page}");

    let faulty = Bench::at_fault(&HefOptions::precise(8, 48), Fault::CacheLayout);
    faulty.desk.write(BASELINE, &baseline);
    let worse = gated(&faulty, "worse", &["--prefill-rows", "all", "--gate"]);
    assert_eq!(worse.code, Some(1), "{}{}", worse.stdout, worse.stderr);
    let gate = json(&faulty.desk.path("worse/gate.json"));
    let pearson = |scope: &str| gate["scopes"][scope]["pearson"]["conclusion"].clone();
    assert_eq!((pearson("prefill"), pearson("tbt")), ("pass".into(), "fail".into()));
}

#[test]
fn another_compiled_model_is_refused_unless_on_purpose() {
    let (_, baseline) = blessed();
    let other = Bench::new(&HefOptions::precise(4, 48));
    other.desk.write(BASELINE, &baseline);
    let refused = gated(&other, "out", &["--prefill-rows", "all", "--gate"]);
    assert_eq!(refused.code, Some(2), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("hef: was ") && refused.stderr.contains("--allow hef"), "{}", refused.stderr);
    assert!(other.desk.path("out/verdict.json").exists(), "what was computed is kept");
    assert_eq!(other.desk.fidelity(&["gate", "out", "--allow", "hef"]).code, Some(0));
}

/// Nothing here can harm the link on purpose, but a trace may say that it was.
#[test]
fn a_run_over_a_faulty_link_is_held_against_nothing() {
    let (bench, _) = blessed();
    let path = bench.desk.path("good/arm/trace.json");
    let mut trace = json(&path);
    let deviations = trace["deviations"].as_array_mut().expect("a list");
    deviations.push(value!({"kind": "link_fault", "name": "late_reply", "parameters": {}}));
    fs::write(&path, Value::to_string(&trace)).expect("written");
    let quick = ["--prompts", "prompts.jsonl", "--no-diagnosis", "--out", "replayed", "--gate", BASELINE];
    let refused = bench.desk.fidelity(&[&["run", "--device", "replay=good/arm"][..], &quick].concat());
    assert_eq!(refused.code, Some(2), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("the run carries link_fault `late_reply`"), "{}", refused.stderr);
    assert!(!bench.desk.path("replayed/gate.json").exists());
}
