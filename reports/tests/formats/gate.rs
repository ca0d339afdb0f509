//! A gate in tables, as Markdown and in a line.

use fidelity_reports::{Style, gate_line, gate_markdown, gate_terminal};
use fidelity_verdict::Gate;
use serde_json::{Value, json};

/// One row a prompt, eight of them, and names that would steer a terminal or a page.
pub(crate) fn undecided() -> Value {
    let arm = json!({"kind": "hailo", "device": "hailo10h\u{1b}[2J", "recipe": {"name": "a|b<img>", "sha256": "00"}, "calibration": null,
        "first_position": null, "hef_sha256": null});
    let side = json!({"arm": arm, "verdict": "faithful", "versions": {}});
    let top1 = json!({"conclusion": "inconclusive", "prompts": 8, "baseline": 1.0, "run": 0.75, "difference": 0.25, "interval": [0.0, 0.5],
        "margin": 0.02, "p_not_worse": 0.9, "p_worse": 0.1445, "p_changed": 0.5, "p_changed_holm": 0.5, "movement": "unclear",
        "detectable": 0.41, "power": 0.04, "needed": 40, "discordant": {"lost": 2, "won": 0, "p": 0.5}});
    let settings = serde_json::to_value(fidelity_verdict::GateSettings::compiled_in()).expect("finite");
    json!({"format": "fidelity-gate", "version": 1, "conclusion": "inconclusive", "reason": "too few", "exit_code": 3, "checkpoint": "nano",
        "baseline": side, "run": side, "settings": settings, "prompts": 8, "unseen_share": 0.369, "needed": 40, "allowed": [],
        "notes": ["firmware was 5.1.0, is\n# 5.2.0"], "scopes": {"prefill": {"top1": top1}}})
}

pub(crate) fn gate(value: Value) -> Gate {
    serde_json::from_value(value).expect("a gate")
}

#[test]
fn tables_say_what_is_needed_and_what_can_be_told() {
    let text = gate_terminal(&gate(undecided()), Style::default());
    for said in [
        "INCONCLUSIVE  too few",
        "prefill  top-1       100%  75.0%     0.250    0.02  0.900  needs 40",
        "prefill  top-1   [0, 0.500]          0.410   4.0%     0.500  unclear",
        "one row a prompt in prefill: top-1 lost 2, won 0, McNemar p 0.500",
        "what harms fewer than 37 % of prompts",
    ] {
        assert!(text.contains(said), "{said} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\u{1b}') && text.contains("is\\n# 5.2.0"), "{text}");
}

#[test]
fn the_line_names_conclusion_arm_reason_and_need() {
    let line = gate_line(&gate(undecided()));
    assert!(
        line.starts_with("gate inconclusive: hailo hailo10h\\u{1b}[2J a|b<img> of nano · too few · 40 prompts needed"),
        "{line}"
    );
    let mut crashed = undecided();
    crashed["conclusion"] = "device_failure".into();
    crashed["needed"] = Value::Null;
    assert!(gate_line(&gate(crashed)).starts_with("gate device failure: "));
}

#[test]
fn markdown_is_one_table_and_no_name_is_markup() {
    let page = gate_markdown(&gate(undecided()));
    assert!(page.starts_with("### Gate inconclusive: nano\n"), "{page}");
    assert!(page.contains("a\\|b&lt;img>") && !page.contains("\n# 5.2.0"), "{page}");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 3, "header, rule, one comparison:\n{page}");
    let cells = |row: &str| row.matches('|').count();
    assert!(rows.iter().all(|row| cells(row) == cells(rows[0])), "{page}");
}
