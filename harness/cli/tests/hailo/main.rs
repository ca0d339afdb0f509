//! `--device hailo` as a person uses it: program, worker, C surface, HailoRT's client (or device/standin), and a chip on loopback that
//! executes the demo checkpoint.
//!
//! With the real client of HailoRT 5.2, which loses answers that come at once: `FIDELITY_MOCK_DELAY_MS=20`.

mod faithful;
mod faults;
mod gating;
mod interrupted;
mod mishaps;
mod shards;
#[expect(dead_code, reason = "shared with the tests of the other commands")]
#[path = "../program/support.rs"]
mod support;
mod sweeps;

use std::{env, fs, path::Path, time::Duration};

use fidelity_mock_soc::{Checkpoint, Fault, HefOptions, MockSoc, Options, build, unused_loopback};
use serde_json::Value;
use support::{Answer, Desk};

/// Two prompts, quick to compute, with enough steps to be judged.
const QUICK: [&str; 8] =
    ["--prompts", "quick.jsonl", "--new-tokens", "12", "--scopes", "prefill,tbt", "--prefill-rows", "all"];

/// A working directory with a compiled demo checkpoint, and a chip.
struct Bench {
    desk: Desk,
    chip: MockSoc,
}

impl Bench {
    fn new(hef: &HefOptions) -> Self {
        Self::with(hef, |_| ())
    }

    fn with(hef: &HefOptions, change: impl FnOnce(&mut Options)) -> Self {
        let desk = Desk::new();
        let demo =
            Checkpoint::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/demo")).expect("there");
        fs::write(desk.path("demo.hef"), build(&demo, hef).expect("compiles")).expect("writes");
        desk.write("quick.jsonl", &prompts(&[10, 9]));
        let delay = env::var("FIDELITY_MOCK_DELAY_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut options = Options { delay: Duration::from_millis(delay), ..Options::at(unused_loopback()) };
        options.busy_wait = Duration::from_millis(100);
        change(&mut options);
        Self { desk, chip: MockSoc::start(options).expect("listens") }
    }

    fn misbehaving(conducts: &[&str]) -> Self {
        let conducts = conducts.iter().map(|conduct| conduct.parse().expect("a misbehaviour")).collect();
        Self::with(&HefOptions::precise(4, 64), |options| options.misbehaviours = conducts)
    }

    fn at_fault(hef: &HefOptions, fault: Fault) -> Self {
        Self::with(hef, |options| options.faults = vec![fault])
    }

    fn address(&self) -> String {
        self.chip.address().ip().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        let address = self.address();
        let common = ["run", "--device", "hailo", "--hef", "demo.hef", "--device-id", &address, "--out", "out"];
        self.desk.fidelity(&[&common, arguments].concat())
    }

    /// Runs and gives verdict.json.
    #[track_caller]
    fn verdict(&self, arguments: &[&str], code: i32) -> Value {
        let answer = self.run(arguments);
        assert_eq!(answer.code, Some(code), "{}{}", answer.stdout, answer.stderr);
        support::json(&self.desk.path("out/verdict.json"))
    }
}

/// Prompts of these lengths, as JSON lines of ids of the demo.
fn prompts(lengths: &[usize]) -> String {
    let line = |(index, length): (usize, &usize)| {
        let ids: Vec<usize> =
            (0..*length).map(|position| 1 + (position * 37 + index * 11 + position * position) % 500).collect();
        format!("{{\"id\":\"n{length}\",\"token_ids\":{ids:?}}}\n")
    };
    lengths.iter().enumerate().map(line).collect()
}

#[track_caller]
fn pearson(verdict: &Value, scope: &str) -> f64 {
    verdict["scopes"][scope]["sites"]["logits"]["pearson"]["mean"].as_f64().expect("it was compared")
}
