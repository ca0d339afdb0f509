//! Shards of a device's prompts, and what they are together.

use std::fs;

use fidelity_mock_soc::HefOptions;

use crate::{Bench, QUICK};

#[test]
fn shards_on_a_device_are_together_what_the_run_is() {
    for more in [&[][..], &["--recipe", "a16w8"]] {
        let bench = Bench::new(&HefOptions::precise(4, 64));
        let address = bench.address();
        let run = |out: &str, shard: &[&str]| {
            let common = ["run", "--device", "hailo", "--hef", "demo.hef", "--device-id", &address, "--out", out];
            let answer = bench.desk.fidelity(&[&common, &QUICK[..], more, shard].concat());
            assert_eq!(answer.code, Some(0), "{out}: {}{}", answer.stdout, answer.stderr);
        };
        run("whole", &[]);
        run("second", &["--shard", "2/2"]);
        run("first", &["--shard", "1/2"]);
        let merged = bench.desk.fidelity(&["merge", "first", "second", "--out", "joined"]);
        assert_eq!(merged.code, Some(0), "{}{}", merged.stdout, merged.stderr);
        let verdict = |folder: &str| fs::read_to_string(bench.desk.path(folder).join("verdict.json")).expect("there");
        assert!(verdict("whole") == verdict("joined"), "{more:?}: the verdicts differ");
    }
}
