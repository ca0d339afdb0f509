//! Position 0 apart, calibrations that are shared, and promotions as lines.

use std::path::Path;

use fidelity_emulator::{
    Calibrated, CalibrationSet, Distribution, Emulator, EmulatorError, LayerNames, Plan, Promotions, Recipe,
};
use fidelity_references::Checkpoint;
use fidelity_trace::{BlockSite, Capture, FirstPosition, Request, Scope, Site, Subject, Taps};

const PROMPT: [u32; 12] = [0, 40, 77, 130, 9, 201, 33, 64, 300, 411, 58, 12];
const ALL_8: &str = "quantization_param({*}, precision_mode=a8_w8)";

fn golden(name: &str) -> Checkpoint {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens").join(name);
    Checkpoint::open(&folder, name).expect("supported")
}

fn set(checkpoint: &Checkpoint) -> CalibrationSet {
    let below = |ids: &[u32]| ids.iter().map(|id| id % checkpoint.architecture().vocabulary as u32).collect();
    let prompts = [&[0, 50, 60, 70, 80, 90, 100][..], &[3, 300, 20, 310, 21, 320], &PROMPT].map(below).to_vec();
    CalibrationSet { origin: "test".into(), prompts, distribution: Distribution::Prompts }
}

fn planned(checkpoint: &Checkpoint, script: &str) -> (Recipe, Plan) {
    let recipe = Recipe::parse(script, "test", "test.alls").unwrap_or_else(|error| panic!("{error}"));
    let plan = recipe.plan(checkpoint.architecture(), &LayerNames::default());
    (recipe, plan.unwrap_or_else(|error| panic!("{error}")))
}

fn emulator(checkpoint: &Checkpoint, script: &str, first: Option<FirstPosition>) -> Emulator {
    let (recipe, plan) = planned(checkpoint, script);
    let float32 = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    Emulator::quantised(checkpoint, &recipe, &plan, &float32, &set(checkpoint), first).expect("finite ranges")
}

/// Prefill and forced steps of two prompts together.
fn captured(subject: &impl Subject, checkpoint: &Checkpoint) -> Vec<Capture> {
    let below = |ids: &[u32]| ids.iter().map(|id| id % checkpoint.architecture().vocabulary as u32).collect::<Vec<_>>();
    let prompts = [below(&PROMPT), below(&[7, 8, 9, 10, 11])];
    let request = |token_ids| Request {
        token_ids,
        scopes: &[Scope::Base, Scope::Prefill, Scope::Tbt],
        continuation: Some(&[5, 6, 7]),
        new_tokens: 3,
    };
    let mut captures = vec![Capture::new(Taps::All); 2];
    let requests: Vec<_> = prompts.iter().map(|prompt| request(prompt.as_slice())).collect();
    subject.run(&requests, &mut captures).expect("computes");
    captures
}

fn values(captures: &[Capture], scope: Scope, site: Site) -> Vec<f32> {
    captures.iter().flat_map(|capture| capture.scopes[&scope].sites[&site].values.clone()).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let error: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
    (error / pairs().map(|(a, _)| a.powi(2)).sum::<f64>()).sqrt()
}

#[test]
fn the_prefix_is_exact_in_float() {
    for (name, script) in
        [("llama-gqa", ALL_8), ("mistral-window", ALL_8), ("qwen3", "pre_quantization_optimization(quarot)")]
    {
        let checkpoint = golden(name);
        let (_, plan) = planned(&checkpoint, script);
        let exact = captured(&Emulator::float32(&checkpoint).expect("complete"), &checkpoint);
        let prefix = Emulator::prepared_with_prefix(&checkpoint, &plan).expect("complete");
        let found = captured(&prefix, &checkpoint);
        for scope in [Scope::Prefill, Scope::Tbt] {
            for site in
                checkpoint.architecture().sites().filter(|site| found[0].scopes[&scope].sites.contains_key(site))
            {
                let off = distance(&values(&exact, scope, site), &values(&found, scope, site));
                assert!(off < 2e-5, "{name} {scope}/{site}: {off:e}");
            }
        }
    }
}

