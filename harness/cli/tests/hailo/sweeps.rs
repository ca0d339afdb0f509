//! Sweeps over arms of which one is a device: it may hang, or not be there, and the rest goes on.

use std::fs;

use fidelity_mock_soc::{HefOptions, unused_loopback};
use serde_json::Value;

use crate::{
    Bench, QUICK,
    support::{Answer, json},
};

const ROW: &str = "source = \"embedded:demo\"\ncalibration = \"demo-calibration\"\n";

/// Two checkpoints, of which one has no compiled model where its row says, on both arms.
fn sweep(bench: &Bench, device: &str, more: &[&str]) -> Answer {
    bench
        .desk
        .write("checkpoints.toml", &format!("[demo]\n{ROW}hef = \"demo.hef\"\n\n[gone]\n{ROW}hef = \"gone.hef\"\n"));
    let common =
        ["sweep", "--device", "hailo", "--device", "emulator", "--recipe", "a16w8", "--no-profile", "--no-diagnosis"];
    let device = ["--device-id", device, "--step-timeout", "1", "--out", "s"];
    bench.desk.fidelity(&[&common[..], &device, &QUICK, more].concat())
}

fn cell(bench: &Bench, name: &str) -> Value {
    json(&bench.desk.path("s/cells").join(name).join("cell.json"))
}

const ALL: [&str; 1] = ["--all"];
const DEMO: [&str; 2] = ["--checkpoints", "demo"];

#[test]
fn a_device_and_an_emulator_are_swept_together() {
    let bench = Bench::new(&HefOptions { shards: 4, ..HefOptions::precise(4, 64) });
    let answer = sweep(&bench, &bench.address(), &ALL);
    let device = cell(&bench, "001-demo-hailo-a16w8");
    assert_eq!((&device["state"], &device["verdict"]), (&"done".into(), &"faithful".into()), "{answer:?}");
    assert_eq!(device["covariates"]["lm_head_shards"], 4.0, "{device}");
    assert_eq!(cell(&bench, "002-demo-emulator-a16w8")["verdict"], "degraded", "ids that are no text cost more");
    let gone = cell(&bench, "003-gone-hailo-a16w8");
    assert_eq!(gone["state"], "failed", "{gone}");
    assert!(gone["reason"].as_str().is_some_and(|reason| reason.contains("gone.hef")), "{gone}");
    assert_eq!(gone["covariates"]["lm_head_shards"], Value::Null);
    assert_eq!(cell(&bench, "004-gone-emulator-a16w8")["verdict"], "degraded", "the rest goes on");
    assert!(matches!(gone["exit_code"].as_i64(), Some(2 | 4)), "{gone}");
    let table = fs::read_to_string(bench.desk.path("s/results.csv")).expect("there");
    assert_eq!(table.lines().filter(|line| line.contains(",failed,")).count(), 1, "{table}");
}

#[test]
fn a_device_that_hangs_or_is_missing_is_a_row_and_the_rest_goes_on() {
    let hangs = Bench::misbehaving(&["hang@run"]);
    let silent = Bench::new(&HefOptions::precise(4, 64));
    let nobody = unused_loopback().to_string();
    for (bench, device) in [(&hangs, hangs.address()), (&silent, nobody)] {
        let answer = sweep(bench, &device, &DEMO);
        assert_eq!(answer.code, Some(1), "a degraded cell is worse than a failed device: {answer:?}");
        let failed = cell(bench, "001-demo-hailo-a16w8");
        assert_eq!((&failed["state"], &failed["exit_code"]), (&"failed".into(), &4.into()), "{failed}");
        assert!(failed["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{failed}");
        let emulated = cell(bench, "002-demo-emulator-a16w8");
        assert_eq!((&emulated["state"], &emulated["exit_code"]), (&"done".into(), &1.into()), "{emulated}");
        // What failed is tried again, on a device that answers.
        let answers = Bench::new(&HefOptions::precise(4, 64));
        let answer = sweep(bench, &answers.address(), &[&DEMO[..], &["--resume"]].concat());
        let again = cell(bench, "001-demo-hailo-a16w8");
        assert_eq!((&again["state"], &again["verdict"]), (&"done".into(), &"faithful".into()), "{answer:?}");
    }
}
