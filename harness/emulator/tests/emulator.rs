//! The emulator on the demo checkpoint.

use std::{collections::BTreeSet, path::Path};

use fidelity_emulator::{CalibrationSet, Distribution, Emulator, EmulatorError, LayerNames, Plan, Recipe};
use fidelity_references::{Checkpoint, Decoder};
use fidelity_trace::{BlockSite, Capture, Fault, Intervention, Request, Scope, Site, Subject, Taps};

const PROMPT: [u32; 12] = [0, 40, 77, 130, 9, 201, 33, 64, 300, 411, 58, 12];

fn checkpoint() -> Checkpoint {
    Checkpoint::demo().expect("compiled in")
}

fn float32(checkpoint: &Checkpoint) -> Decoder {
    checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete")
}

fn set(checkpoint: &Checkpoint) -> CalibrationSet {
    let below = |ids: &[u32]| ids.iter().map(|id| id % checkpoint.architecture().vocabulary as u32).collect();
    let prompts = [&[0, 50, 60, 70, 80, 90, 100][..], &[0, 300, 20, 310, 21, 320], &PROMPT].map(below).to_vec();
    CalibrationSet { origin: "test".into(), prompts, distribution: Distribution::Prompts }
}

fn planned(checkpoint: &Checkpoint, script: &str) -> (Recipe, Plan) {
    let recipe = Recipe::parse(script, "test", "test.alls").unwrap_or_else(|error| panic!("{error}"));
    let plan = recipe.plan(checkpoint.architecture(), &LayerNames::default());
    (recipe, plan.unwrap_or_else(|error| panic!("{error}")))
}

fn quantised(checkpoint: &Checkpoint, script: &str, set: &CalibrationSet) -> Result<Emulator, EmulatorError> {
    let (recipe, plan) = planned(checkpoint, script);
    Emulator::quantised(checkpoint, &recipe, &plan, &float32(checkpoint), set, None)
}

fn under(script: &str) -> Emulator {
    let checkpoint = checkpoint();
    quantised(&checkpoint, script, &set(&checkpoint)).expect("finite ranges")
}

fn emulator(mode: &str) -> Emulator {
    under(&format!("quantization_param({{*}}, precision_mode={mode})"))
}

fn captured(subject: &impl Subject) -> Capture {
    let mut capture = Capture::new(Taps::All);
    let request = Request { token_ids: &PROMPT, scopes: &[Scope::Base], continuation: Some(&[]), new_tokens: 0 };
    subject.run(&[request], std::slice::from_mut(&mut capture)).expect("computes");
    capture
}

fn values(capture: &Capture, site: Site) -> &[f32] {
    &capture.scopes[&Scope::Base].sites[&site].values
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let error: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
    (error / pairs().map(|(a, _)| a.powi(2)).sum::<f64>()).sqrt()
}

#[test]
fn fewer_bits_are_further_from_float32() {
    let exact = captured(&Emulator::float32(&checkpoint()).expect("complete"));
    let distances = ["a16_w16", "a16_w8", "a8_w8", "a8_w4"]
        .map(|mode| distance(values(&exact, Site::Logits), values(&captured(&emulator(mode)), Site::Logits)));
    assert!(distances.is_sorted() && distances[0] > 0.0, "{distances:?}");
    assert!(distances[0] < 2e-3 && distances[1] < 0.03 && distances[3] > 0.03, "{distances:?}");
}

#[test]
fn every_activation_lies_on_a_grid_of_its_bits() {
    let capture = captured(&emulator("a8_w8"));
    for (site, tensor) in &capture.scopes[&Scope::Base].sites {
        let levels: BTreeSet<u32> = tensor.values.iter().map(|value| value.to_bits()).collect();
        let bits = if *site == Site::Embed { 16 } else { 8 };
        assert!(levels.len() <= 1 << bits, "{site}: {} levels", levels.len());
    }
}

