//! `run`, `report`, `list`.

use std::fs;

use serde_json::Value;

use crate::support::{Desk, PROMPTS, golden_checkpoint, json};

#[test]
fn the_demo_is_faithful_under_the_default_recipe() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["run", "--out", "out"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(
        answer.last_line().starts_with("faithful: emulator a16w8 · base: Pearson 0.9999"),
        "{}",
        answer.last_line()
    );
    assert!(answer.last_line().ends_with("report out/report.html"));
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "tables fit 80 columns");
    assert_eq!(answer.stderr, "", "no progress when piped");
    for file in ["verdict.json", "run.json", "positions.csv", "layers.csv", "report.html"] {
        assert!(desk.path("out").join(file).is_file(), "{file}");
    }
    schema(&json(&desk.path("out/verdict.json")));
}

/// What others may rely on in verdict.json.
fn schema(verdict: &Value) {
    assert_eq!((&verdict["format"], &verdict["version"]), (&Value::from("fidelity-verdict"), &Value::from(1)));
    assert_eq!(verdict["checkpoint"]["name"], "demo");
    assert_eq!(
        (&verdict["arms"]["reference"]["kind"], &verdict["arms"]["device"]["kind"]),
        (&"reference".into(), &"emulator".into())
    );
    assert_eq!((&verdict["verdict"], &verdict["exit_code"]), (&"faithful".into(), &0.into()));
    for scope in ["base", "prefill", "tbt", "tbt_self"] {
        let scope = &verdict["scopes"][scope];
        assert!(scope["verdict"].is_string() && scope["first_bad_site"].is_null());
        assert!(scope["coverage"]["rows_compared"].as_u64().is_some_and(|rows| rows > 100));
        let logits = &scope["sites"]["logits"];
        for metric in ["cosine", "pearson", "relative_l2", "nmse", "sqnr_db", "max_abs", "kl"] {
            for key in ["mean", "min", "max", "p05", "p50", "p95"] {
                assert!(logits[metric][key].is_number(), "{metric}.{key}");
            }
            assert_eq!(logits[metric]["interval"].as_array().map(Vec::len), Some(2), "{metric}");
        }
        for rate in ["top1", "top5"] {
            for key in ["agree", "ties", "flips", "n", "rate", "rate_strict"] {
                assert!(logits[rate][key].is_number(), "{rate}.{key}");
            }
        }
        assert!(scope["sites"]["blocks.0.resid_mid"]["rows"].is_number());
    }
    let generated = &verdict["generated"];
    assert_eq!(generated["degenerate"], false);
    assert_eq!(generated["reference_ids"].as_array().map(Vec::len), Some(16));
    assert!(verdict["noise_floor"]["logits"].as_f64().is_some_and(|noise| noise > 0.0 && noise < 1e-4));
}

#[test]
fn an_injected_fault_is_broken_from_its_block_on() {
    let desk = Desk::new();
    for (fault, site) in [("softmax_across_heads", "blocks.0.resid_mid"), ("gqa_tile@1", "blocks.1.resid_mid")] {
        let answer = desk.fidelity(&["run", "--fault", fault, "--no-diagnosis", "--json"]);
        assert_eq!(answer.code, Some(1));
        let verdict: Value = serde_json::from_str(&answer.stdout).expect("nothing but verdict.json");
        assert_eq!(verdict["scopes"]["base"]["first_bad_site"], site);
        assert_eq!(verdict["arms"]["device"]["deviations"][1]["kind"], "intervention");
    }
}

#[test]
fn every_fault_turns_the_demo_red_and_its_absence_leaves_it_green() {
    let desk = Desk::new();
    for fault in ["softmax_across_heads", "gqa_tile", "rope_interleaved", "mask_repeated"] {
        let answer = desk.fidelity(&[
            "run",
            "--recipe",
            "none",
            "--scopes",
            "base,prefill,tbt",
            "--fault",
            fault,
            "--no-diagnosis",
            "--quiet",
        ]);
        assert_eq!(answer.code, Some(1), "{fault}: {answer:?}");
        assert!(
            answer.stdout.contains("first bad site blocks.0.resid_mid") && answer.stdout.contains(fault),
            "{answer:?}"
        );
    }
    let clean = desk.fidelity(&["run", "--recipe", "none", "--scopes", "base,prefill,tbt", "--quiet"]);
    assert_eq!(clean.code, Some(0));
    assert_eq!(clean.stdout.lines().count(), 1, "quiet prints one line");
}

