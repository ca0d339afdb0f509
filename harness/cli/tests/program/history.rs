//! Every run is remembered, and what becomes of the history is nothing to the run.

use std::{fs, process::Stdio};

use serde_json::Value;

use crate::support::{Answer, Desk, PROMPTS, golden_checkpoint, json};

/// A desk with a quick run.
struct Bench {
    desk: Desk,
    golden: String,
}

impl Bench {
    fn new() -> Self {
        let desk = Desk::new();
        desk.write("p.jsonl", PROMPTS);
        Self { desk, golden: golden_checkpoint().to_str().expect("UTF-8").to_owned() }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let quick =
            ["run", "--weights", &self.golden, "--prompts", "p.jsonl", "--calibration", "p.jsonl", "--new-tokens", "4"];
        [&quick[..], &["--scopes", "base", "--no-diagnosis", "--quiet"], more].concat()
    }

    fn run(&self, more: &[&str]) -> Answer {
        self.desk.fidelity(&self.arguments(more))
    }

    /// The rows of the history as CSV, the header left out, one metric of one scope.
    fn remembered(&self) -> Vec<Vec<String>> {
        let answer = self.desk.fidelity(&["history", "--csv", "-"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let rows = answer.stdout.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        rows.filter(|row: &Vec<String>| row.iter().any(|cell| cell == "pearson")).collect()
    }
}

#[test]
fn runs_are_remembered_in_a_table_and_on_a_page() {
    let bench = Bench::new();
    bench.run(&[]);
    bench.run(&["--recipe", "a8w8"]);
    let answer = bench.desk.fidelity(&["history", "--plot", "h.html", "--csv", "h.csv"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.stdout.contains("llama-gqa, emulator a16w8: 1 run\n"), "{}", answer.stdout);
    assert!(answer.stdout.contains("llama-gqa, emulator a8w8: 1 run\n"), "{}", answer.stdout);
    assert!(answer.stdout.lines().all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    assert_eq!(answer.last_line(), "2 runs in runs/history.db · wrote h.csv · wrote h.html");
    assert!(fs::read_to_string(bench.desk.path("h.html")).expect("there").contains("</html>"));
    let verdict = json(&newest(&bench).join("verdict.json"));
    let mean = &verdict["scopes"]["base"]["sites"]["logits"]["pearson"]["mean"];
    let rows = bench.remembered();
    assert!(rows[1].contains(&mean.to_string()), "{mean} is not in {:?}", rows[1]);
}

/// The folder of the run that began last.
fn newest(bench: &Bench) -> std::path::PathBuf {
    let folders = fs::read_dir(bench.desk.path("runs/llama-gqa")).expect("there").map(|it| it.expect("read").path());
    folders.max_by_key(|path| json(&path.join("run.json"))["begun"].as_str().map(str::to_owned)).expect("a run")
}

#[test]
fn a_run_that_is_resumed_is_one_run_and_one_in_the_same_folder_is_another() {
    let bench = Bench::new();
    bench.run(&["--out", "out"]);
    let before = json(&bench.desk.path("out/run.json"));
    fs::remove_file(bench.desk.path("out/verdict.json")).expect("there");
    bench.run(&["--out", "out", "--resume"]);
    let after = json(&bench.desk.path("out/run.json"));
    assert_eq!((&before["id"], &before["begun"]), (&after["id"], &after["begun"]));
    assert_eq!(bench.remembered().len(), 1);
    fs::remove_dir_all(bench.desk.path("out")).expect("there");
    bench.run(&["--out", "out"]);
    assert_eq!(bench.remembered().len(), 2, "a nightly job may use one folder again and again");
}

#[test]
fn a_history_elsewhere_or_none() {
    let bench = Bench::new();
    bench.run(&["--history", "none", "--out", "a"]);
    assert!(!bench.desk.path("runs").exists());
    bench.run(&["--history", "kept/here.db", "--out", "b"]);
    assert!(bench.desk.path("kept/here.db").is_file() && !bench.desk.path("runs").exists());
    let shown = bench.desk.fidelity(&["history", "--history", "kept/here.db"]);
    assert_eq!((shown.code, shown.last_line()), (Some(0), "1 run in kept/here.db"));
}

#[test]
fn a_history_that_cannot_be_used_fails_nothing() {
    let bench = Bench::new();
    let honest = bench.run(&["--history", "none", "--out", "honest"]);
    bench.desk.write("damaged.db", "this is no database, but text of some length that a person wrote");
    bench.desk.write("file", "");
    for (place, said) in [("damaged.db", "damaged.db is damaged"), ("file/h.db", "cannot create file")] {
        let answer = bench.run(&["--history", place, "--out", &format!("{}-out", &place[..4])]);
        assert_eq!(answer.code, honest.code, "{place}: the verdict counts");
        assert!(
            answer.stderr.contains("warning: the run is not in the history") && answer.stderr.contains(said),
            "{answer:?}"
        );
        let out = bench.desk.path(&format!("{}-out", &place[..4]));
        assert!(out.join("verdict.json").is_file() && out.join("report.html").is_file());
    }
    let shown = bench.desk.fidelity(&["history", "--history", "damaged.db"]);
    assert_eq!(shown.code, Some(2));
    assert!(shown.stderr.contains("move it away"), "{}", shown.stderr);
}

#[test]
fn what_is_not_there_is_said_with_the_remedy() {
    let bench = Bench::new();
    let absent = bench.desk.fidelity(&["history"]);
    assert_eq!(absent.code, Some(2));
    assert!(absent.stderr.contains("there is no history at runs/history.db; `fidelity run` begins one"));
    assert!(!bench.desk.path("runs").exists());
    bench.run(&[]);
    let other = bench.desk.fidelity(&["history", "--checkpoint", "nobody"]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("holds no run of `nobody`"), "{}", other.stderr);
    assert_eq!(bench.desk.fidelity(&["history", "--history", "none"]).code, Some(2));
}

#[test]
fn processes_that_run_at_the_same_time_are_all_remembered() {
    let bench = Bench::new();
    bench.run(&["--history", "none"]);
    let start = |index: usize| {
        let out = format!("out{index}");
        let command = std::process::Command::new(env!("CARGO_BIN_EXE_fidelity"))
            .current_dir(bench.desk.path("."))
            .env("FIDELITY_CACHE", bench.desk.path("cache"))
            .env_remove("FIDELITY_HISTORY")
            .env_remove("FIDELITY_DEVICE")
            .args(bench.arguments(&["--out", &out]))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        command.expect("starts")
    };
    let running: Vec<_> = (0..4).map(start).collect();
    for process in running {
        let output = process.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.lines().all(|line| line.contains("is in the folder, but no part of the checkpoint")), "{said}");
    }
    assert_eq!(bench.remembered().len(), 4);
    let ids: Vec<Value> =
        (0..4).map(|index| json(&bench.desk.path(&format!("out{index}/run.json")))["id"].clone()).collect();
    assert!(ids.iter().enumerate().all(|(index, id)| !ids[..index].contains(id)), "{ids:?}");
}
