//! What the chip computes wrongly is no pass.

use fidelity_mock_soc::{Fault, HefOptions};

use crate::{Bench, prompts};

/// The worst verdict, and that of each scope.
#[track_caller]
fn judged(fault: Fault, scopes: &[(&str, &str)]) {
    let bench = Bench::at_fault(&HefOptions::precise(8, 48), fault);
    bench.desk.write("prompts.jsonl", &prompts(&[17, 21, 30, 40]));
    let verdict = bench
        .verdict(&["--prompts", "prompts.jsonl", "--prefill-rows", "6", "--new-tokens", "24", "--no-diagnosis"], 1);
    for (scope, expected) in scopes {
        assert_eq!(&verdict["scopes"][scope]["verdict"], expected, "{fault:?} {scope}: {}", verdict["reason"]);
    }
}

#[test]
fn a_cache_that_tbt_reads_otherwise_shows_in_tbt_alone() {
    judged(Fault::CacheLayout, &[("prefill", "faithful"), ("tbt", "broken"), ("tbt_self", "faithful")]);
}

#[test]
fn a_ring_that_does_not_move_is_broken() {
    judged(Fault::OffsetNotAdvanced, &[("prefill", "broken"), ("tbt", "broken"), ("tbt_self", "faithful")]);
}

#[test]
fn a_ring_that_wraps_wrongly_is_not_faithful_past_its_end() {
    judged(Fault::RingWrap, &[("prefill", "faithful")]);
}

#[test]
fn an_inverted_mask_is_broken() {
    judged(Fault::MaskInverted, &[("prefill", "broken"), ("tbt", "broken")]);
}

#[test]
fn a_wrong_sign_of_theta_is_broken() {
    judged(Fault::ThetaSign, &[("prefill", "broken"), ("tbt", "broken")]);
}

#[test]
fn tables_tiled_twice_are_broken() {
    judged(Fault::RopeTiledTwice, &[("prefill", "broken"), ("tbt", "broken")]);
}

#[test]
fn shards_in_another_order_are_broken() {
    judged(Fault::ShardsSwapped, &[("prefill", "broken"), ("tbt", "broken"), ("tbt_self", "broken")]);
}

#[test]
fn what_the_chip_computes_wrongly_is_named_or_said_to_be_unexplained() {
    // A ring that goes round, and angles that the host already tiled, are not modelled: then nothing may be named wrongly.
    let names = [
        (Fault::ThetaSign, &["rope_sign", "unexplained"][..]),
        (Fault::ShardsSwapped, &["shards_swapped"]),
        (Fault::CacheLayout, &["kv_layout", "unexplained"]),
        (Fault::RopeTiledTwice, &["rope_table_tiled_twice", "unexplained"]),
    ];
    for (fault, names) in names {
        let bench = Bench::at_fault(&HefOptions::precise(8, 48), fault);
        bench.desk.write("prompts.jsonl", &prompts(&[17, 21, 30, 40]));
        let verdict = bench.verdict(&["--prompts", "prompts.jsonl", "--prefill-rows", "6", "--new-tokens", "24"], 1);
        let diagnosis = &verdict["diagnosis"];
        assert!(names.iter().any(|name| diagnosis["name"] == *name), "{fault:?}: {diagnosis:#}");
    }
}

#[test]
fn a_device_is_run_again_within_its_budget() {
    // A fault that no entry of the bank models: the device is asked until the budget is spent, and nothing is named wrongly.
    let bench = Bench::at_fault(&HefOptions::precise(8, 48), Fault::RopeTiledTwice);
    bench.desk.write("prompts.jsonl", &prompts(&[17, 21, 30]));
    let rows = ["--prefill-rows", "6"];
    bench.verdict(&[&["--prompts", "prompts.jsonl", "--new-tokens", "8", "--no-diagnosis"], &rows[..]].concat(), 1);
    let address = bench.address();
    let again = ["diagnose", "out/arm", "--device", "hailo", "--hef", "demo.hef", "--device-id", &address];
    let answer = bench.desk.fidelity(&[&again[..], &rows, &["--budget", "60", "--json"]].concat());
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let verdict: serde_json::Value = serde_json::from_str(&answer.stdout).expect("verdict.json");
    let diagnosis = &verdict["diagnosis"];
    assert!(["rope_table_tiled_twice", "unexplained"].iter().any(|name| diagnosis["name"] == *name), "{diagnosis:#}");
    let probes = diagnosis["probes"].as_array().expect("the device was run again");
    let found = probes[0]["found"].as_str().expect("a sentence");
    assert!(probes[0]["kind"] == "repeat" && found.contains("computes the same"), "{found}");
    let spent: u64 = probes.iter().map(|probe| probe["device_steps"].as_u64().expect("a number")).sum();
    assert!(probes.len() > 2 && spent <= 60, "{probes:#?}");
}
