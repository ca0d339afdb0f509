//! Synthetic verdicts. Their numbers are made up, but of the size that real runs show.

mod diagnosed;
mod parts;

use std::collections::BTreeMap;

use fidelity_trace::{
    Arm, ArmKind, BlockSite, CheckpointIdentity, Deviation, Emulation, Fault, Intervention, Scope, Site, Status,
};
use fidelity_verdict::{
    Agreement, ArmIdentity, Arms, Bootstrap, FORMAT, FirstBadSite, Generated, Outcome, PromptResult, RowResult,
    Thresholds, VERSION, Verdict,
};
use serde_json::{Map, Value, json};

use self::{
    diagnosed::{gqa_tile, hostile as hostile_diagnosis},
    parts::{of_encoder, rounding, scope, summary, wrong_from_block_2},
};

pub(crate) use self::diagnosed::{recipe_alone, unexplained};

/// The size of a synthetic run.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) blocks: u32,
    pub(crate) prompts: usize,
    pub(crate) positions: u32,
}

const SMALL: Size = Size { blocks: 4, prompts: 2, positions: 8 };
/// A 30-block model on the default prompts.
pub(crate) const LARGE: Size = Size { blocks: 30, prompts: 16, positions: 96 };

/// Texts of tokens.
const WORDS: [&str; 7] = [" the", " fox", "'s", " understanding", "\n", " 漢字", "\u{fffd}"];

/// A faithful run in three scopes.
pub(crate) fn faithful() -> Verdict {
    sized(SMALL)
}

/// A faithful run of any size.
pub(crate) fn sized(size: Size) -> Verdict {
    let scopes = [Scope::Base, Scope::Prefill, Scope::Tbt].map(|at| (at, scope(size, Outcome::Faithful, rounding)));
    Verdict { scopes: scopes.into(), generated: Some(generated(size)), ..frame(size) }
}

/// A run with an injected fault that breaks base and tbt from block 2 on.
pub(crate) fn broken() -> Verdict {
    broken_of(SMALL)
}

/// As [`broken`], of any size.
pub(crate) fn broken_of(size: Size) -> Verdict {
    let mut verdict = sized(size);
    let bad = Site::Block(2, BlockSite::ResidMid);
    for at in [Scope::Base, Scope::Tbt] {
        let mut result = scope(size, Outcome::Broken, wrong_from_block_2);
        result.reason = "mean Pearson 0.59 is below 0.9".into();
        result.first_bad_site = Some(bad);
        result.first_bad_site_detail = Some(FirstBadSite {
            site: bad,
            median_relative_l2: Some(0.61),
            noise_floor: Some(1.2e-7),
            after: Some(Site::Block(1, BlockSite::ResidPost)),
        });
        verdict.scopes.insert(at, result);
    }
    verdict.verdict = Outcome::Broken;
    verdict.reason = "base is broken: mean Pearson 0.59 is below 0.9; first bad site blocks.2.resid_mid".into();
    verdict.exit_code = 1;
    verdict.arms.device.deviations.push(Deviation::from(&Intervention { block: Some(2), ..Fault::GqaTile.into() }));
    verdict.notes = vec!["The device carries an injected fault: the gate refuses this run.".into()];
    verdict.diagnosis = Some(gqa_tile());
    if let Some(generated) = &mut verdict.generated {
        generated.device_text[1] = format!(" The fox said{}", " the".repeat(29));
        generated.first_divergence[1] = Some(3);
        generated.matching_prefix[1] = 3;
        generated.device_degenerate[1] = true;
        generated.degenerate = true;
    }
    verdict
}

/// An encoder whose attention is wrong from block 2 on.
pub(crate) fn encoder() -> Verdict {
    let mut result = of_encoder(SMALL, Outcome::Broken, wrong_from_block_2);
    result.reason = "mean centred cosine 0.19 is below 0.90".into();
    result.first_bad_site = Some(Site::Block(2, BlockSite::ResidMid));
    let reason = format!("base: {}; first bad site blocks.2.resid_mid", result.reason);
    Verdict {
        scopes: BTreeMap::from([(Scope::Base, result)]),
        verdict: Outcome::Broken,
        exit_code: 1,
        reason,
        ..frame(SMALL)
    }
}

