//! A sweep killed at any moment goes on to the table of an unbroken one.
#![cfg(unix)]

use std::{
    env, fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    durability::{prompts, random, whole},
    support::Desk,
};

/// How often it is killed here; `FIDELITY_KILLS=100` for as often as a run.
const KILLS: u64 = 6;

fn start(desk: &Desk, out: &str, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_fidelity"))
        .current_dir(desk.path("."))
        .env("FIDELITY_CACHE", desk.path("cache"))
        .env_remove("FIDELITY_DEVICE")
        .env_remove("FIDELITY_HISTORY")
        .args(["sweep", "--checkpoints", "demo", "--recipe", "none", "--recipe", "a16w8", "--recipe", "a8w4"])
        .args(["--prompts", "p.jsonl", "--scopes", "base", "--no-diagnosis", "--no-cache", "--quiet", "--out", out])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

#[test]
fn a_sweep_killed_anywhere_resumes_to_the_same_table() {
    let kills = env::var("FIDELITY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let desk = Desk::new();
    desk.write("p.jsonl", &prompts(24));
    let table = |out: &str| fs::read_to_string(desk.path(out).join("results.csv")).expect("written");
    let begun = Instant::now();
    let code = start(&desk, "unbroken", &[]).wait().expect("ended").code();
    let takes = begun.elapsed().as_micros() as u64;
    assert_eq!(code, Some(1), "8 bits with 4 bits of weights are too few for the demo");
    let unbroken = table("unbroken");
    assert_eq!(unbroken.lines().count(), 4, "{unbroken}");
    let (mut random, mut early) = (random(10), 0);
    for round in 0..kills {
        let out = format!("out{round}");
        // Twice, so that what was resumed is killed as well.
        for more in [&[][..], &["--resume"]] {
            let mut child = start(&desk, &out, more);
            thread::sleep(Duration::from_micros(random(takes)));
            child.kill().expect("runs or was not waited for");
            child.wait().expect("ended");
            whole(&desk.path(&out));
            early += u64::from(!desk.path(&out).join("results.csv").exists());
        }
        // It may have been killed before it made its folder, and may go on all the same.
        let code = start(&desk, &out, &["--resume"]).wait().expect("ended").code();
        assert_eq!(code, Some(1), "round {round}");
        assert_eq!(table(&out), unbroken, "round {round}");
    }
    assert!(early >= kills, "only {early} of {} kills came before the table", 2 * kills);
}