#[test]
fn under_a_recipe_position_0_is_the_checkpoint_s_own_and_the_others_are_not() {
    let checkpoint = golden("llama-gqa");
    let exact = captured(&Emulator::float32(&checkpoint).expect("complete"), &checkpoint);
    let prefix = emulator(&checkpoint, ALL_8, Some(FirstPosition::Prefix));
    assert_eq!(prefix.deviations()[1].parameters["way"], "prefix");
    assert_eq!(prefix.deviations()[1].kind, "emulation");
    let found = captured(&prefix, &checkpoint);
    for site in [Site::Block(1, BlockSite::K), Site::Block(1, BlockSite::ResidPost), Site::Logits] {
        for (exact, found) in exact.iter().zip(&found) {
            let rows = [exact, found].map(|capture| &capture.scopes[&Scope::Base].sites[&site]);
            assert!(distance(rows[0].row(0), rows[1].row(0)) < 1e-5, "{site}");
            assert!(distance(rows[0].row(1), rows[1].row(1)) > 1e-4, "{site}");
        }
    }
}

#[test]
fn ranges_of_the_others_are_calibrated_without_position_0() {
    let checkpoint = golden("llama-gqa");
    let float32 = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    let (recipe, plan) = planned(&checkpoint, ALL_8);
    // Every prompt begins with the same token, so that its row alone is what sets the ranges apart.
    let all = set(&checkpoint);
    let emulated = |first, prompts: &[Vec<u32>]| {
        let set = CalibrationSet { prompts: prompts.to_vec(), ..all.clone() };
        let made =
            Calibrated::new(&checkpoint, &plan, &float32, &set, first).and_then(|it| it.emulator(&recipe, &plan));
        made.expect("finite ranges").logits_step().expect("quantised")[0]
    };
    let steps = [None, Some(FirstPosition::Residual16), Some(FirstPosition::Every16), Some(FirstPosition::Prefix)];
    let steps = steps.map(|first| emulated(first, &all.prompts));
    // Logits are no residual stream; where position 0 is apart, the step can only be finer.
    assert!((steps[0] - steps[1]).abs() < 1e-12, "{steps:?}");
    assert!((steps[2] - steps[3]).abs() < 1e-12 && steps[2] <= steps[0], "{steps:?}");
}

#[test]
fn sixteen_bits_of_position_0_are_finer_than_eight() {
    let checkpoint = golden("llama-gqa");
    let exact = captured(&Emulator::float32(&checkpoint).expect("complete"), &checkpoint);
    let row = |first| {
        let found = captured(&emulator(&checkpoint, ALL_8, first), &checkpoint);
        let site = Site::Block(0, BlockSite::ResidMid);
        distance(exact[0].scopes[&Scope::Base].sites[&site].row(0), found[0].scopes[&Scope::Base].sites[&site].row(0))
    };
    let (plain, residual, every) = (row(None), row(Some(FirstPosition::Residual16)), row(Some(FirstPosition::Every16)));
    assert!(residual < plain && every < residual, "{plain} {residual} {every}");
}

#[test]
fn an_encoder_has_no_position_that_stands_alone() {
    let checkpoint = golden("bert");
    let float32 = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    let (_, plan) = planned(&checkpoint, ALL_8);
    let refused = Calibrated::new(&checkpoint, &plan, &float32, &set(&checkpoint), Some(FirstPosition::Prefix));
    assert!(matches!(refused.err(), Some(EmulatorError::NoFirstPosition)));
}

#[test]
fn emulators_that_share_a_calibration_and_weights_are_those_made_alone() {
    for name in ["llama-gqa", "llama-mha-tied"] {
        let checkpoint = golden(name);
        let float32 = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
        let lines = [
            "",
            "quantization_param({*}, precision_mode=a8_w16)",
            "quantization_param([down_proj, blocks.0.q_proj], precision_mode=a16_w16_a8)",
            "quantization_param([lm_head, {*_add}], precision_mode=a16_w16)",
            "quantization_param([gate_proj, k_proj], precision_mode=a8_w4)",
        ];
        let (_, base) = planned(&checkpoint, ALL_8);
        let shared = Calibrated::new(&checkpoint, &base, &float32, &set(&checkpoint), None).expect("finite ranges");
        for line in lines {
            let (recipe, plan) = planned(&checkpoint, &format!("{ALL_8}\n{line}"));
            let made = shared.emulator(&recipe, &plan).expect("fits");
            let alone = emulator(&checkpoint, recipe.text(), None);
            let [a, b] = [captured(&made, &checkpoint), captured(&alone, &checkpoint)];
            let same = distance(&values(&a, Scope::Tbt, Site::Logits), &values(&b, Scope::Tbt, Site::Logits));
            assert!(same.abs() < 1e-12, "{name} {line}: {same:e}");
        }
        let (recipe, rotated) = planned(&checkpoint, "pre_quantization_optimization(quarot)");
        assert!(matches!(shared.emulator(&recipe, &rotated).err(), Some(EmulatorError::OtherCalibration)));
    }
}