#[test]
fn logits_lie_on_the_step_that_the_trace_records() {
    let emulator = emulator("a8_w8");
    let step = emulator.logits_step().expect("quantised")[0];
    for value in values(&captured(&emulator), Site::Logits) {
        let steps = f64::from(*value) / step;
        assert!((steps - steps.round()).abs() < 1e-3, "{value} is {steps} steps");
    }
    assert_eq!(Emulator::float32(&checkpoint()).expect("complete").logits_step(), None);
}

#[test]
fn everything_done_to_the_computation_is_stamped() {
    let fault = Intervention { block: Some(1), ..Fault::MaskRepeated.into() };
    let deviations = emulator("a16_w8").with_faults(vec![fault]).expect("fits").deviations();
    let kinds: Vec<_> = deviations.iter().map(|deviation| (deviation.kind.as_str(), deviation.name.as_str())).collect();
    assert_eq!(kinds, [("emulation", "quantisation"), ("intervention", "mask_repeated")]);
    assert_eq!(deviations[0].parameters["calibration"], "test: 3 prompts of 25 tokens");
    assert!(deviations[0].not_emulated().next().is_some_and(|said| said.starts_with("what norms, softmax")));
    assert_eq!(deviations[1].parameters["block"], 1);
}

/// A checkpoint without a tokenizer.
fn golden(name: &str) -> Checkpoint {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens").join(name);
    Checkpoint::open(&folder, name).expect("supported")
}

fn captured_of(subject: &impl Subject, checkpoint: &Checkpoint) -> Capture {
    let token_ids = PROMPT.map(|id| id % checkpoint.architecture().vocabulary as u32);
    let mut capture = Capture::new(Taps::All);
    let request = Request { token_ids: &token_ids, scopes: &[Scope::Base], continuation: Some(&[]), new_tokens: 0 };
    subject.run(&[request], std::slice::from_mut(&mut capture)).expect("computes");
    capture
}

#[test]
fn an_encoder_is_quantised_at_every_site_but_those_of_the_host() {
    let checkpoint = golden("bert");
    let script = "quantization_param({*}, precision_mode=a8_w8)";
    let emulator = quantised(&checkpoint, script, &set(&checkpoint)).expect("finite ranges");
    assert_eq!(emulator.logits_step(), None);
    let capture = captured_of(&emulator, &checkpoint);
    let sites = &capture.scopes[&Scope::Base].sites;
    assert_eq!(sites.keys().copied().collect::<Vec<_>>(), checkpoint.architecture().sites().collect::<Vec<_>>());
    for (site, tensor) in sites {
        let levels: BTreeSet<u32> = tensor.values.iter().map(|value| value.to_bits()).collect();
        // What a block returns is what its last norm writes; an encoder's last hidden state is that of the last block.
        let on_the_host = matches!(site, Site::Embed | Site::Pooled);
        assert!(on_the_host || levels.len() <= 256, "{site}: {} levels", levels.len());
    }
}

#[test]
fn a_network_without_a_gate_can_be_quantised() {
    let checkpoint = golden("gpt2");
    let script = "quantization_param({*}, precision_mode=a16_w8)";
    assert!(quantised(&checkpoint, script, &set(&checkpoint)).is_ok());
}

/// The largest distance of any site from the checkpoint's own, relative.
fn furthest(checkpoint: &Checkpoint, plan: &Plan) -> (Site, f64) {
    let exact = captured_of(&Emulator::float32(checkpoint).expect("complete"), checkpoint);
    let prepared = captured_of(&Emulator::prepared(checkpoint, plan).expect("complete"), checkpoint);
    let sites = exact.scopes[&Scope::Base].sites.keys();
    let distances = sites.map(|site| (*site, distance(values(&exact, *site), values(&prepared, *site))));
    distances.max_by(|a, b| a.1.total_cmp(&b.1)).expect("sites")
}

const ROTATION: &str = "pre_quantization_optimization(quarot)";
const EQUALIZATION: &str = "pre_quantization_optimization(equalization)";

