//! What an advice comes to, by what is proven.

use fidelity_diagnose::{conclude_advice, inconclusive_advice};
use fidelity_references::Checkpoint;
use fidelity_verdict::{
    Advice, AdviceConclusion, AdvicePrompts, AdviceProof, AdviceTarget, Advised, BlockRange, KindEffect, Outcome,
    Promotable, Proven, Trial,
};

fn advised(name: &str, bytes: f64) -> Advised {
    Advised { lines: vec![name.to_owned()], text: name.to_owned(), trial: Trial { bytes, ..Trial::default() } }
}

/// An advice whose search gave one of two blocks back.
fn advice() -> Advice {
    let checkpoint = Checkpoint::demo().expect("compiled in").identity().clone();
    let target = AdviceTarget { similarity: 0.98, top1: None };
    let of = ["r", "s", "c"].map(str::to_owned);
    let range = |last| vec![BlockRange { first: Some(0), last: Some(last) }];
    let kind = KindEffect {
        kind: "act".into(),
        what: Promotable::Activations,
        bits: 8,
        promoted_bits: 16,
        bytes: 2000.0,
        alone_low: None,
        alone_promoted: None,
        blocks: range(1),
        advised: range(0),
    };
    Advice {
        kinds: vec![kind],
        advised: Some(advised("found", 1000.0)),
        everything: Some(advised("everything", 2000.0)),
        ..inconclusive_advice(checkpoint, of, target, AdvicePrompts::default(), String::new())
    }
}

fn proven(similarity: f64, verdict: Outcome) -> Proven {
    let reached = similarity >= 0.98 && verdict != Outcome::Inconclusive;
    Proven {
        recipe_sha256: "x".into(),
        verdict,
        similarity: Some(similarity),
        interval: None,
        top1: None,
        rows: 100,
        reached,
    }
}

fn concluded(recipe: f64, found: Option<f64>, everything: Option<f64>) -> Advice {
    let proven = |similarity| proven(similarity, Outcome::Degraded);
    let proof = AdviceProof { recipe: proven(recipe), advised: found.map(proven) };
    let advice = if found.is_some() { advice() } else { Advice { advised: None, everything: None, ..advice() } };
    conclude_advice(advice, proof, everything.map(proven))
}

#[test]
fn what_holds_is_advised() {
    let found = concluded(0.5, Some(0.985), None);
    assert_eq!((found.conclusion, found.exit_code), (AdviceConclusion::Reached, 0));
    assert_eq!(found.advised.map(|advised| advised.text).as_deref(), Some("found"));
    assert!(found.notes.is_empty() && found.kinds[0].advised != found.kinds[0].blocks);
    let left = concluded(0.99, None, None);
    assert_eq!((left.conclusion, left.exit_code), (AdviceConclusion::AlreadyReached, 0));
}

#[test]
fn what_does_not_hold_gives_way_to_everything_and_that_is_said() {
    let found = concluded(0.5, Some(0.978), Some(0.995));
    assert_eq!((found.conclusion, found.exit_code), (AdviceConclusion::Reached, 0));
    assert_eq!(found.advised.as_ref().map(|advised| advised.text.as_str()), Some("everything"));
    assert_eq!(found.kinds[0].advised, found.kinds[0].blocks);
    let proof = found.proof.expect("concluded");
    assert_eq!(proof.advised.and_then(|proven| proven.similarity), Some(0.995));
    assert!(found.notes[0].contains("all but 1.0 kB") && found.notes[0].contains("0.9780"), "{:?}", found.notes);
    assert!(found.reason.starts_with("0.5000 → 0.9950"), "{}", found.reason);
    let neither = concluded(0.5, Some(0.97), Some(0.975));
    assert_eq!((neither.conclusion, neither.exit_code), (AdviceConclusion::NotReached, 1));
}

#[test]
fn what_decides_nothing_is_never_reached() {
    let proof =
        AdviceProof { recipe: proven(0.5, Outcome::Broken), advised: Some(proven(0.999, Outcome::Inconclusive)) };
    let found = conclude_advice(advice(), proof, None);
    assert_eq!((found.conclusion, found.exit_code), (AdviceConclusion::Inconclusive, 3));
}
