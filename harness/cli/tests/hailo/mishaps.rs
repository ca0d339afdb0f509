//! What can go wrong on the way to the chip: what is survived, what is not, and what is said of it.

use std::thread;

use fidelity_mock_soc::{Fault, HefOptions};

use crate::{
    Bench, QUICK,
    support::{self, golden_checkpoint, json},
};

/// Prompts are computed again in a new process, and the verdict is that of a chip that never failed.
#[test]
fn single_failures_are_survived() {
    let sound = Bench::misbehaving(&[]).verdict(&QUICK, 0);
    for conduct in [
        "hang@run:3",
        "unanswered@run:9",
        "late=2500@run:5",
        "crash=300@run:6",
        "close-link@run:7",
        "status=8@run:4",
        "status=88@update-offset:4",
        "status=28@init-cache:2",
        "unanswered@init-cache:2",
        "status=73@open:1",
        "instant@run",
    ] {
        let bench = Bench::misbehaving(&[conduct]);
        let answer = bench.run(&[&QUICK[..], &["--step-timeout", "1", "--wait", "20"]].concat());
        assert_eq!(answer.code, Some(0), "{conduct}: {}{}", answer.stdout, answer.stderr);
        assert_eq!(json(&bench.desk.path("out/verdict.json")), sound, "{conduct}");
    }
}

/// Exit code 4, and a line that names status, number and likely cause.
#[test]
fn lasting_failures_end_with_what_failed() {
    for (conduct, said) in [
        ("hang@run", "TIMEOUT (4)"),
        ("status=8@run", "INTERNAL_FAILURE (8)"),
        ("status=71@configure", "OUT_OF_FW_MEMORY (71)"),
        ("status=76@open", "INVALID_DRIVER_VERSION (76)"),
        ("busy", "DEVICE_IN_USE (73)"),
        ("crash@run:5", ""),
    ] {
        let bench = Bench::misbehaving(&[conduct]);
        let answer = bench.run(&[&QUICK[..], &["--step-timeout", "1"]].concat());
        assert_eq!(answer.code, Some(4), "{conduct}: {}{}", answer.stdout, answer.stderr);
        let all = answer.stdout + &answer.stderr;
        assert!(all.contains(said), "{conduct} is not said to be {said}: {all}");
    }
}

/// One prompt fails for good, the other goes on, and the run does not pass.
#[test]
fn what_cannot_be_saved_is_failed_and_the_rest_goes_on() {
    // The first prompt takes three runs and eleven steps: all attempts at it fail at their third run.
    let bench = Bench::misbehaving(&["status=26@run:3"]);
    let answer = bench.run(&QUICK);
    assert_eq!(answer.code, Some(4), "{}{}", answer.stdout, answer.stderr);
    let trace = json(&bench.desk.path("out/arm/trace.json"));
    let statuses: Vec<_> =
        trace["prompts"].as_array().expect("prompts").iter().map(|prompt| prompt["status"].clone()).collect();
    assert_eq!(statuses, ["failed", "ok"]);
    let error = trace["prompts"][0]["error"].as_str().expect("why").to_owned();
    assert!(error.contains("INVALID_HEF (26)"), "{error}");
}

#[test]
fn nobody_who_listens_is_a_device_that_does_not_answer() {
    let bench = Bench::new(&HefOptions::precise(4, 64));
    let silent = fidelity_mock_soc::unused_loopback().to_string();
    let answer = bench.desk.fidelity(&[
        "run",
        "--device",
        "hailo",
        "--hef",
        "demo.hef",
        "--device-id",
        &silent,
        "--scopes",
        "prefill",
    ]);
    assert_eq!(answer.code, Some(4), "{}", answer.stderr);
    assert!(answer.stderr.contains("(89)") || answer.stderr.contains("(62)"), "{}", answer.stderr);
}

#[test]
fn a_device_has_one_owner_and_waits_if_asked_to() {
    let bench = Bench::misbehaving(&["late=1500@run:2"]);
    let address = bench.address();
    let run = |out: &str, more: &[&str]| {
        let common = ["run", "--device", "hailo", "--hef", "demo.hef", "--device-id", &address, "--out", out];
        bench.desk.fidelity(&[&common, &QUICK[..], more].concat())
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| run("first", &[]));
        while bench.chip.runs() < 1 {
            thread::yield_now();
        }
        let refused = run("second", &[]);
        assert_eq!(refused.code, Some(4), "{}", refused.stderr);
        assert!(refused.stderr.contains("in use by pid"), "{}", refused.stderr);
        let waited = run("third", &["--wait"]);
        assert_eq!(waited.code, Some(0), "{}", waited.stderr);
        assert_eq!(first.join().expect("no panic").code, Some(0));
    });
}

#[test]
fn wrong_usage_is_said_before_anything_is_computed() {
    let bench = Bench::new(&HefOptions::precise(4, 64));
    let golden = golden_checkpoint();
    let golden = golden.to_str().expect("UTF-8");
    bench.desk.write("few.jsonl", support::PROMPTS);
    let hailo = ["run", "--device", "hailo"];
    for (arguments, said) in [
        (vec![], "give --hef FILE"),
        (vec!["--hef", "none.hef"], "cannot read it"),
        (vec!["--hef", "quick.jsonl"], "quick.jsonl"),
        (vec!["--hef", "demo.hef", "--recipe", "none"], "--recipe none does not go with --device hailo"),
        (vec!["--hef", "demo.hef", "--scopes", "base"], "offers prefill, tbt, tbt_free, tbt_self"),
        (vec!["--hef", "demo.hef", "--prefill-rows", "some"], "neither `last`, `all` nor a number"),
        (vec!["--hef", "demo.hef", "--weights", golden, "--prompts", "few.jsonl"], "is not of this checkpoint"),
        (vec!["--hef", "demo.hef", "--worker", "no-such-program"], "no-such-program"),
        (vec!["--hef", "demo.hef", "--worker", "ssh 'pi5"], "--worker"),
    ] {
        let address = bench.address();
        let answer = bench.desk.fidelity(&[&hailo[..], &["--device-id", &address], &arguments].concat());
        assert_eq!(answer.code, Some(2), "{arguments:?}: {}", answer.stderr);
        assert!(answer.stderr.contains(said), "{arguments:?} does not say {said:?}: {}", answer.stderr);
    }
    let flag = bench.desk.fidelity(&["run", "--hef", "demo.hef"]);
    assert!(
        flag.code == Some(2) && flag.stderr.contains("--hef does not go with --device emulator"),
        "{}",
        flag.stderr
    );
}

/// Faults that a file cannot show are refused by the mock: a test of them would test nothing.
#[test]
fn a_fault_that_cannot_happen_is_no_pass() {
    let bench = Bench::at_fault(&HefOptions { shards: 1, ..HefOptions::precise(4, 64) }, Fault::ShardsSwapped);
    assert_eq!(bench.run(&QUICK).code, Some(4));
}
