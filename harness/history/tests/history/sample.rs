//! Runs to remember.

use std::collections::BTreeMap;

use fidelity_trace::Scope;
use fidelity_verdict::{Outcome, PastEstimate, PastRun, PastScope};

/// A run with every part, told apart from others by `id`.
pub(crate) fn run(id: &str) -> PastRun {
    let pearson = PastEstimate { value: 0.999_909, interval: Some([0.999_895, 0.999_921]), n: 1191 };
    let top1 = PastEstimate { value: 0.9933, interval: None, n: 1191 };
    let scope = PastScope {
        verdict: Outcome::Faithful,
        rows: 1191,
        first_bad_site: None,
        estimates: BTreeMap::from([("pearson".into(), pearson), ("top1".into(), top1)]),
    };
    let bad = PastScope {
        verdict: Outcome::Degraded,
        first_bad_site: Some("blocks.2.resid_mid".into()),
        estimates: BTreeMap::new(),
        ..scope.clone()
    };
    PastRun {
        id: id.into(),
        begun: "2026-11-30T22:41:07.123456789Z".into(),
        wall_seconds: 1.76,
        folder: "/runs/demo/20261130-224107".into(),
        checkpoint: "demo".into(),
        arm: "emulator a16w8".into(),
        injected: String::new(),
        verdict: Outcome::Degraded,
        exit_code: 1,
        reason: "tbt: ‘quoted’; \"and\" '); DROP TABLE runs; --".into(),
        diagnosis: Some("unexplained".into()),
        versions: BTreeMap::from([("recipe".into(), "2d27".into()), ("fidelity".into(), "0.1.0".into())]),
        scopes: BTreeMap::from([(Scope::Base, scope), (Scope::Tbt, bad)]),
    }
}