#[test]
fn lines_of_promotions_promote_what_they_say_and_nothing_else() {
    for name in ["llama-gqa", "gpt2", "bert", "qwen3"] {
        let checkpoint = golden(name);
        let a = checkpoint.architecture();
        let recipes = [
            ALL_8,
            "quantization_param({*}, precision_mode=a8_w4)",
            "quantization_param(lm_head, precision_mode=a8_w8)",
        ];
        for script in recipes.into_iter().filter(|script| a.computes(Site::Logits) || !script.contains("lm_head")) {
            let (_, base) = planned(&checkpoint, script);
            let one =
                base.activations.keys().map(|site| Promotions { activations: [*site].into(), weights: [].into() });
            let weights = base
                .weights
                .iter()
                .map(|(site, grid)| Promotions { activations: [].into(), weights: [(*site, grid.bits * 2)].into() });
            let all = Promotions {
                activations: base.activations.keys().copied().collect(),
                weights: base.weights.keys().map(|site| (*site, 16)).collect(),
            };
            for promotions in one.chain(weights).chain([all, Promotions::default()]) {
                let lines = promotions.lines(&base);
                assert_eq!(lines.is_empty(), promotions.is_empty(), "{promotions:?}");
                let (_, promoted) = planned(&checkpoint, &format!("{script}\n{}", lines.join("\n")));
                assert!(promotions.are_all_of(&base, &promoted), "{name}, {script}: {promotions:?} by {lines:?}");
                assert!(lines.iter().flat_map(|line| line.lines()).all(|line| line.len() <= 80), "{lines:?}");
            }
        }
    }
}

#[test]
fn a_kind_in_every_block_is_named_once_and_some_blocks_by_name() {
    let checkpoint = golden("llama-gqa");
    let (_, base) = planned(&checkpoint, ALL_8);
    let blocks = checkpoint.architecture().blocks as u32;
    let of = |block| Site::Block(block, BlockSite::Act);
    let every = Promotions { activations: (0..blocks).map(of).collect(), weights: [].into() };
    let expected = [
        "quantization_param(swiglu_mult, precision_mode=a16_w16)",
        "quantization_param(down_proj, precision_mode=a16_w8_a8)",
    ];
    assert_eq!(every.lines(&base), expected);
    let but_one = Promotions { activations: (0..blocks - 1).map(of).collect(), weights: [].into() };
    assert!(!but_one.lines(&base)[0].contains('?'), "{:?}", but_one.lines(&base));
    let last = Promotions { activations: [of(blocks - 1)].into(), weights: [].into() };
    assert!(last.lines(&base)[0].contains(&format!("(blocks.{}.swiglu_mult,", blocks - 1)), "{:?}", last.lines(&base));
}

#[test]
fn ten_blocks_are_a_pattern_where_all_ten_are_meant() {
    let config = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens/llama-gqa/config.json"),
    );
    let config = config.expect("there").replace("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 24");
    let a = fidelity_references::Architecture::parse(config.as_bytes(), None, "config.json").expect("supported");
    let planned = |script: &str| {
        let recipe = Recipe::parse(script, "test", "test.alls").unwrap_or_else(|error| panic!("{error}"));
        recipe.plan(&a, &LayerNames::default()).unwrap_or_else(|error| panic!("{error}"))
    };
    let base = planned(ALL_8);
    for (blocks, name) in [
        (9..24, "[blocks.9.attn_add, {blocks.1?.attn_add}, {blocks.2?.attn_add}]"),
        (0..11, "[{blocks.?.attn_add}, blocks.10.attn_add]"),
        (20..23, "[blocks.20.attn_add, blocks.21.attn_add, blocks.22.attn_add]"),
        (20..24, "{blocks.2?.attn_add}"),
        (0..24, "attn_add"),
    ] {
        let site = |block| Site::Block(block, BlockSite::ResidMid);
        let promotions = Promotions { activations: blocks.map(site).collect(), weights: [].into() };
        let lines = promotions.lines(&base).join("\n");
        assert!(lines.replace("\n    ", " ").starts_with(&format!("quantization_param({name}, ")), "{lines}");
        assert!(promotions.are_all_of(&base, &planned(&format!("{ALL_8}\n{lines}"))), "{lines}");
    }
}
