//! Runs over time.

use std::collections::BTreeMap;

use fidelity_reports::{Circumstances, Style, history_csv, history_html, history_terminal, html, html_among};
use fidelity_trace::Scope;
use fidelity_verdict::{Outcome, PastEstimate, PastRun, PastScope};
use insta::assert_snapshot;

use crate::sample::{HOSTILE, faithful};

/// A run of the night `day` with this similarity, under a recipe.
fn run(day: u32, similarity: f64, recipe: &str) -> PastRun {
    let estimate = |value| PastEstimate { value, interval: Some([value - 0.001, value + 0.000_01]), n: 1191 };
    let verdict = if similarity >= 0.99 { Outcome::Faithful } else { Outcome::Degraded };
    let scope = PastScope {
        verdict,
        rows: 1191,
        first_bad_site: None,
        estimates: BTreeMap::from([("pearson".into(), estimate(similarity)), ("top1".into(), estimate(0.97))]),
    };
    PastRun {
        id: format!("id{day}"),
        begun: format!("2026-11-{day:02}T03:15:00.000000Z"),
        wall_seconds: 61.5,
        folder: format!("/runs/demo/{day}"),
        checkpoint: "demo".into(),
        arm: "hailo10h".into(),
        injected: String::new(),
        verdict,
        exit_code: u8::from(verdict != Outcome::Faithful),
        reason: "because".into(),
        diagnosis: (verdict != Outcome::Faithful).then(|| "gqa_tile@1".into()),
        versions: BTreeMap::from([("recipe".into(), recipe.repeat(32)), ("firmware".into(), "5.2.0".into())]),
        scopes: BTreeMap::from([(Scope::Prefill, scope)]),
    }
}

fn nights() -> Vec<PastRun> {
    let mut last = run(4, 0.9994, "b2");
    last.versions.insert("firmware".into(), "5.3.0".into());
    let other = PastRun { arm: "emulator a16w8".into(), injected: "gqa_tile (block 1)".into(), ..run(3, 0.5, "a1") };
    vec![run(1, 0.9999, "a1"), run(2, 0.9999, "a1"), other, run(3, 0.97, "b2"), last]
}

#[test]
fn every_series_is_a_table_that_marks_what_changed() {
    let shown = history_terminal(&nights(), Style::default());
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert_snapshot!(shown);
}

#[test]
fn a_long_series_shows_its_end() {
    let runs: Vec<_> = (0..50).map(|_| run(1, 0.999, "a1")).collect();
    let shown = history_terminal(&runs, Style::default());
    assert!(shown.starts_with("demo, hailo10h: the last 30 of 50 runs"), "{shown}");
    assert_eq!(shown.lines().count(), 32);
}

#[test]
fn every_number_is_a_line_of_csv() {
    let text = history_csv(&nights());
    let mut lines = text.lines();
    let head: Vec<_> = lines.next().expect("a header").split(',').collect();
    let first: Vec<_> = lines.next().expect("a row").split(',').collect();
    let cell = |name: &str| first[head.iter().position(|it| *it == name).unwrap_or_else(|| panic!("no {name}"))];
    assert_eq!((cell("scope"), cell("metric"), cell("value")), ("prefill", "pearson", "0.9999"));
    assert_eq!((cell("firmware"), cell("hailort"), cell("n")), ("5.2.0", "", "1191"));
    assert_eq!(text.lines().count(), 1 + nights().len() * 2);
    let bare = PastRun { scopes: BTreeMap::new(), ..run(1, 0.9, "a1") };
    assert_eq!(history_csv(&[bare]).lines().count(), 2, "a run that compared nothing is there too");
}

fn among(past: &[PastRun]) -> Circumstances<'_> {
    Circumstances { reproduce: "fidelity run", past, ..Circumstances::default() }
}

#[test]
fn a_report_shows_the_run_among_those_before_it() {
    let runs: Vec<_> = nights().into_iter().filter(|run| run.arm == "hailo10h").collect();
    let page = html_among(&faithful(), &among(&runs)).expect("a page");
    assert!(page.contains("<h2 id=\"history\">History</h2>") && page.contains("Table of 4 runs"));
    // The recipe, with the diagnosis' change of night 3, then the firmware of night 4.
    assert!(page.contains(">recipe</text>") && page.contains(">firmware</text>"));
    assert!(page.contains("firmware 5.2.0 → 5.3.0"));
    let alone = html_among(&faithful(), &among(&runs[..1])).expect("a page");
    assert_eq!(alone, html(&faithful(), "fidelity run").expect("a page"), "one run is no history");
}

#[test]
fn nothing_from_outside_gets_through_raw() {
    let mut hostile = run(2, 0.9999, "a1");
    for text in
        [&mut hostile.begun, &mut hostile.folder, &mut hostile.checkpoint, &mut hostile.arm, &mut hostile.injected]
    {
        *text = HOSTILE.into();
    }
    hostile.diagnosis = Some(HOSTILE.into());
    hostile.verdict = Outcome::Broken;
    hostile.versions.insert("recipe".into(), HOSTILE.into());
    let runs = vec![PastRun { versions: run(1, 0.9, "a1").versions, ..hostile.clone() }, hostile];
    let page = history_html(&runs).expect("a page");
    for raw in ["<script", "\"onload", "</svg></title>", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(raw), "{raw:?}");
    }
    assert_eq!(page.matches("</style>").count(), 1);
    let shown = history_terminal(&runs, Style::default());
    assert!(!shown.contains(['\u{1b}', '\u{202e}']) && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}
