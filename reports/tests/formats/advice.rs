//! An advice in every format.

use std::{collections::BTreeMap, path::Path, time::Duration};

use fidelity_reports::{
    Style, advice_kinds_csv, advice_line, advice_sites_csv, advice_steps_csv, advice_terminal, write_advice,
};
use fidelity_trace::{BlockSite, Site};
use fidelity_verdict::{
    ADVICE_FORMAT, ADVICE_VERSION, Advice, AdviceConclusion, AdvicePrompts, AdviceProof, AdviceStep, AdviceTarget,
    Advised, BlockRange, KindEffect, Outcome, Promotable, Proven, Remedy, SiteSqnr, Trial,
};

use crate::sample::faithful;

fn trial(similarity: f64, bytes: f64) -> Trial {
    Trial {
        similarity: Some(similarity),
        standard_error: Some(0.001),
        top1: Some(0.9),
        top1_standard_error: Some(0.01),
        bytes,
    }
}

fn kind(kind: &str, what: Promotable, advised: Vec<BlockRange>) -> KindEffect {
    KindEffect {
        kind: kind.into(),
        what,
        bits: 8,
        promoted_bits: 16,
        bytes: 34_560.0,
        alone_low: Some(trial(0.4031, 0.0)),
        alone_promoted: None,
        blocks: vec![BlockRange { first: Some(0), last: Some(1) }],
        advised,
    }
}

fn proven(similarity: f64, reached: bool) -> Proven {
    Proven {
        recipe_sha256: "ab".repeat(32),
        verdict: Outcome::Degraded,
        similarity: Some(similarity),
        interval: Some([0.97, 0.99]),
        top1: Some(0.83),
        rows: 600,
        reached,
    }
}

fn advice() -> Advice {
    let range = |first, last| BlockRange { first: Some(first), last: Some(last) };
    let hostile = "<script>\u{1b}[31m\u{202e}=1+1";
    Advice {
        format: ADVICE_FORMAT.into(),
        version: ADVICE_VERSION,
        checkpoint: faithful().checkpoint,
        recipe: format!("a8w8{hostile}"),
        recipe_sha256: "cd".repeat(32),
        calibration: format!("file {hostile}"),
        target: AdviceTarget { similarity: 0.98, top1: None },
        prompts: AdvicePrompts {
            search: vec!["a".into()],
            held_out: vec![hostile.into()],
            repeated: vec!["c".into()],
            origin: hostile.into(),
        },
        conclusion: AdviceConclusion::Reached,
        reason: format!("0.54 → 0.98 {hostile}"),
        exit_code: 0,
        of_recipe: trial(0.5421, 0.0),
        of_everything: trial(0.999_999_97, 1e8),
        kinds: vec![
            kind("resid", Promotable::Activations, vec![range(0, 1)]),
            kind("act", Promotable::Activations, vec![range(1, 1)]),
            kind("down_proj", Promotable::Weights, Vec::new()),
        ],
        steps: vec![AdviceStep { back: "act in block 0".into(), trial: trial(0.98, 5.0), kept: true }],
        sites: BTreeMap::from([
            (
                Site::Block(0, BlockSite::Act),
                SiteSqnr { bits: Some(8), local_db: Some(30.0), cumulative_db: Some(29.0) },
            ),
            (Site::Block(1, BlockSite::Act), SiteSqnr { bits: Some(8), local_db: Some(-3.5), cumulative_db: None }),
        ]),
        remedies: vec![Remedy {
            name: "rotation, position 0: residual stream in 16 bits".into(),
            line: Some("pre_quantization_optimization(quarot)".into()),
            first_position: Some("residual16".into()),
            of_recipe: trial(0.91, 0.0),
            of_advised: None,
        }],
        advised: Some(Advised {
            lines: vec!["quantization_param([attn_add, mlp_add], precision_mode=a16_w16)".into()],
            text: "x\n".into(),
            trial: trial(0.983, 69_120.0),
        }),
        everything: None,
        proof: Some(AdviceProof { recipe: proven(0.54, false), advised: Some(proven(0.981, true)) }),
        trials: 70,
        notes: vec![hostile.into()],
    }
}

#[test]
fn an_advice_fits_the_terminal_and_nothing_from_outside_steers_it() {
    for width in [60, 80, 120] {
        let text = advice_terminal(&advice(), Style { width, colour: false });
        let script = |line: &&str| line.starts_with("quantization_param");
        assert!(text.lines().filter(|line| !script(line)).all(|line| line.chars().count() <= width), "{width}: {text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        // What is to be pasted stands on lines of its own.
        assert!(
            text.contains("\nquantization_param([attn_add, mlp_add], precision_mode=a16_w16)\n") || width < 80,
            "{text}"
        );
    }
    let text = advice_terminal(&advice(), Style::default());
    for said in ["REACHED", "34.6 kB", "8→16", "all", "-3.5", "not reached", "1-3.0e-8", "1 left out"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let line = advice_line(&advice(), Duration::from_secs(90), Path::new("out/advise.html"));
    assert!(line.starts_with("reached: a8w8") && line.ends_with("1 min 30 s · report out/advise.html"), "{line}");
}

#[test]
fn its_files_hold_every_kind_step_and_site() {
    let folder = tempfile::tempdir().expect("a folder");
    write_advice(folder.path(), &advice()).expect("writes");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("there");
    let back: Advice = serde_json::from_str(&read("advice.json")).expect("reads back");
    assert_eq!(back, advice());
    let page = read("advise.html");
    assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains("src="), "{page}");
    for said in ["banner faithful", "advised.alls", "rotation, position 0", "blocks.1.act"] {
        assert!(page.contains(said), "{said}");
    }
    let counts = [advice_kinds_csv(&advice()), advice_steps_csv(&advice()), advice_sites_csv(&advice())]
        .map(|csv| csv.lines().count());
    assert_eq!(counts, [4, 2, 3]);
    assert!(
        advice_kinds_csv(&advice())
            .lines()
            .nth(2)
            .is_some_and(|line| line.starts_with("act,activations,8,16,34560,0.4031"))
    );
}

#[test]
fn where_nothing_was_tried_only_the_reason_is_shown() {
    let empty = Advice {
        kinds: Vec::new(),
        sites: BTreeMap::new(),
        advised: None,
        proof: None,
        remedies: Vec::new(),
        steps: Vec::new(),
        conclusion: AdviceConclusion::Inconclusive,
        reason: "3 usable prompts".into(),
        ..advice()
    };
    let text = advice_terminal(&empty, Style::default());
    assert!(text.contains("INCONCLUSIVE  3 usable prompts") && !text.contains("One at a time"), "{text}");
}
