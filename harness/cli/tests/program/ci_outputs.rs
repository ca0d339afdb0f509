//! What a CI job finds, and what it is told.

use std::fs;

use serde_json::Value;

use crate::support::{Answer, Desk};

/// A run with a fault, quick and red, as a step of a job of GitHub Actions.
fn step(desk: &Desk, variables: &[(&str, &str)], more: &[&str]) -> Answer {
    let red = ["run", "--scopes", "base", "--new-tokens", "1", "--fault", "softmax_across_heads", "--no-diagnosis"];
    desk.fidelity_in(variables, &[&red, more].concat())
}

#[test]
fn a_job_of_github_gets_an_annotation_and_a_summary() {
    let desk = Desk::new();
    desk.write("summary.md", "what a step before wrote\n");
    let summary = desk.path("summary.md");
    let variables = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.to_str().expect("UTF-8"))];
    let answer = step(&desk, &variables, &["--out", "out"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let annotations: Vec<_> = answer.stdout.lines().filter(|line| line.starts_with("::")).collect();
    assert_eq!(annotations.len(), 1, "{annotations:?}");
    assert!(annotations[0].starts_with("::error title=broken%3A demo%2C emulator a16w8"), "{annotations:?}");
    assert!(answer.last_line().starts_with("broken: "), "the verdict is still the last line: {}", answer.last_line());
    let text = fs::read_to_string(&summary).expect("there");
    assert!(text.starts_with("what a step before wrote\n## ✗ broken: demo"), "{text}");
    assert_eq!(
        text.split_once('\n').expect("lines").1,
        fs::read_to_string(desk.path("out/summary.md")).expect("there")
    );
    let junit = fs::read_to_string(desk.path("out/junit.xml")).expect("there");
    assert!(junit.contains("<testsuites") && junit.contains("type=\"broken\""), "{junit}");
}

#[test]
fn json_on_standard_output_stays_json() {
    let desk = Desk::new();
    let answer = step(&desk, &[("GITHUB_ACTIONS", "true")], &["--json"]);
    let verdict: Value = serde_json::from_str(&answer.stdout).expect("nothing but verdict.json");
    assert_eq!(verdict["verdict"], "broken");
}

#[test]
fn nobody_else_gets_annotations() {
    let desk = Desk::new();
    for variables in [&[][..], &[("GITHUB_ACTIONS", "false")]] {
        let answer = step(&desk, variables, &["--quiet"]);
        assert_eq!(answer.stdout.lines().count(), 1, "{answer:?}");
    }
}

#[test]
fn a_summary_that_cannot_be_written_fails_nothing() {
    let desk = Desk::new();
    let nowhere = desk.path("no/such/folder/summary.md");
    let answer = step(&desk, &[("GITHUB_STEP_SUMMARY", nowhere.to_str().expect("UTF-8"))], &["--quiet"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.starts_with("warning: cannot write the summary of the job"), "{}", answer.stderr);
}

#[test]
fn a_prompt_is_no_workflow_command() {
    let desk = Desk::new();
    desk.write("p.jsonl", "{\"id\":\"::add-mask::x\",\"text\":\"::error::once ##[error]upon a time\"}\n");
    let answer =
        desk.fidelity_in(&[("GITHUB_ACTIONS", "true")], &["run", "--prompts", "p.jsonl", "--new-tokens", "20"]);
    assert!(answer.stdout.contains("add-mask"), "the id is shown: {}", answer.stdout);
    let commands: Vec<_> = answer.stdout.lines().filter(|line| line.trim_start().starts_with("::")).collect();
    assert!(
        commands.iter().all(|line| line.starts_with("::warning title=") || line.starts_with("::error title=")),
        "{commands:?}"
    );
    assert!(!answer.stdout.contains("##["), "{}", answer.stdout);
}

#[test]
fn shells_learn_the_commands_and_flags() {
    let desk = Desk::new();
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef fidelity"), ("fish", "complete -c fidelity")] {
        let answer = desk.fidelity(&["completions", shell]);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(answer.stdout.contains(sign) && answer.stdout.contains("discard-traces"), "{shell}");
    }
    let unknown = desk.fidelity(&["completions", "tcsh"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("bash"), "{}", unknown.stderr);
}
