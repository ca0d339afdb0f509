//! `sweep`: a matrix of runs, resumed, in shards.

use std::{fs, path::Path};

use fidelity_mock_soc::{HefOptions, build};

use crate::support::{Desk, PROMPTS, golden_checkpoint, json};

const TOML: &str = "[demo]\nsource = \"embedded:demo\"\nprompts = \"demo\"\ncalibration = \"demo-calibration\"\n\n\
                    [absent]\nsource = \"hub:nobody/nothing\"\n";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("checkpoints.toml", TOML);
    desk
}

const QUICK: [&str; 4] = ["--scopes", "base", "--no-diagnosis", "--offline"];

fn lines(desk: &Desk, file: &str) -> Vec<String> {
    fs::read_to_string(desk.path(file)).expect("there").lines().map(str::to_owned).collect()
}

#[test]
fn a_matrix_becomes_one_table_with_a_row_for_what_could_not_be_run() {
    let desk = desk();
    let recipes = ["--recipe", "a16w8", "--recipe", "a8w4"];
    let answer = desk.fidelity(&[&["sweep", "--all", "--out", "s"], &QUICK[..], &recipes[..]].concat());
    assert_eq!(answer.code, Some(1), "the worst cell's: {answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    assert!(answer.last_line().starts_with("swept 4 cells: 1 faithful, "), "{}", answer.last_line());
    assert!(answer.last_line().contains("2 not run"), "{}", answer.last_line());
    let results = lines(&desk, "s/results.csv");
    assert_eq!(results.len(), 5, "{results:?}");
    assert!(results[0].starts_with("cell,checkpoint,source,") && results[0].ends_with(",grouped_weights,rotated"));
    assert!(
        results[1].contains(",base,verdict,done,pass,faithful,") && results[2].contains(",done,fail,"),
        "{results:?}"
    );
    assert!(results[3].contains(",not run,") && results[3].contains("nobody/nothing"), "{}", results[3]);
    let cell = json(&desk.path("s/cells/001-demo-emulator-a16w8/cell.json"));
    for covariate in ["hidden", "massive_ratio", "residual_kurtosis", "swiglu_range", "parameters", "residual_bits"] {
        assert!(cell["covariates"][covariate].as_f64().is_some_and(|value| value > 0.0), "{covariate}: {cell}");
    }
    assert_eq!((&cell["covariates"]["residual_bits"], &cell["covariates"]["weight_bits"]), (&16.0.into(), &8.0.into()));
    // A cell is what `run` makes, and says by which command.
    let command = cell["command"].as_str().expect("a command");
    assert_eq!(command, "fidelity run --checkpoint demo --device emulator --recipe a16w8 --scopes base --no-diagnosis");
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--out", "alone"]).collect();
    assert_eq!(desk.fidelity(&words).code, Some(0));
    let verdict = |folder: &str| fs::read(desk.path(folder).join("verdict.json")).expect("there");
    assert!(verdict("alone") == verdict("s/cells/001-demo-emulator-a16w8"));
    let page = fs::read_to_string(desk.path("s/sweep.html")).expect("there");
    assert!(
        page.contains("href=\"cells&#x2f;001-demo-emulator-a16w8&#x2f;report.html\"") && !page.contains("<script"),
        "{page}"
    );
}

#[test]
fn only_what_is_not_run_does_not_pass() {
    let answer = desk().fidelity(&[&["sweep", "--checkpoints", "absent", "--out", "s"], &QUICK[..]].concat());
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let hailo = desk().fidelity(&["sweep", "--checkpoints", "demo", "--device", "hailo", "--out", "s", "--offline"]);
    assert_eq!(hailo.code, Some(3), "{hailo:?}");
    assert!(hailo.stdout.contains("not run") && hailo.stdout.contains("names no compiled model"), "{hailo:?}");
}

#[test]
fn a_finished_cell_is_not_run_again_and_an_unfinished_one_is() {
    let desk = desk();
    let sweep = [&["sweep", "--checkpoints", "demo", "--no-profile", "--out", "s"], &QUICK[..]].concat();
    let recipes = ["--recipe", "a16w8", "--recipe", "none"];
    let first = desk.fidelity(&[&sweep[..], &recipes].concat());
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(desk.fidelity(&[&sweep[..], &recipes].concat()).code, Some(2), "not without --resume");
    let results = lines(&desk, "s/results.csv");
    let modified =
        |cell: &str| fs::metadata(desk.path(cell).join("run.json")).and_then(|it| it.modified()).expect("there");
    let (done, torn) = ("s/cells/001-demo-emulator-a16w8", "s/cells/002-demo-emulator-none");
    let before = (modified(done), modified(torn));
    // As a sweep that was killed leaves it: half an arm, no verdict.
    for file in ["cell.json", "verdict.json", "arm/prompts/0003.safetensors"] {
        fs::remove_file(desk.path(torn).join(file)).expect("deletes");
    }
    let again = desk.fidelity(&[&sweep[..], &recipes, &["--resume"]].concat());
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(results, lines(&desk, "s/results.csv"));
    assert!(modified(done) == before.0 && modified(torn) > before.1);
    let other = desk.fidelity(&[&sweep[..], &["--recipe", "a8w8", "--resume"]].concat());
    assert!(other.code == Some(2) && other.stderr.contains("cannot be resumed"), "{other:?}");
}

#[test]
fn shards_of_a_sweep_are_together_what_the_sweep_is() {
    let desk = desk();
    let weights = golden_checkpoint();
    let weights = weights.to_str().expect("UTF-8");
    let prompts = desk.write("prompts.jsonl", PROMPTS);
    let checkpoints = format!("demo,{weights}");
    let sweep =
        ["sweep", "--checkpoints", &checkpoints, "--prompts", prompts.to_str().expect("UTF-8"), "--recipe", "none"];
    let sweep = [&sweep[..], &QUICK[..]].concat();
    let whole = desk.fidelity(&[&sweep[..], &["--out", "whole"]].concat());
    assert_eq!(whole.code, Some(0), "{whole:?}");
    for index in 1..=3 {
        let (shard, out) = (format!("{index}/3"), format!("part{index}"));
        let answer = desk.fidelity(&[&sweep[..], &["--shard", &shard, "--out", &out]].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(answer.stdout.contains("shard 3/3 is empty: there are 2 cells"), index == 3, "{answer:?}");
    }
    let missing = desk.fidelity(&["merge", "part1", "part3", "--out", "half"]);
    assert!(missing.code == Some(3) && missing.stderr.contains("2/3 is not there"), "{missing:?}");
    let merged = desk.fidelity(&["merge", "part2", "part1", "part3", "--out", "joined"]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert_eq!(lines(&desk, "whole/results.csv"), lines(&desk, "joined/results.csv"));
    assert!(desk.path("joined/cells/002-llama-gqa-emulator-none/report.html").is_file());
    // What is joined is a sweep like any other.
    let attributed = desk.fidelity(&["attribute", "joined/results.csv"]);
    assert_eq!(attributed.code, Some(0), "{attributed:?}");
    assert!(attributed.last_line().contains("all 2 pass"), "{attributed:?}");
}

#[test]
fn what_a_compiled_model_says_is_a_covariate_of_every_arm() {
    let desk = desk();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/demo");
    let demo = fidelity_mock_soc::Checkpoint::read(&demo).expect("there");
    let hef = HefOptions { shards: 4, ..HefOptions::precise(4, 64) };
    fs::write(desk.path("demo.hef"), build(&demo, &hef).expect("compiles")).expect("writes");
    let row = "source = \"embedded:demo\"\nprompts = \"demo\"\ncalibration = \"demo-calibration\"\n";
    let named = ["demo.hef", "none.hef"].map(|hef| format!("[{}]\n{row}hef = \"{hef}\"\n", hef.replace(".hef", "")));
    desk.write("checkpoints.toml", &named.concat());
    let sweep = ["sweep", "--all", "--no-profile", "--recipe", "none", "--out", "s"];
    let answer = desk.fidelity(&[&sweep[..], &QUICK[..]].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let results = lines(&desk, "s/results.csv");
    let column = results[0].split(',').position(|name| name == "lm_head_shards").expect("a column");
    // Reasons stand in quotes where they have commas; covariates come after them, so it is counted from the end.
    let from_end = results[0].split(',').count() - column;
    let shards = |line: &str| line.rsplit(',').nth(from_end - 1).map(str::to_owned);
    assert_eq!(shards(&results[1]).as_deref(), Some("4"), "{}", results[1]);
    assert_eq!(shards(&results[2]).as_deref(), Some(""), "not known: {}", results[2]);
}

#[test]
fn a_warning_of_a_checkpoint_is_said_once() {
    let desk = desk();
    let golden = golden_checkpoint();
    let mut config = json(&golden.join("config.json"));
    config["partial_rotary_factor"] = 0.5.into();
    for name in ["one", "other"] {
        desk.write(&format!("{name}/config.json"), &config.to_string());
        fs::copy(golden.join("model.safetensors"), desk.path(name).join("model.safetensors")).expect("copies");
    }
    desk.write("p.jsonl", PROMPTS);
    let sweep =
        ["sweep", "--checkpoints", "one,other", "--prompts", "p.jsonl", "--calibration", "p.jsonl", "--out", "s"];
    let recipes = ["--recipe", "none", "--recipe", "a16w8"];
    let answer = desk.fidelity(&[&sweep[..], &recipes, &QUICK[..]].concat());
    assert!(matches!(answer.code, Some(0 | 1)), "{answer:?}");
    let said = answer.stderr.matches("partial_rotary_factor").count();
    assert_eq!(said, 2, "once a checkpoint: {}", answer.stderr);
}

#[test]
fn what_cannot_be_swept_is_refused_before_anything_runs() {
    let desk = desk();
    for (arguments, said) in [
        (&["--checkpoints", "demo,demo"][..], "stands there twice"),
        (&["--checkpoints", "dmeo"], "did you mean `demo`?"),
        (&["--checkpoints", "demo", "--device", "replay=x"], "cannot be swept"),
        (&["--all", "--hef", "x.hef"], "--hef is one compiled model"),
        (&["--all", "--checkpoints", "demo"], "cannot be used with"),
        (&[], "required"),
    ] {
        let answer = desk.fidelity(&[&["sweep", "--out", "s"], arguments].concat());
        assert_eq!(answer.code, Some(2), "{arguments:?}");
        assert!(answer.stderr.contains(said), "{arguments:?}: {}", answer.stderr);
    }
    assert!(!desk.path("s").exists());
}

#[test]
fn a_cell_that_fails_is_a_row_and_the_others_go_on() {
    let desk = desk();
    desk.write("broken/config.json", "{}");
    let answer = desk.fidelity(&[&["sweep", "--checkpoints", "broken,demo", "--out", "s"], &QUICK[..]].concat());
    assert_eq!(answer.code, Some(2), "{answer:?}");
    let results = lines(&desk, "s/results.csv");
    assert!(results[1].contains(",failed,") && results[2].contains(",done,pass,"), "{results:?}");
}