#[test]
fn verdict_json_is_reproducible_byte_for_byte_and_survives_a_cut_run() {
    let desk = Desk::new();
    let prompts = desk.write("p.jsonl", PROMPTS);
    let golden = golden_checkpoint();
    let arguments = |out| {
        let (golden, prompts) = (golden.to_str().expect("UTF-8"), prompts.to_str().expect("UTF-8"));
        let calibration = ["--calibration", prompts];
        [&["run", "--weights", golden, "--prompts", prompts, "--new-tokens", "12", "--out", out][..], &calibration[..]]
            .concat()
    };
    let one = desk.fidelity(&arguments("one"));
    assert!(matches!(one.code, Some(0 | 1)), "{one:?}");
    let whole = fs::read(desk.path("one/verdict.json")).expect("there");

    // As if the run had been killed after the arm's first prompt.
    let manifest = desk.path("one/arm/trace.json");
    let mut cut = json(&manifest);
    cut["complete"] = false.into();
    cut["prompts"][1]["status"] = "skipped".into();
    fs::write(&manifest, cut.to_string()).expect("writes");
    fs::remove_file(desk.path("one/arm/prompts/0001.safetensors")).expect("there");
    fs::remove_file(desk.path("one/verdict.json")).expect("there");

    let refused = desk.fidelity(&arguments("one"));
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("already holds a trace; choose another folder with --out, or continue it with --resume")
    );
    let resumed = desk.fidelity(&[&arguments("one")[..], &["--resume"]].concat());
    assert_eq!(resumed.code, one.code);
    assert!(fs::read(desk.path("one/verdict.json")).expect("there") == whole, "resumed as if unbroken");
    let two = desk.fidelity(&arguments("two"));
    assert_eq!(two.code, one.code);
    assert!(fs::read(desk.path("two/verdict.json")).expect("there") == whole, "the same inputs, the same bytes");

    let other = desk.fidelity(&[&arguments("one")[..], &["--resume", "--taps", "all"]].concat());
    assert_eq!(other.code, Some(2));
    assert!(
        other.stderr.contains("settings (scopes, taps, new tokens or the ids it is fed) differ"),
        "{}",
        other.stderr
    );
}

#[test]
fn a_report_is_made_again_from_verdict_json_alone() {
    let desk = Desk::new();
    let run = desk.fidelity(&["run", "--out", "out", "--discard-traces", "--quiet"]);
    assert_eq!(run.code, Some(0));
    assert!(!desk.path("out/reference").exists() && !desk.path("out/arm").exists());
    let before = fs::read(desk.path("out/layers.csv")).expect("there");
    fs::remove_file(desk.path("out/layers.csv")).expect("there");
    fs::remove_file(desk.path("out/report.html")).expect("there");
    let report = desk.fidelity(&["report", "out"]);
    assert_eq!(report.code, Some(0));
    assert!(report.last_line().starts_with("faithful: emulator a16w8"));
    assert!(fs::read(desk.path("out/layers.csv")).expect("there") == before);
    assert!(fs::read_to_string(desk.path("out/report.html")).expect("there").contains("</html>"));
}

#[test]
fn a_single_short_prompt_decides_nothing() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["run", "--prompt", "Once upon a time", "--new-tokens", "4", "--quiet"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.stdout.starts_with("inconclusive: emulator a16w8 · base: only"), "{}", answer.stdout);
}

#[test]
fn list_shows_every_checkpoint_and_what_is_known() {
    let desk = Desk::new();
    let list = desk.fidelity(&["list"]);
    assert_eq!(list.code, Some(0));
    assert!(list.stdout.contains("tinystories-25m") && list.stdout.lines().all(|line| line.chars().count() <= 80));
    let row = desk.fidelity(&["list", "nanolm-25m"]);
    assert!(row.stdout.contains("Pearson 0.52"), "{}", row.stdout);
}

#[test]
fn files_in_the_working_directory_take_the_place_of_what_is_built_in() {
    let desk = Desk::new();
    desk.write("recipes/a16w8.alls", "quantization_param({*}, precision_mode=a8_w4)\n");
    desk.write(
        "checkpoints.toml",
        "[mine]\nsource = 'embedded:demo'\nprompts = 'demo'\ncalibration = 'demo-calibration'\nexpect = ['degraded']\n",
    );
    let answer = desk.fidelity(&["run", "--checkpoint", "mine", "--no-diagnosis", "--json"]);
    let verdict: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    assert_eq!(verdict["arms"]["device"]["detail"]["precision"], "a8_w4");
    assert_eq!((&verdict["verdict"], answer.code), (&"degraded".into(), Some(0)), "expected, so it passes");
}
