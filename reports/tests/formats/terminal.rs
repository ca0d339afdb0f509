//! The report on a terminal.

use std::{path::Path, time::Duration};

use fidelity_reports::{Style, diagnosis_line, terminal, verdict_line};
use insta::assert_snapshot;

use crate::sample::{
    LARGE, all, broken, broken_of, empty, encoder, faithful, hostile, not_finite, odd, recipe_alone, unexplained,
};

const PLAIN: Style = Style { width: 80, colour: false };

#[test]
fn faithful_run() {
    assert_snapshot!(terminal(&faithful(), PLAIN));
}

#[test]
fn broken_run() {
    assert_snapshot!(terminal(&broken(), PLAIN));
}

#[test]
fn what_no_fault_explains() {
    assert_snapshot!(why(&terminal(&unexplained(), PLAIN)));
}

#[test]
fn what_the_recipe_alone_does() {
    assert_snapshot!(why(&terminal(&recipe_alone(), PLAIN)));
}

/// The section on why.
fn why(text: &str) -> &str {
    text.split("\n\n").find(|section| section.starts_with("WHY")).expect("a diagnosis")
}

#[test]
fn run_of_an_encoder() {
    assert_snapshot!(terminal(&encoder(), PLAIN));
}

#[test]
fn empty_run() {
    assert_snapshot!(terminal(&empty(), PLAIN));
}

#[test]
fn run_with_rows_that_are_not_finite() {
    assert_snapshot!(terminal(&not_finite(), PLAIN));
}

#[test]
fn thirty_blocks() {
    assert_snapshot!(terminal(&broken_of(LARGE), PLAIN));
}

#[test]
fn narrow_terminal() {
    assert_snapshot!(terminal(&broken(), Style { width: 60, ..PLAIN }));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for ((name, verdict), width) in
        all().into_iter().flat_map(|sample| [60, 80, 120].map(|width| (sample.clone(), width)))
    {
        let text = terminal(&verdict, Style { width, ..PLAIN });
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{name} at {width}: {widest:?}");
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let coloured = terminal(&broken(), Style { colour: true, ..PLAIN });
    assert!(coloured.contains("\u{1b}[1;31mBROKEN\u{1b}[0m"));
    let plain = coloured
        .split('\u{1b}')
        .map(|part| part.strip_prefix('[').and_then(|part| part.split_once('m')).map_or(part, |(_, text)| text));
    assert_eq!(plain.collect::<String>(), terminal(&broken(), PLAIN));
}

#[test]
fn text_from_outside_cannot_steer_the_terminal() {
    let text = terminal(&hostile(), PLAIN) + &verdict_line(&hostile(), None, Some(Path::new("a\u{1b}b")));
    let text = text + &diagnosis_line(&hostile(), None, None);
    assert!(!text.contains(['\u{1b}', '\u{202e}']));
    for line in [verdict_line, diagnosis_line] {
        assert_eq!(line(&hostile(), None, None).lines().count(), 1);
    }
}

#[test]
fn the_last_line_says_it_all() {
    let time = Some(Duration::from_millis(12_340));
    let report = Some(Path::new("runs/demo/report.html"));
    assert_snapshot!(verdict_line(&broken(), time, report), @"broken: emulator w8a16, fault injected on purpose: gqa_tile in block 2 · base is broken: mean Pearson 0.59 is below 0.9; first bad site blocks.2.resid_mid · diagnosed gqa_tile@2 · 12.3 s · report runs/demo/report.html");
    assert_snapshot!(verdict_line(&empty(), Some(Duration::from_secs(3725)), None), @"inconclusive: emulator w8a16 · nothing was compared: every prompt failed · 1 h 2 min");
    assert_snapshot!(verdict_line(&not_finite(), None, None), @"broken (expected): emulator w8a16 · base is broken: 2 rows are not finite");
}

#[test]
fn the_last_line_of_a_diagnosis_says_it_all() {
    let time = Some(Duration::from_millis(12_340));
    let report = Some(Path::new("runs/demo/report.html"));
    assert_snapshot!(diagnosis_line(&broken(), time, report), @"diagnosed: gqa_tile@2 · In block 2, query head h reads kv head h mod 4 (tile) instead of h div 2 (repeat); Pearson 0.999930 · 12.3 s · report runs/demo/report.html");
    assert_snapshot!(diagnosis_line(&unexplained(), time, None), @"diagnosed: unexplained · No fault of the bank computes what the arm does; the closest prediction has Pearson 0.710000 · 12.3 s");
    assert_snapshot!(diagnosis_line(&empty(), None, None), @"not diagnosed · nothing was compared: every prompt failed");
    assert_snapshot!(verdict_line(&recipe_alone(), None, None), @"broken: emulator w8a16, fault injected on purpose: gqa_tile in block 2 · base is broken: mean Pearson 0.59 is below 0.9; first bad site blocks.2.resid_mid · diagnosed clean, the recipe alone predicts it");
}

#[test]
fn exact_is_not_almost() {
    let [_, blind, exact] = odd();
    assert!(terminal(&exact, PLAIN).contains("1 (exact)"));
    assert!(!terminal(&faithful(), PLAIN).contains("exact"));
    assert!(terminal(&blind, PLAIN).contains("not finite"));
}
