//! A chip without fault is faithful, however the file was compiled and however long prompts are.

use fidelity_mock_soc::{Groups, HefOptions, InputOrder, MaskConvention, Rotation};

use crate::{Bench, pearson, prompts, support::json};

const CLOSE: f64 = 0.9999;

#[test]
fn every_scope_of_the_demo_is_faithful() {
    let bench = Bench::new(&HefOptions::precise(24, 256));
    let verdict = bench.verdict(&[], 0);
    assert_eq!(verdict["verdict"], "faithful");
    assert_eq!(verdict["arms"]["device"]["kind"], "hailo");
    for scope in ["prefill", "tbt", "tbt_self"] {
        assert!(pearson(&verdict, scope) >= CLOSE, "{scope}");
    }
    assert_eq!(verdict["scopes"]["prefill"]["coverage"]["rows_compared"], 16);
    let detail = &verdict["arms"]["device"]["detail"];
    assert_eq!(
        (&detail["architecture"], &detail["hailort"], &detail["audit"]),
        (&"HAILO10H".into(), &"5.2.0".into(), &"pass".into())
    );
}

#[test]
fn a_file_without_caches_is_faithful_in_base() {
    let bench = Bench::new(&HefOptions { logits_range: Some([-40.0, 40.0]), ..HefOptions::base(128) });
    let verdict = bench.verdict(&[], 0);
    assert_eq!(verdict["verdict"], "faithful");
    assert!(pearson(&verdict, "base") >= CLOSE);
    assert_eq!(verdict["scopes"].as_object().map(|scopes| scopes.len()), Some(1));
}

/// Shorter than a chunk, equal, longer, no multiple of it; and past the end of the ring while generating.
#[test]
fn prompts_of_any_length_are_faithful_past_a_wrap_too() {
    let bench = Bench::new(&HefOptions { logits_range: Some([-40.0, 40.0]), ..HefOptions::precise(8, 48) });
    bench.desk.write("lengths.jsonl", &prompts(&[1, 3, 7, 8, 9, 16, 21, 40, 47]));
    let verdict = bench.verdict(&["--prompts", "lengths.jsonl", "--prefill-rows", "all", "--new-tokens", "24"], 0);
    assert_eq!(verdict["verdict"], "faithful");
    for scope in ["prefill", "tbt", "tbt_self"] {
        assert!(pearson(&verdict, scope) >= CLOSE, "{scope}");
    }
    assert_eq!(verdict["scopes"]["prefill"]["coverage"]["rows_compared"], 1 + 3 + 7 + 8 + 9 + 16 + 21 + 40 + 47);
    let notes = verdict["notes"].to_string();
    assert!(notes.contains("past the 48 entries of the device's KV-cache"), "{notes}");
    let reference = json(&bench.desk.path("out/reference/trace.json"));
    assert_eq!(reference["settings"]["keys"], 48);
}

#[test]
fn other_conventions_of_files_are_faithful_too() {
    let precise = HefOptions { logits_range: Some([-40.0, 40.0]), ..HefOptions::precise(8, 64) };
    let others = HefOptions {
        mask: MaskConvention::Added,
        inputs: InputOrder::KeysFirst,
        rotation: Rotation::SignInGraph,
        shards: 1,
        ..precise.clone()
    };
    let prefill_alone = HefOptions { groups: Groups::Prefill, ..precise };
    for (name, hef) in [("others", others), ("prefill alone", prefill_alone)] {
        let verdict =
            Bench::new(&hef).verdict(&["--prompts", "quick.jsonl", "--new-tokens", "16", "--prefill-rows", "all"], 0);
        assert_eq!(verdict["verdict"], "faithful", "{name}");
        assert!(pearson(&verdict, "prefill") >= CLOSE, "{name}");
    }
}

/// Logits of 8 bits lie on a grid, which the trace states, so that equal logits are ties.
#[test]
fn the_grid_of_official_logits_is_known() {
    let bench = Bench::new(&HefOptions::official(24, 256));
    let verdict = bench.verdict(&["--scopes", "prefill,tbt"], 0);
    let steps = verdict["arms"]["device"]["logits_step"].as_array().expect("a step a shard").clone();
    assert_eq!(steps.len(), 4);
    assert!(steps.iter().all(|step| step.as_f64().is_some_and(|step| step > 0.01)), "{steps:?}");
    let top1 = &verdict["scopes"]["tbt"]["sites"]["logits"]["top1"];
    assert!(top1["ties"].as_u64().is_some_and(|ties| ties > 0), "{top1}");
}

#[test]
fn a_recorded_trace_compares_as_a_run_does() {
    let bench = Bench::new(&HefOptions::precise(4, 64));
    let run = bench.verdict(&crate::QUICK, 0);
    let address = bench.address();
    let recorded = bench.desk.fidelity(&[
        "record",
        "--device",
        "hailo",
        "--hef",
        "demo.hef",
        "--device-id",
        &address,
        "--reference",
        "out/reference",
        "--new-tokens",
        "12",
        "--scopes",
        "prefill,tbt",
        "--prefill-rows",
        "all",
        "--out",
        "arm",
    ]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let compared = bench.desk.fidelity(&["compare", "out/reference", "arm", "--json"]);
    let compared: serde_json::Value = serde_json::from_str(&compared.stdout).expect("a verdict");
    assert_eq!(compared["scopes"], run["scopes"]);
}

/// The emulator of the recipe beside the device says whose the distance is.
#[test]
fn a_recipe_beside_the_device_splits_the_distance() {
    let bench = Bench::new(&HefOptions::precise(4, 64));
    let verdict = bench.verdict(&[&crate::QUICK[..], &["--recipe", "a8w8"]].concat(), 0);
    let sentence = verdict["attribution"]["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.contains("nearer to float32 than this recipe predicts")
            && verdict["notes"][0].as_str().is_some_and(|note| note.contains(sentence)),
        "{sentence}"
    );
    assert!(bench.desk.path("out/emulator/trace.json").exists());
}

/// What the device cannot see any more, the reference must not see either.
#[test]
fn a_reference_that_sees_more_than_the_ring_is_refused() {
    let bench = Bench::new(&HefOptions::precise(4, 16));
    let reference = bench.desk.fidelity(&[
        "reference",
        "--prompts",
        "quick.jsonl",
        "--new-tokens",
        "12",
        "--scopes",
        "tbt_free,tbt",
        "--out",
        "full",
    ]);
    assert_eq!(reference.code, Some(0), "{}", reference.stderr);
    let address = bench.address();
    let recorded = bench.desk.fidelity(&[
        "record",
        "--device",
        "hailo",
        "--hef",
        "demo.hef",
        "--device-id",
        &address,
        "--reference",
        "full",
        "--new-tokens",
        "12",
        "--scopes",
        "tbt",
        "--out",
        "arm",
    ]);
    assert_eq!(recorded.code, Some(2), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("attends to all tokens, the device to the last 16"), "{}", recorded.stderr);
}