/// Nothing was compared.
pub(crate) fn empty() -> Verdict {
    let mut verdict = frame(Size { prompts: 1, ..SMALL });
    verdict.verdict = Outcome::Inconclusive;
    verdict.reason = "nothing was compared: every prompt failed".into();
    verdict.exit_code = 3;
    verdict.prompts[0].status = Status::Failed;
    verdict.prompts[0].error = Some("tbt: the device did not answer within 10 s".into());
    verdict
}

/// One prompt, only logits, some rows with NaN; the rest equal to the reference.
pub(crate) fn not_finite() -> Verdict {
    let size = Size { prompts: 1, ..SMALL };
    let mut verdict = sized(size);
    let mut result = scope(size, Outcome::Broken, rounding);
    result.reason = "2 rows are not finite".into();
    result.rows[3..5].iter_mut().for_each(|row| {
        *row = RowResult {
            finite: false,
            cosine: None,
            pearson: None,
            relative_l2: None,
            nmse: None,
            max_abs: None,
            kl: None,
            top1: Some(Agreement::Flip),
            top5: Some(Agreement::Flip),
            device_choice: None,
            rank: None,
            delta_log_prob: None,
            device_top5: Vec::new(),
            ..row.clone()
        };
    });
    result.sites.retain(|site, _| *site == Site::Logits);
    result.profile.sites.retain(|site, _| *site == Site::Logits);
    result.profile.sites.values_mut().for_each(|row| row[3..5].fill(None));
    result.blocks.clear();
    if let Some(logits) = result.sites.get_mut(&Site::Logits) {
        logits.non_finite_rows = 2;
        logits.relative_l2 = None;
    }
    verdict.scopes = BTreeMap::from([(Scope::Base, result)]);
    verdict.verdict = Outcome::Broken;
    verdict.reason = "base is broken: 2 rows are not finite".into();
    verdict.expect = vec!["broken".into()];
    verdict.generated = None;
    verdict
}

/// Text that tries to get out of wherever it is put.
pub(crate) const HOSTILE: &str = "=1+1</svg></title></style><script>alert(1)</script>\"onload=\"x\u{1b}[31m\u{202e}\n";

/// A broken run in which everything from outside is [`HOSTILE`].
pub(crate) fn hostile() -> Verdict {
    let text = || HOSTILE.to_owned();
    let mut verdict = broken();
    verdict.checkpoint = CheckpointIdentity {
        name: text(),
        source: text(),
        revision: Some(text()),
        weights_sha256: Some(text()),
        config: Value::String(text()),
    };
    for identity in [&mut verdict.arms.reference, &mut verdict.arms.device] {
        identity.arm.name = text();
        identity.arm.detail.insert(text(), json!(HOSTILE));
        identity.deviations.push(Deviation {
            kind: text(),
            name: text(),
            parameters: Map::from_iter([(text(), json!(HOSTILE))]),
        });
        identity.deviations.push(Deviation { kind: "intervention".into(), name: text(), parameters: Map::new() });
    }
    verdict.reason = text();
    verdict.notes = vec![text()];
    verdict.diagnosis = Some(hostile_diagnosis());
    verdict.thresholds.reason = Some(text());
    verdict.scopes.values_mut().for_each(|scope| scope.reason = text());
    for prompt in &mut verdict.prompts {
        (prompt.id, prompt.text, prompt.error, prompt.status) = (text(), Some(text()), Some(text()), Status::Failed);
    }
    verdict.token_text.values_mut().for_each(|token| *token = text());
    if let Some(generated) = &mut verdict.generated {
        generated.reference_text.fill(text());
        generated.device_text.fill(format!("{HOSTILE}{HOSTILE}"));
    }
    verdict
}

