//! The emulator on the demo checkpoint.

use std::{collections::BTreeSet, path::Path};

use fidelity_emulator::{Emulator, Ranges, Recipe, calibrate};
use fidelity_references::{Checkpoint, Decoder};
use fidelity_trace::{BlockSite, Capture, Fault, Intervention, Request, Scope, Site, Subject, Taps};

const PROMPT: [u32; 12] = [0, 40, 77, 130, 9, 201, 33, 64, 300, 411, 58, 12];

fn checkpoint() -> Checkpoint {
    Checkpoint::demo().expect("compiled in")
}

fn float32(checkpoint: &Checkpoint) -> Decoder {
    checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete")
}

fn ranges(checkpoint: &Checkpoint, jobs: usize) -> Ranges {
    let prompts = [vec![0, 50, 60, 70, 80, 90, 100], vec![0, 300, 20, 310, 21, 320], PROMPT.to_vec()];
    calibrate(&float32(checkpoint), &prompts, jobs).expect("computes")
}

fn emulator(mode: &str) -> Emulator {
    let recipe = format!("quantization_param({{*}}, precision_mode={mode})");
    let recipe = Recipe::parse(&recipe, mode, "test.alls").expect("valid");
    let checkpoint = checkpoint();
    Emulator::quantised(&checkpoint, recipe, &ranges(&checkpoint, 2), "test").expect("finite ranges")
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
fn calibration_does_not_depend_on_the_number_of_jobs() {
    let checkpoint = checkpoint();
    assert_eq!(ranges(&checkpoint, 1), ranges(&checkpoint, 3));
}

#[test]
fn everything_done_to_the_computation_is_stamped() {
    let fault = Intervention { fault: Fault::MaskRepeated, block: Some(1) };
    let deviations = emulator("a16_w8").with_faults(vec![fault]).deviations();
    let kinds: Vec<_> = deviations.iter().map(|deviation| (deviation.kind.as_str(), deviation.name.as_str())).collect();
    assert_eq!(kinds, [("emulation", "quantisation"), ("intervention", "mask_repeated")]);
    assert_eq!(deviations[0].parameters["calibration"], "test");
    assert_eq!(deviations[1].parameters["block"], 1);
}

/// A checkpoint without a tokenizer, and its ranges.
fn golden(name: &str) -> (Checkpoint, Ranges) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens").join(name);
    let checkpoint = Checkpoint::open(&folder, name).expect("supported");
    let prompts = [vec![0, 50, 60, 70, 80, 90, 100], PROMPT.map(|id| id % 320).to_vec()];
    let ranges = calibrate(&float32(&checkpoint), &prompts, 2).expect("computes");
    (checkpoint, ranges)
}

#[test]
fn an_encoder_is_quantised_at_every_site_but_those_of_the_host() {
    let (checkpoint, ranges) = golden("bert");
    let recipe = Recipe::parse("quantization_param({*}, precision_mode=a8_w8)", "a8w8", "test.alls").expect("valid");
    let emulator = Emulator::quantised(&checkpoint, recipe, &ranges, "test").expect("finite ranges");
    assert_eq!(emulator.logits_step(), None);
    let token_ids = PROMPT.map(|id| id % 320);
    let mut capture = Capture::new(Taps::All);
    let request = Request { token_ids: &token_ids, scopes: &[Scope::Base], continuation: Some(&[]), new_tokens: 0 };
    emulator.run(&[request], std::slice::from_mut(&mut capture)).expect("computes");
    let sites = &capture.scopes[&Scope::Base].sites;
    assert_eq!(sites.keys().copied().collect::<Vec<_>>(), checkpoint.architecture().sites().collect::<Vec<_>>());
    for (site, tensor) in sites {
        let levels: BTreeSet<u32> = tensor.values.iter().map(|value| value.to_bits()).collect();
        let on_the_host = matches!(site, Site::Embed | Site::Pooled);
        assert!(on_the_host || levels.len() <= 256, "{site}: {} levels", levels.len());
    }
    // The sum before the last norm has a grid of its own: outliers live there.
    let sum = Site::Block(0, BlockSite::ResidSum);
    assert!(ranges.get(sum).is_some_and(|(min, max)| min < 0.0 && max > 0.0));
}

#[test]
fn a_network_without_a_gate_can_be_quantised() {
    let (checkpoint, ranges) = golden("gpt2");
    let recipe = Recipe::parse("quantization_param({*}, precision_mode=a16_w8)", "a16w8", "test.alls").expect("valid");
    assert!(Emulator::quantised(&checkpoint, recipe, &ranges, "test").is_ok());
}
