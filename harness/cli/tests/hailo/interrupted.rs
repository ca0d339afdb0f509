//! A run that is killed at any step goes on to the verdict of an unbroken one.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use fidelity_mock_soc::HefOptions;

use crate::{Bench, QUICK, support::json};

#[test]
fn a_killed_run_resumes_to_the_same_verdict() {
    let hef = HefOptions::precise(4, 64);
    let unbroken = Bench::new(&hef).verdict(&QUICK, 0);
    // In the first prompt's chunks, in its steps, in the second prompt.
    for runs in [1, 5, 16, 25] {
        let bench = Bench::with(&hef, |options| options.delay = options.delay.max(Duration::from_millis(10)));
        let address = bench.address();
        let common = ["run", "--device", "hailo", "--hef", "demo.hef", "--device-id", &address, "--out", "out"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_fidelity"))
            .current_dir(bench.desk.path("."))
            .env("FIDELITY_CACHE", bench.desk.path("cache"))
            .env_remove("FIDELITY_DEVICE")
            .args([&common, &QUICK[..]].concat())
            .spawn()
            .expect("starts");
        let begun = Instant::now();
        while bench.chip.runs() < runs {
            assert!(begun.elapsed() < Duration::from_secs(60), "only {} runs", bench.chip.runs());
            thread::sleep(Duration::from_millis(2));
        }
        child.kill().expect("runs");
        child.wait().expect("ended");
        assert!(!bench.desk.path("out/verdict.json").exists(), "killed too late");
        // Its worker gives the device back when it finds nobody at the other end.
        let resumed = bench.verdict(&[&QUICK[..], &["--resume", "--wait", "30"]].concat(), 0);
        assert_eq!(resumed, unbroken, "killed after {runs} runs");
        assert_eq!(json(&bench.desk.path("out/arm/trace.json"))["complete"], true);
    }
}
