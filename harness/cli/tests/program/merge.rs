//! Shards of prompts and of a matrix, and what they are together.

use std::fs;

use crate::support::{Desk, PROMPTS, golden_checkpoint, json};

/// A run of all prompts and the same in shards, joined: the same verdict, byte for byte.
fn same_in_shards(desk: &Desk, arguments: &[&str], of: usize, code: i32) {
    let with = |more: &[&str]| desk.fidelity(&[&["run"], arguments, more].concat());
    let whole = with(&["--out", "whole"]);
    assert_eq!(whole.code, Some(code), "{whole:?}");
    let folders: Vec<String> = (1..=of).map(|index| format!("part{index}")).collect();
    for (index, folder) in folders.iter().enumerate() {
        let shard = format!("{}/{of}", index + 1);
        // A cached reference of all prompts is none of a part.
        let answer = with(&["--shard", &shard, "--out", folder]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(answer.last_line().starts_with(&format!("shard {shard} ")), "{}", answer.last_line());
        assert!(answer.last_line().contains("not judged"), "{}", answer.last_line());
        assert!(!desk.path(folder).join("verdict.json").exists(), "a part has no verdict");
    }
    // In any order.
    let reversed: Vec<&str> = folders.iter().rev().map(String::as_str).collect();
    let merged = desk.fidelity(&[&["merge", "--out", "joined"], &reversed[..]].concat());
    assert_eq!(merged.code, Some(code), "{merged:?}");
    let bytes = |folder: &str, file: &str| fs::read(desk.path(folder).join(file)).expect("there");
    assert!(bytes("whole", "verdict.json") == bytes("joined", "verdict.json"), "the verdicts differ");
    for trace in ["reference", "arm"] {
        let manifest = |folder: &str| {
            let mut manifest = json(&desk.path(folder).join(trace).join("trace.json"));
            // Counts of prompts that were computed together stand at the first of them.
            for prompt in manifest["prompts"].as_array_mut().expect("prompts") {
                prompt.as_object_mut().expect("an object").remove("outside_range");
            }
            manifest
        };
        assert_eq!(manifest("whole"), manifest("joined"), "{trace}");
    }
}

#[test]
fn shards_of_a_faithful_run_are_together_what_the_run_is() {
    same_in_shards(&Desk::new(), &["--new-tokens", "6"], 3, 0);
}

#[test]
fn a_diagnosis_is_of_all_shards() {
    let desk = Desk::new();
    same_in_shards(&desk, &["--recipe", "a8w8", "--fault", "mask_repeated", "--new-tokens", "6"], 2, 1);
    assert!(json(&desk.path("joined/verdict.json"))["diagnosis"].is_object());
}

#[test]
fn empty_shards_are_said_and_need_not_be_there() {
    let desk = Desk::new();
    let prompts = desk.write("prompts.txt", "The king said nothing.\nIt rained all day long.\n");
    let run = ["run", "--prompts", prompts.to_str().expect("UTF-8"), "--new-tokens", "4", "--no-diagnosis"];
    for index in 1..=3 {
        let (shard, out) = (format!("{index}/3"), format!("part{index}"));
        let answer = desk.fidelity(&[&run[..], &["--shard", &shard, "--out", &out]].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(answer.stdout.contains("shard 3/3 is empty: there are 2 prompts"), index == 3, "{answer:?}");
    }
    let whole = desk.fidelity(&[&run[..], &["--out", "whole"]].concat());
    for (out, parts) in [("all", &["part1", "part2", "part3"][..]), ("needed", &["part1", "part2"])] {
        let answer = desk.fidelity(&[&["merge", "--out", out], parts].concat());
        assert_eq!(answer.code, whole.code, "{answer:?}");
    }
}

#[test]
fn what_is_missing_is_never_a_pass() {
    let desk = Desk::new();
    let run = ["run", "--new-tokens", "4", "--scopes", "base"];
    for index in [1, 3] {
        let (shard, out) = (format!("{index}/4"), format!("part{index}"));
        assert_eq!(desk.fidelity(&[&run[..], &["--shard", &shard, "--out", &out]].concat()).code, Some(0));
    }
    let answer = desk.fidelity(&["merge", "part1", "part3", "--out", "joined"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.stderr.contains("of 4 shards 2/4, 4/4 are not there"), "{}", answer.stderr);
    assert!(!desk.path("joined/verdict.json").exists());
    let twice = desk.fidelity(&["merge", "part1", "part1", "part3", "--out", "joined"]);
    assert!(twice.code == Some(2) && twice.stderr.contains("are both shard 1/4"), "{twice:?}");
}

#[test]
fn shards_of_other_work_are_refused() {
    let desk = Desk::new();
    let shard = |index: &str, more: &[&str], out: &str| {
        let run = ["run", "--new-tokens", "4", "--scopes", "base", "--shard", index, "--out", out];
        assert_eq!(desk.fidelity(&[&run, more].concat()).code, Some(0));
    };
    shard("1/2", &[], "one");
    let refused = |other: &str, what: &str| {
        let answer = desk.fidelity(&["merge", "one", other, "--out", "joined"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(what), "{}", answer.stderr);
    };
    shard("2/2", &["--recipe", "a8w8"], "recipe");
    refused("recipe", "recipe, calibration, faults");
    shard("2/2", &["--prompt", "Once", "--prompt", "there was"], "prompts");
    refused("prompts", "prompts differ");
    shard("2/3", &[], "number");
    refused("number", "the number of shards");
    fs::create_dir(desk.path("empty")).expect("creates");
    refused("empty", "no shard.json in it");
    shard("2/2", &[], "two");
    let path = desk.path("two/shard.json");
    fs::write(&path, fs::read_to_string(&path).expect("there").replace("\"version\":1", "\"version\":9"))
        .expect("writes");
    refused("two", "version 1");
    fs::write(&path, "{").expect("writes");
    refused("two", "shard.json");
}

#[test]
fn a_shard_that_was_tampered_with_is_told() {
    let desk = Desk::new();
    for index in ["1/2", "2/2"] {
        let out = &index[..1];
        let run = ["run", "--new-tokens", "4", "--scopes", "base", "--shard", index, "--out", out];
        assert_eq!(desk.fidelity(&run).code, Some(0));
    }
    let path = desk.path("2/arm/trace.json");
    let text = fs::read_to_string(&path).expect("there");
    fs::write(&path, text.replace("\"complete\": true", "\"complete\": false")).expect("writes");
    let answer = desk.fidelity(&["merge", "1", "2", "--out", "a"]);
    assert!(answer.code == Some(2) && answer.stderr.contains("cut short"), "{answer:?}");
    fs::write(&path, text).expect("writes");
    let file = desk.path("2/arm/prompts/0001.safetensors");
    let mut bytes = fs::read(&file).expect("there");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&file, bytes).expect("writes");
    let answer = desk.fidelity(&["merge", "1", "2", "--out", "b"]);
    assert!(answer.code == Some(2) && answer.stderr.contains("SHA-256"), "{answer:?}");
}

#[test]
fn recordings_are_joined_too() {
    let desk = Desk::new();
    let weights = golden_checkpoint().display().to_string();
    let prompts = desk.write("prompts.jsonl", PROMPTS);
    let record = ["record", "--weights", &weights, "--prompts", prompts.to_str().expect("UTF-8"), "--recipe", "none"];
    let record = [&record[..], &["--new-tokens", "4"]].concat();
    assert_eq!(desk.fidelity(&[&record[..], &["--out", "whole"]].concat()).code, Some(0));
    for index in ["1/2", "2/2"] {
        let answer = desk.fidelity(&[&record[..], &["--shard", index, "--out", &index[..1]]].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
    let answer = desk.fidelity(&["merge", "2", "1", "--out", "joined"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(json(&desk.path("whole/trace.json")), json(&desk.path("joined/trace.json")));
    for file in ["prompts/0000.safetensors", "prompts/0001.safetensors"] {
        let bytes = |folder: &str| fs::read(desk.path(folder).join(file)).expect("there");
        assert!(bytes("whole") == bytes("joined"), "{file}");
    }
}

#[test]
fn a_shard_is_one_that_there_is() {
    let desk = Desk::new();
    for wrong in ["0/2", "3/2", "1/0", "x", "1", "-1/2", "1/2/3"] {
        let shard = format!("--shard={wrong}");
        let answer = desk.fidelity(&["run", &shard]);
        assert_eq!(answer.code, Some(2), "{wrong}");
        assert!(answer.stderr.contains("--shard"), "{}", answer.stderr);
    }
    assert_eq!(desk.fidelity(&["run", "--prompt", "Once", "--scopes", "base", "--out", "t"]).code, Some(3));
    let answer = desk.fidelity(&["run", "--device", "replay=t/arm", "--shard", "1/2"]);
    assert!(answer.code == Some(2) && answer.stderr.contains("a stored trace"), "{answer:?}");
}
