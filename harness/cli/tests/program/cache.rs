//! Kept references: found again for the same inputs, and only for those.

use std::fs;

use crate::support::{Answer, Desk, PROMPTS, golden_checkpoint};

const FROM_CACHE: &str = "reference taken from the cache";

fn run(desk: &Desk, out: &str, more: &[&str]) -> Answer {
    let prompts = desk.write("p.jsonl", PROMPTS);
    let (golden, prompts) = (golden_checkpoint(), prompts.to_str().expect("UTF-8").to_owned());
    let weights = ["--weights", golden.to_str().expect("UTF-8")];
    let fixed =
        ["--prompts", &prompts, "--calibration", &prompts, "--new-tokens", "12", "--no-diagnosis", "--out", out];
    desk.fidelity(&[&["run"], &weights[..], &fixed[..], more].concat())
}

#[test]
fn a_second_run_on_the_same_inputs_computes_no_reference_and_concludes_the_same() {
    let desk = Desk::new();
    let first = run(&desk, "one", &[]);
    assert!(!first.stderr.contains(FROM_CACHE), "{first:?}");
    let second = run(&desk, "two", &[]);
    assert!(second.stderr.contains(FROM_CACHE), "{second:?}");
    let verdict = |run: &str| fs::read(desk.path(run).join("verdict.json")).expect("there");
    assert!(verdict("one") == verdict("two"));
    assert!(
        run(&desk, "three", &["--recipe", "a8w8"]).stderr.contains(FROM_CACHE),
        "the recipe is not the reference's"
    );
    assert!(!run(&desk, "four", &["--no-cache"]).stderr.contains(FROM_CACHE));
    assert!(!run(&desk, "five", &["--taps", "all"]).stderr.contains(FROM_CACHE), "other sites");
    assert!(!run(&desk, "six", &["--scopes", "base"]).stderr.contains(FROM_CACHE), "other scopes");
}

#[test]
fn a_damaged_entry_is_replaced_not_used() {
    let desk = Desk::new();
    let first = run(&desk, "one", &[]);
    fs::remove_dir_all(desk.path("one")).expect("there");
    let entry =
        fs::read_dir(desk.path("cache/references")).expect("there").next().expect("one").expect("readable").path();
    let file = entry.join("prompts/0000.safetensors");
    let whole = fs::read(&file).expect("there");
    let mut damaged = whole.clone();
    damaged[whole.len() - 1] ^= 1;
    fs::write(&file, damaged).expect("writes");
    let second = run(&desk, "two", &[]);
    assert!(!second.stderr.contains(FROM_CACHE) && second.code == first.code, "{second:?}");
    assert!(fs::read(&file).expect("there") == whole, "computed and kept again");
    fs::remove_file(&file).expect("there");
    assert!(!run(&desk, "three", &[]).stderr.contains(FROM_CACHE), "an entry without its files is none");
}

#[test]
fn the_cache_is_listed_and_pruned() {
    let desk = Desk::new();
    assert!(desk.fidelity(&["cache"]).stdout.contains("0 references, 0 kB"));
    run(&desk, "one", &[]);
    let listed = desk.fidelity(&["cache"]).stdout;
    assert!(listed.contains("llama-gqa") && listed.contains("1 reference, "), "{listed}");
    assert!(desk.fidelity(&["cache", "--prune", "--older-than-days", "1"]).stdout.starts_with("deleted 0 references"));
    assert!(desk.fidelity(&["cache", "--prune"]).stdout.starts_with("deleted 1 reference, "));
    assert!(desk.path("one/reference/trace.json").is_file(), "runs keep their traces");
}
