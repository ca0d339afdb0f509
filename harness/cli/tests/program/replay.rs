//! `--device replay=TRACE`: a stored trace in the place of the device.

use std::{fs, process::Command};

use serde_json::Value;

use crate::support::{Answer, Desk, PROMPTS, json};

/// A desk with the trace of an emulated arm in `arm`, recorded against `ref`.
fn recorded(fault: &[&str], more: &[&str]) -> Desk {
    let desk = Desk::new();
    let prompts = ["--prompts", "p.jsonl", "--new-tokens", "12"];
    desk.write("p.jsonl", PROMPTS);
    let made = desk.fidelity(&[&["reference", "--out", "ref"][..], &prompts, more].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    let arm = ["record", "--reference", "ref", "--recipe", "none", "--new-tokens", "12", "--out", "arm"];
    let made = desk.fidelity(&[&arm[..], fault, more].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    desk
}

fn verdict(answer: &Answer) -> Value {
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// Changes the manifest of `arm`.
fn edit(desk: &Desk, change: impl FnOnce(&mut Value)) {
    let path = desk.path("arm/trace.json");
    let mut manifest = json(&path);
    change(&mut manifest);
    fs::write(path, manifest.to_string()).expect("writes");
}

const REPLAY: [&str; 4] = ["run", "--device", "replay=one/arm", "--no-diagnosis"];

#[test]
fn a_replay_concludes_what_the_run_did_and_says_what_it_is() {
    let desk = Desk::new();
    let run = desk.fidelity(&["run", "--fault", "gqa_tile@2", "--no-diagnosis", "--out", "one", "--quiet"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let replay = desk.fidelity(&[&REPLAY[..], &["--out", "two", "--discard-traces", "--quiet"]].concat());
    assert_eq!(replay.code, Some(1), "{replay:?}");
    let said = "broken: replay of emulator a16w8, fault injected on purpose: gqa_tile in block 2 · ";
    assert!(replay.stdout.starts_with(said), "{}", replay.stdout);
    let (mut one, mut two) = (json(&desk.path("one/verdict.json")), json(&desk.path("two/verdict.json")));
    assert_eq!(two["arms"]["device"]["kind"], "replay");
    for verdict in [&mut one, &mut two] {
        verdict["arms"]["device"]["kind"].take();
        verdict["arms"]["device"]["name"].take();
    }
    assert_eq!(one, two);
    assert!(desk.path("one/arm/trace.json").is_file(), "what was replayed is not ours to delete");
    assert!(!desk.path("two/reference").exists());
    let again = desk.fidelity(&REPLAY);
    assert!(again.stderr.contains("reference taken from the cache"), "{}", again.stderr);
}

#[test]
fn the_trace_decides_what_the_reference_computes() {
    let desk = recorded(&[], &["--taps", "blocks.1.q,logits"]);
    let whole = desk.fidelity(&["run", "--device", "replay=arm", "--json"]);
    assert_eq!(whole.code, Some(0), "{whole:?}");
    let whole = verdict(&whole);
    let ids = |verdict: &Value| {
        verdict["prompts"].as_array().expect("a list").iter().map(|it| it["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&whole), ["a", "b"]);
    let sites: Vec<_> = whole["scopes"]["base"]["sites"].as_object().expect("an object").keys().collect();
    assert_eq!(sites, ["blocks.1.q", "logits"]);
    assert_eq!(whole["generated"]["reference_ids"][0].as_array().map(Vec::len), Some(12));
    assert_eq!(whole["scopes"]["tbt"]["coverage"]["rows_missing"], 0);
    let part = verdict(&desk.fidelity(&["run", "--device", "replay=arm", "--scopes", "base", "--json"]));
    let scopes: Vec<_> = part["scopes"].as_object().expect("an object").keys().collect();
    assert_eq!(scopes, ["base"]);
    assert_eq!(part["verdict"], "faithful");
    assert_eq!(part["generated"], Value::Null);
}

#[test]
fn prompts_given_beside_a_trace_meet_only_with_equal_tokens() {
    let desk = recorded(&[], &[]);
    desk.write("one.jsonl", PROMPTS.lines().next().expect("a prompt"));
    let one = desk.fidelity(&["run", "--device", "replay=arm", "--prompts", "one.jsonl", "--json"]);
    let one = verdict(&one);
    assert_eq!(one["prompts"].as_array().map(Vec::len), Some(1));
    assert!(one["notes"].to_string().contains("1 prompts of the arm are not in the reference"), "{}", one["notes"]);
    desk.write("other.jsonl", "{\"id\":\"a\",\"token_ids\":[9,9,9]}\n");
    let other = desk.fidelity(&["run", "--device", "replay=arm", "--prompts", "other.jsonl"]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.stderr.contains("no prompt in common"), "{}", other.stderr);
}

#[test]
fn what_does_not_go_with_a_stored_trace_is_refused_never_ignored() {
    let desk = recorded(&[], &["--scopes", "base"]);
    fs::create_dir(desk.path("x")).expect("creates");
    let copied = Command::new("cp").args(["-r", "ref", "x/reference"]).current_dir(desk.path("")).status();
    assert!(copied.is_ok_and(|status| status.success()));
    for (arguments, says) in [
        (&["run", "--device", "replay"][..], "names no trace; write replay=TRACE"),
        (&["run", "--device", "replay="], "names no trace; write replay=TRACE"),
        (&["run", "--device", "replay=nowhere"], "cannot read nowhere/trace.json"),
        (&["run", "--device", "replay=arm", "--recipe", "none"], "--recipe none does not go with --device replay"),
        (&["run", "--device", "replay=arm", "--fault", "gqa_tile"], "--fault does not go with --device replay"),
        (&["run", "--device", "replay=arm", "--calibration", "demo"], "--calibration without --recipe does not go"),
        (&["record", "--device", "replay=arm"], "nothing to record: arm is a trace already"),
        (&["run", "--device", "replay=arm", "--scopes", "base,tbt"], "--scopes asks for tbt, but it holds base"),
        (&["run", "--device", "replay=x/reference", "--out", "x"], "the reference would be written over it"),
    ] {
        let answer = desk.fidelity(arguments);
        assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(says), "{arguments:?}: {}", answer.stderr);
        assert_eq!(answer.stdout, "");
    }
    assert!(!desk.path("runs").exists());
}

#[test]
fn a_trace_of_another_checkpoint_is_refused_or_said() {
    let desk = recorded(&[], &[]);
    edit(&desk, |manifest| manifest["checkpoint"]["source"] = "hub:other/one".into());
    let said = verdict(&desk.fidelity(&["run", "--device", "replay=arm", "--json"]));
    assert!(
        said["notes"].to_string().contains("the replayed trace says it is of checkpoint demo (hub:other/one)"),
        "{said}"
    );
    let golden = crate::support::golden_checkpoint();
    let other = desk.fidelity(&["run", "--device", "replay=arm", "--weights", golden.to_str().expect("UTF-8")]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(
        other.stderr.contains("it holds blocks.") && other.stderr.contains("but the checkpoint has"),
        "{}",
        other.stderr
    );
}

#[test]
fn a_row_of_checkpoints_toml_applies_only_where_name_and_source_agree() {
    let desk = recorded(&["--fault", "gqa_tile"], &["--scopes", "base"]);
    desk.write(
        "checkpoints.toml",
        "[demo]\nsource = 'embedded:demo'\nprompts = 'demo'\nexpect = ['broken', 'degraded']\n",
    );
    let own = desk.fidelity(&["run", "--device", "replay=arm", "--no-diagnosis", "--json"]);
    assert_eq!(own.code, Some(0), "{own:?}");
    edit(&desk, |manifest| manifest["checkpoint"] = serde_json::json!({"name": "demo"}));
    let foreign = desk.fidelity(&["run", "--device", "replay=arm", "--no-diagnosis", "--json"]);
    assert_eq!(foreign.code, Some(1), "{foreign:?}");
    let notes = verdict(&foreign)["notes"].to_string();
    assert!(notes.contains("expectations of `demo` in checkpoints.toml were not applied"), "{notes}");
}

#[test]
fn a_prompt_without_tokens_is_refused() {
    let desk = recorded(&[], &["--scopes", "base"]);
    edit(&desk, |manifest| manifest["prompts"][0]["token_ids"] = Value::Array(Vec::new()));
    let empty = desk.fidelity(&["run", "--device", "replay=arm"]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
    assert!(empty.stderr.contains("prompt `a` has no tokens"), "{}", empty.stderr);
}

#[test]
fn steps_that_the_reference_does_not_reach_are_said() {
    let desk = recorded(&[], &[]);
    let short = desk.fidelity(&["run", "--device", "replay=arm", "--new-tokens", "4", "--json"]);
    let short = verdict(&short);
    assert_eq!(short["scopes"]["tbt"]["coverage"]["rows_compared"], 6);
    assert!(
        short["notes"].to_string().contains("the reference generated 4: later steps were not compared"),
        "{}",
        short["notes"]
    );
}

#[test]
fn a_trace_in_which_nothing_was_computed_is_no_pass() {
    let desk = recorded(&[], &["--scopes", "base"]);
    edit(&desk, |manifest| {
        for prompt in manifest["prompts"].as_array_mut().expect("a list") {
            prompt["status"] = "failed".into();
            prompt["error"] = "the device hung".into();
        }
    });
    let failed = desk.fidelity(&["run", "--device", "replay=arm"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(failed.stderr.contains("the first failed with: the device hung"), "{}", failed.stderr);
    edit(&desk, |manifest| manifest["prompts"][0]["status"] = "ok".into());
    let half = desk.fidelity(&["run", "--device", "replay=arm", "--quiet"]);
    assert!(matches!(half.code, Some(3 | 4)), "{half:?}");
    edit(&desk, |manifest| manifest["prompts"] = Value::Array(Vec::new()));
    let empty = desk.fidelity(&["run", "--device", "replay=arm"]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
    assert!(empty.stderr.contains("no prompt in it was computed"), "{}", empty.stderr);
}

#[test]
fn an_emulator_beside_a_device_says_whose_the_error_is() {
    let desk = recorded(&[], &["--scopes", "base"]);
    for (out, fault) in [("like", &[][..]), ("unlike", &["--fault", "gqa_tile@2"])] {
        let record = ["record", "--reference", "ref", "--recipe", "a8w8", "--scopes", "base", "--out", out];
        assert_eq!(desk.fidelity(&[&record, fault].concat()).code, Some(0));
    }
    let beside = |trace: &str, out: &str| {
        let run = ["run", "--device", trace, "--recipe", "a8w8", "--scopes", "base", "--out", out];
        verdict(&desk.fidelity(&[&run[..], &["--no-diagnosis", "--json"]].concat()))
    };
    let sentence = |verdict: &Value| verdict["attribution"]["sentence"].as_str().expect("text").to_owned();

    let like = beside("replay=like", "one");
    let base = &like["attribution"]["scopes"]["base"];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{like:#}"));
    assert!(number(&base["excess"]).abs() < 1e-12 && number(&base["implementation"]) > 0.999_999, "{base}");
    assert!(sentence(&like).starts_with("the recipe alone predicts Pearson 0."), "{}", sentence(&like));
    assert!(sentence(&like).contains(": the device adds nothing measurable"), "{}", sentence(&like));
    assert!(like["notes"].to_string().contains("attribution: the recipe alone predicts"));
    assert!(desk.path("one/emulator/trace.json").exists());

    let unlike = sentence(&beside("replay=unlike", "two"));
    assert!(unlike.contains("toolchain, host or silicon take another"), "{unlike}");
    let plain =
        verdict(&desk.fidelity(&["run", "--device", "replay=like", "--scopes", "base", "--no-diagnosis", "--json"]));
    assert!(plain["attribution"].is_null());
}
