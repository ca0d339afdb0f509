//! What is kept of a verdict.

use fidelity_history::{Occasion, remember};
use fidelity_trace::Scope;
use fidelity_verdict::{Outcome, PastRun, Verdict};

use crate::sample::run;

/// As `run` leaves it: an emulator under a recipe with a fault injected.
const VERDICT: &str = include_str!("verdict.json");

fn remembered() -> PastRun {
    let verdict = Verdict::parse(VERDICT, "verdict.json").expect("a verdict");
    let occasion = Occasion {
        id: "x".into(),
        begun: "2026-11-30T22:41:07Z".into(),
        wall_seconds: 2.0,
        folder: "/runs/x".into(),
        fidelity: "0.1.0".into(),
    };
    remember(&verdict, occasion)
}

#[test]
fn numbers_versions_and_what_was_injected_are_kept() {
    let run = remembered();
    let verdict: Verdict = Verdict::parse(VERDICT, "verdict.json").expect("a verdict");
    assert_eq!((run.checkpoint.as_str(), run.arm.as_str()), ("demo", "emulator a16w8"));
    assert_eq!(run.injected, "gqa_tile (block 1)");
    assert_eq!((run.verdict, run.exit_code), (Outcome::Broken, 1));
    let base = &run.scopes[&Scope::Base];
    let logits = verdict.scopes[&Scope::Base].sites[&fidelity_trace::Site::Logits].clone();
    let pearson = logits.pearson.expect("compared");
    let kept = base.estimates["pearson"];
    assert!((kept.value - pearson.mean).abs() < 1e-15 && kept.interval == pearson.interval && kept.n == pearson.n);
    assert_eq!(base.estimates["top1"].n, logits.logits.expect("logits").top1.n);
    assert_eq!(base.first_bad_site.as_deref(), Some("blocks.1.resid_mid"));
    for version in ["weights", "prompts", "recipe", "ranges"] {
        assert_eq!(run.versions[version].len(), 64, "{version}");
    }
    assert_eq!(run.versions["fidelity"], "0.1.0");
    assert!(!run.versions.contains_key("HailoRT"), "an emulator has none");
}

#[test]
fn only_what_both_know_can_change() {
    let earlier = run("a");
    let mut later = run("b");
    later.versions.insert("recipe".into(), "99aa".into());
    later.versions.insert("firmware".into(), "5.2.0".into());
    assert_eq!(later.changes(&earlier).collect::<Vec<_>>(), [("recipe", "2d27", "99aa")]);
}

#[test]
fn the_worst_deciding_scope_tells_most() {
    let mut run = run("a");
    assert_eq!(run.telling_scope().map(|(scope, _)| scope), Some(Scope::Tbt));
    let probe = run.scopes.remove(&Scope::Tbt).expect("there");
    run.scopes.insert(Scope::TbtSelf, probe);
    assert_eq!(run.telling_scope().map(|(scope, _)| scope), Some(Scope::Base), "a probe does not decide");
    run.scopes.insert(Scope::Prefill, run.scopes[&Scope::Base].clone());
    assert_eq!(run.telling_scope().map(|(scope, _)| scope), Some(Scope::Base), "the first of equals");
}
