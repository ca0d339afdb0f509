//! A run that is killed or interrupted at any step goes on to the verdict of an unbroken one.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fidelity_mock_soc::HefOptions;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{Bench, QUICK, support::json};

#[test]
fn a_killed_run_resumes_to_the_same_verdict() {
    let hef = HefOptions::precise(4, 64);
    let unbroken = Bench::new(&hef).verdict(&QUICK, 0);
    // In the first prompt's chunks, in its steps, in the second prompt.
    for runs in [1, 5, 16, 25] {
        let bench = slow(&hef);
        let mut child = started(&bench, runs);
        child.kill().expect("runs");
        child.wait().expect("ended");
        assert!(!bench.desk.path("out/verdict.json").exists(), "killed too late");
        // Its worker gives the device back when it finds nobody at the other end.
        let resumed = bench.verdict(&[&QUICK[..], &["--resume", "--wait", "30"]].concat(), 0);
        assert_eq!(resumed, unbroken, "killed after {runs} runs");
        assert_eq!(json(&bench.desk.path("out/arm/trace.json"))["complete"], true);
    }
}

/// Ctrl-C reaches every process of the terminal, the worker too: the prompt that is being computed is finished and kept.
#[test]
fn an_interrupted_run_ends_its_prompt_and_goes_on_later() {
    let hef = HefOptions::precise(4, 64);
    let unbroken = Bench::new(&hef).verdict(&QUICK, 0);
    // In the first prompt's chunks, in its steps.
    for runs in [1, 8] {
        let bench = slow(&hef);
        let child = started(&bench, runs);
        killpg(Pid::from_raw(child.id().try_into().expect("a pid")), Signal::SIGINT).expect("runs");
        let output = child.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "after {runs} runs: {said}");
        assert!(said.ends_with("the same command with --out out --resume goes on\n"), "{said}");
        let trace = json(&bench.desk.path("out/arm/trace.json"));
        let status = |prompt: usize| trace["prompts"][prompt]["status"].clone();
        assert_eq!((status(0), status(1)), ("ok".into(), "skipped".into()), "after {runs} runs");
        assert_eq!(trace["complete"], false);
        assert!(!bench.desk.path("out/verdict.json").exists());
        let resumed = bench.verdict(&[&QUICK[..], &["--resume", "--wait", "30"]].concat(), 0);
        assert_eq!(resumed, unbroken, "interrupted after {runs} runs");
    }
}

/// With a chip slow enough to be met in a step.
fn slow(hef: &HefOptions) -> Bench {
    Bench::with(hef, |options| options.delay = options.delay.max(Duration::from_millis(10)))
}

/// A run in a process group of its own, once the chip has computed so much of it.
fn started(bench: &Bench, runs: usize) -> Child {
    let address = bench.address();
    let common = ["run", "--device", "hailo", "--hef", "demo.hef", "--device-id", &address, "--out", "out"];
    let child = Command::new(env!("CARGO_BIN_EXE_fidelity"))
        .current_dir(bench.desk.path("."))
        .env("FIDELITY_CACHE", bench.desk.path("cache"))
        .env_remove("FIDELITY_DEVICE")
        .args([&common, &QUICK[..]].concat())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("starts");
    let begun = Instant::now();
    while bench.chip.runs() < runs {
        assert!(begun.elapsed() < Duration::from_secs(60), "only {} runs", bench.chip.runs());
        thread::sleep(Duration::from_millis(2));
    }
    child
}