/// Every sample, by name.
pub(crate) fn all() -> [(&'static str, Verdict); 12] {
    let [torn, blind, exact] = odd();
    [
        ("faithful", faithful()),
        ("broken", broken()),
        ("unexplained", unexplained()),
        ("recipe_alone", recipe_alone()),
        ("encoder", encoder()),
        ("empty", empty()),
        ("not_finite", not_finite()),
        ("hostile", hostile()),
        ("deep", broken_of(LARGE)),
        ("torn", torn),
        ("blind", blind),
        ("exact", exact),
    ]
}

/// Verdicts whose parts do not fit each other, as another tool might write them.
pub(crate) fn odd() -> [Verdict; 3] {
    let mut torn = broken();
    torn.prompts.clear();
    torn.noise_floor.clear();
    if let Some(generated) = &mut torn.generated {
        *generated = Generated { prompts: vec![0, 9], ..Generated::default() };
    }
    let mut blind = sized(Size { blocks: 0, prompts: 1, positions: 1 });
    for result in blind.scopes.values_mut() {
        result.profile.positions.clear();
        result.rows.iter_mut().for_each(|row| (row.finite, row.pearson, row.kl) = (false, None, None));
        result.sites.values_mut().for_each(|site| (site.relative_l2, site.non_finite_rows) = (None, site.rows));
    }
    let mut exact = faithful();
    for result in exact.scopes.values_mut() {
        result
            .sites
            .values_mut()
            .for_each(|site| (site.exact_rows, site.relative_l2) = (site.rows, Some(summary(0.0, true, site.rows))));
        result.rows.iter_mut().for_each(|row| (row.pearson, row.kl) = (Some(1.0), Some(0.0)));
    }
    [torn, blind, exact]
}

fn reference() -> ArmIdentity {
    let detail = Map::from_iter([("dtype".into(), json!("f32")), ("engine".into(), json!("candle"))]);
    ArmIdentity {
        arm: Arm { kind: ArmKind::Reference, name: "float32".into(), detail },
        deviations: vec![],
        logits_step: None,
    }
}

fn device(deviations: Vec<Deviation>) -> ArmIdentity {
    let detail = Map::from_iter([("threads".into(), json!(4)), ("calibration".into(), json!({"prompts": 16}))]);
    ArmIdentity {
        arm: Arm { kind: ArmKind::Emulator, name: "w8a16".into(), detail },
        deviations,
        logits_step: Some(vec![0.0125, 0.0131]),
    }
}

fn prompt(index: usize, size: Size) -> PromptResult {
    let text = format!("Once upon a time, on day {index}, a fox met a crow who held a piece of cheese.");
    let token_ids = (100..100 + size.positions).collect();
    PromptResult { id: format!("p{index:04}"), text: Some(text), token_ids, status: Status::Ok, error: None }
}

fn generated(size: Size) -> Generated {
    let ids: Vec<u32> = (400..432).collect();
    let text = " The fox said that the crow had the finest voice in the wood.\nThe crow was pleased";
    Generated {
        prompts: (0..size.prompts).collect(),
        reference_ids: vec![ids.clone(); size.prompts],
        device_ids: vec![ids; size.prompts],
        reference_text: vec![text.into(); size.prompts],
        device_text: vec![text.into(); size.prompts],
        matching_prefix: vec![32; size.prompts],
        first_divergence: vec![None; size.prompts],
        degenerate: false,
        device_degenerate: vec![false; size.prompts],
        reference_degenerate: vec![false; size.prompts],
    }
}

/// A run without scopes.
fn frame(size: Size) -> Verdict {
    let recipe = Emulation::Quantisation {
        not_emulated: Vec::new(),
        recipe: "w8a16".into(),
        recipe_sha256: "5d".repeat(32),
        calibration: "16 prompts".into(),
        ranges_sha256: "7c1f".into(),
    };
    Verdict {
        format: FORMAT.into(),
        version: VERSION,
        checkpoint: CheckpointIdentity {
            name: "demo".into(),
            source: "embedded".into(),
            revision: None,
            weights_sha256: Some("ab".repeat(32)),
            config: Value::Null,
        },
        arms: Arms { reference: reference(), device: device(vec![Deviation::from(&recipe)]) },
        verdict: Outcome::Faithful,
        reason: "every scope is faithful; the worst, tbt, has mean Pearson 0.9998 and top-1 100 %".into(),
        expect: vec![],
        exit_code: 0,
        notes: vec![],
        thresholds: Thresholds::compiled_in(),
        bootstrap: Bootstrap { seed: 0, resamples: 1000 },
        noise_floor: Site::all(size.blocks).map(|site| (site.to_string(), 1.2e-7)).collect(),
        scopes: BTreeMap::new(),
        generated: None,
        prompts: (0..size.prompts).map(|index| prompt(index, size)).collect(),
        token_text: (100..310 + size.positions).map(|id| (id, WORDS[id as usize % WORDS.len()].to_owned())).collect(),
        attribution: None,
        diagnosis: None,
    }
}