#[test]
fn rotation_and_equalization_are_exact_in_float() {
    // Biases, norms of q and k, several query heads a kv head, a width with an odd part, an untied head.
    for name in ["llama-gqa", "llama-bias", "llama-head-dim", "llama-mha-tied", "qwen2", "qwen3", "mistral-window"] {
        let checkpoint = golden(name);
        for script in [ROTATION.to_owned(), EQUALIZATION.to_owned(), format!("{ROTATION}\n{EQUALIZATION}")] {
            let (_, plan) = planned(&checkpoint, &script);
            assert!(plan.rotated || !plan.equalised.is_empty());
            let (site, distance) = furthest(&checkpoint, &plan);
            assert!(distance < 2e-5, "{name} under {script}: {site} is off by {distance:e}");
        }
    }
}

#[test]
fn rotation_changes_what_is_quantised_and_equalization_too() {
    let plain = captured(&emulator("a8_w8"));
    for script in [ROTATION, EQUALIZATION] {
        let changed = captured(&under(&format!("{script}\nquantization_param({{*}}, precision_mode=a8_w8)")));
        let distance = distance(values(&plain, Site::Logits), values(&changed, Site::Logits));
        assert!(distance > 1e-3 && distance < 0.5, "{script}: {distance}");
    }
}

#[test]
fn networks_that_a_rotation_would_change_are_left_as_they_are_and_it_is_said() {
    let checkpoint = golden("gpt2");
    let (_, plan) = planned(&checkpoint, &format!("{ROTATION}\n{EQUALIZATION}"));
    assert!(!plan.rotated);
    let said: Vec<&str> = plan.not_emulated.iter().map(|said| said.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(said[..2], ["quarot", "equalization"]);
    assert!(furthest(&checkpoint, &plan).1 < 2e-5);
}

/// Mean over rows of the difference of a site, by channel, as a length.
fn bias(exact: &Capture, found: &Capture, site: Site) -> f64 {
    let width = exact.scopes[&Scope::Base].sites[&site].row_len();
    let (exact, found) = (values(exact, site), values(found, site));
    let mean = |channel: usize| {
        let pairs = exact.iter().zip(found).skip(channel).step_by(width);
        pairs.map(|(a, b)| f64::from(*b) - f64::from(*a)).sum::<f64>() / (exact.len() / width) as f64
    };
    (0..width).map(|channel| mean(channel).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn bias_correction_takes_the_mean_error_off() {
    let checkpoint = checkpoint();
    // Calibrated on the prompt that is run.
    let own = CalibrationSet { prompts: vec![PROMPT.to_vec()], ..set(&checkpoint) };
    let run = |extra: &str| {
        let script = format!("quantization_param({{*}}, precision_mode=a16_w4)\n{extra}");
        captured(&quantised(&checkpoint, &script, &own).expect("finite ranges"))
    };
    let (plain, corrected) = (run(""), run("post_quantization_optimization(bias_correction, policy=enabled)"));
    let exact = captured(&Emulator::float32(&checkpoint).expect("complete"));
    // The first linear's input is the calibrated one; RoPE turns q and k, not v.
    let site = Site::Block(0, BlockSite::V);
    let biases = [bias(&exact, &plain, site), bias(&exact, &corrected, site)];
    assert!(biases[1] < biases[0] * 0.05, "{biases:?}");
    let only = run("post_quantization_optimization(bias_correction, layers={o_proj})");
    assert!((bias(&exact, &only, site) - biases[0]).abs() < 1e-9);
}

#[test]
fn groups_of_weights_are_nearer_than_whole_rows() {
    let distance_of = |script: &str| {
        let exact = captured(&Emulator::float32(&checkpoint()).expect("complete"));
        distance(values(&exact, Site::Logits), values(&captured(&under(script)), Site::Logits))
    };
    let rows = distance_of("quantization_param({*}, precision_mode=a16_w4)");
    let groups = distance_of("quantization_param({*}, precision_mode=a16_w4, weight_group_size=8)");
    assert!(groups < rows * 0.8, "{groups} against {rows}");
}

#[test]
fn a_cache_of_fewer_bits_is_what_attention_reads() {
    let script = "quantization_param({*}, precision_mode=a16_w8)\nquantization_param({kv_cache}, precision_mode=a8_w8)";
    let capture = captured(&under(script));
    let levels = |site| {
        let values = values(&capture, Site::Block(0, site));
        values.iter().map(|value| value.to_bits()).collect::<BTreeSet<_>>().len()
    };
    assert!(levels(BlockSite::K) <= 256 && levels(BlockSite::V) <= 256 && levels(BlockSite::Q) > 256);
}

#[test]
fn percentiles_narrow_a_range_and_are_no_mismatch_of_the_calibration() {
    let clipping = "pre_quantization_optimization(activation_clipping, mode=percentile, clipping_values=[2, 98])";
    let own = CalibrationSet { prompts: vec![PROMPT.to_vec()], ..set(&checkpoint()) };
    let script = format!("{clipping}\nquantization_param({{*}}, precision_mode=a8_w8)");
    let clipped = quantised(&checkpoint(), &script, &own).expect("finite ranges");
    assert!(
        clipped.logits_step().expect("quantised")[0] < emulator("a8_w8").logits_step().expect("quantised")[0] * 0.9
    );
    let outside = captured(&clipped).outside_range;
    // The first site is the calibrated one; those behind it carry the clipping's own error.
    let first = outside.get(&Scope::Base).and_then(|sites| sites.get(&Site::Block(0, BlockSite::AttnNorm)));
    assert!(first.is_none_or(|range| range.widths < 0.01), "{first:?}");
}

#[test]
fn what_lies_outside_the_calibrated_range_is_counted_by_scope_and_site() {
    let checkpoint = checkpoint();
    let script = "quantization_param({*}, precision_mode=a16_w8)";
    let outside = |distribution| {
        let set = CalibrationSet { distribution, ..set(&checkpoint) };
        let emulator = quantised(&checkpoint, script, &set).expect("finite ranges");
        captured(&emulator).outside_range.remove(&Scope::Base).unwrap_or_default()
    };
    let (right, wrong) = (outside(Distribution::Prompts), outside(Distribution::Normal));
    let most = |sites: &std::collections::BTreeMap<Site, fidelity_trace::OutsideRange>| {
        sites.values().map(|range| range.outside as f64 / range.values as f64).fold(0.0, f64::max)
    };
    assert!(most(&right) < 0.01 && most(&wrong) > 5.0 * most(&right), "{} {}", most(&right), most(&wrong));
    assert!(wrong.values().all(|range| range.outside <= range.values && (range.outside > 0) == (range.widths > 0.0)));
}

#[test]
fn a_small_set_is_used_whole_and_that_it_is_small_is_said() {
    let more = under("model_optimization_config(calibration, calibset_size=64)").deviations();
    let said: Vec<&str> = more[0].not_emulated().collect();
    assert_eq!(said[1..], ["calibset_size=64 (the set has 3 prompts)"]);
    let fewer = under("model_optimization_config(calibration, calibset_size=2)").deviations();
    assert_eq!(fewer[0].parameters["calibration"], "test: 2 prompts of 13 tokens");
    assert_eq!(fewer[0].not_emulated().count(), 1);
}

#[test]
fn a_network_that_overflows_in_calibration_is_refused() {
    let checkpoint = checkpoint();
    let (recipe, plan) = planned(&checkpoint, "quantization_param({*}, precision_mode=a16_w8)");
    let poisoned = checkpoint.decoder(&|_, tensor| tensor * f64::INFINITY).expect("loads");
    let error =
        Emulator::quantised(&checkpoint, &recipe, &plan, &poisoned, &set(&checkpoint), None).err().expect("not finite");
    assert!(error.to_string().contains("expected finite values"), "{error}");
}
