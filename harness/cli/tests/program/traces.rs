//! Traces: recorded apart, compared later, written by others.

use std::{fs, path::Path, process::Command};

use crate::support::{Desk, PROMPTS, golden_checkpoint, json};

#[test]
fn arms_recorded_apart_compare_as_in_a_run() {
    let desk = Desk::new();
    let prompts = desk.write("p.jsonl", PROMPTS);
    let (golden, prompts) = (golden_checkpoint(), prompts.to_str().expect("UTF-8").to_owned());
    let weights = ["--weights", golden.to_str().expect("UTF-8"), "--new-tokens", "12"];
    let reference = desk.fidelity(&[&["reference", "--prompts", &prompts, "--out", "ref"][..], &weights].concat());
    assert_eq!(reference.code, Some(0), "{reference:?}");
    assert!(reference.stdout.starts_with("recorded: reference float32 of llama-gqa · 2 of 2 prompts"));
    let arm = [
        "record",
        "--reference",
        "ref",
        "--recipe",
        "none",
        "--fault",
        "gqa_tile",
        "--calibration",
        &prompts,
        "--out",
        "arm",
    ];
    let record = desk.fidelity(&[&arm[..], &weights].concat());
    assert_eq!(record.code, Some(0), "{record:?}");
    let compared = desk.fidelity(&["compare", "ref", "arm", "--out", "report"]);
    assert_eq!(compared.code, Some(1), "{compared:?}");
    assert!(compared.stdout.contains("first bad site blocks.0.resid_mid"));
    assert!(desk.path("report/report.html").is_file());
    let itself = desk.fidelity(&["compare", "ref", "ref", "--quiet"]);
    assert_eq!(itself.code, Some(0));
    assert!(
        itself.stdout.starts_with("faithful: reference float32 · base: Pearson 1.0000, top-1 1.000"),
        "{}",
        itself.stdout
    );
}

#[test]
fn the_documented_python_snippet_writes_a_trace_that_compares() {
    let desk = Desk::new();
    let needs = Command::new("python3").args(["-c", "import numpy, safetensors.numpy"]).output();
    if !needs.is_ok_and(|output| output.status.success()) {
        eprintln!("did not run: python3 with numpy and safetensors is not installed");
        return;
    }
    let document =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TRACE.md")).expect("there");
    let snippet =
        document.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a Python block");
    let script = desk.write("write_trace.py", snippet);
    let written = Command::new("python3").arg(script).current_dir(desk.path("")).output().expect("starts");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let compared = desk.fidelity(&["compare", "my_trace", "my_trace", "--quiet"]);
    assert_eq!(compared.code, Some(0), "{compared:?}");
}

#[test]
fn a_damaged_trace_is_refused_by_name() {
    let desk = Desk::new();
    let made = desk.fidelity(&[
        "reference",
        "--prompt",
        "Once upon a time there was a dog",
        "--new-tokens",
        "4",
        "--out",
        "ref",
    ]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let compare = || desk.fidelity(&["compare", "ref", "ref"]);
    let file = desk.path("ref/prompts/0000.safetensors");
    let whole = fs::read(&file).expect("there");
    fs::write(&file, &whole[..whole.len() - 1]).expect("writes");
    let truncated = compare();
    assert_eq!(truncated.code, Some(2));
    assert!(truncated.stderr.contains("0000.safetensors: SHA-256 is"), "{}", truncated.stderr);

    let manifest = desk.path("ref/trace.json");
    let mut foreign = json(&manifest);
    foreign["prompts"][0]["sha256"] = serde_json::Value::Null;
    fs::write(&manifest, foreign.to_string()).expect("writes");
    assert!(compare().stderr.contains("not a whole safetensors file"));
    for (key, value, expected) in [
        ("version", 2.into(), "`version` is 2, this program reads version 1"),
        ("format", "other".into(), "`format` is `other`"),
        ("prompts", 7.into(), "is not a trace manifest"),
    ] {
        let mut bad = foreign.clone();
        bad[key] = value;
        fs::write(&manifest, bad.to_string()).expect("writes");
        let answer = compare();
        assert_eq!(answer.code, Some(2));
        assert!(answer.stderr.contains(expected), "{}", answer.stderr);
    }
    let mut outside = foreign;
    outside["prompts"][0]["file"] = "../../etc/passwd".into();
    fs::write(&manifest, outside.to_string()).expect("writes");
    assert!(compare().stderr.contains("expected a path inside the folder"));
    assert!(desk.fidelity(&["compare", "nowhere", "ref"]).stderr.contains("cannot read nowhere/trace.json"));
}

#[test]
fn other_prompts_under_the_same_ids_are_not_compared() {
    let desk = Desk::new();
    let text = |first: u32| {
        (0..16).map(|index| format!("{{\"id\":\"p{index}\",\"token_ids\":[0,{first},{index}]}}\n")).collect::<String>()
    };
    for (name, first) in [("one", 40), ("two", 41)] {
        let prompts = desk.write(&format!("{name}.jsonl"), &text(first));
        let made = desk.fidelity(&[
            "reference",
            "--prompts",
            prompts.to_str().expect("UTF-8"),
            "--new-tokens",
            "2",
            "--out",
            name,
        ]);
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    let compared = desk.fidelity(&["compare", "one", "two"]);
    assert_eq!(compared.code, Some(2), "16 rows of a shared first token are no evidence: {compared:?}");
    assert!(compared.stderr.contains("the traces have no prompt in common"), "{}", compared.stderr);
}

#[test]
fn a_trace_that_was_cut_short_is_no_pass() {
    let desk = Desk::new();
    let made = desk.fidelity(&["reference", "--out", "ref"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let copied = Command::new("cp").args(["-r", "ref", "cut"]).current_dir(desk.path("")).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let manifest = desk.path("cut/trace.json");
    let mut cut = json(&manifest);
    cut["complete"] = false.into();
    for prompt in cut["prompts"].as_array_mut().expect("a list").iter_mut().skip(1) {
        prompt["status"] = "skipped".into();
    }
    fs::write(&manifest, cut.to_string()).expect("writes");
    let compared = desk.fidelity(&["compare", "ref", "cut", "--quiet"]);
    assert_eq!(compared.code, Some(3), "{compared:?}");
    assert!(compared.stdout.contains("15 of 16 prompts were not computed"), "{}", compared.stdout);
}
