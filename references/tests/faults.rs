//! Injected faults: each shows the signature that part 3 of the fault literature gives it, and only that.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{Result, Tensor};
use common::{golden, golden_folder, reference, relative_l2};
use fidelity_references::{Chunk, Decoder, Instrument, Part, Visibility, run_scopes};
use fidelity_trace::{BlockSite, Capture, Fault, FaultValue, Intervention, Places, Request, Scope, Site, Taps};

/// Keeps one site.
struct Keep(Site, Option<Tensor>);

impl Instrument for Keep {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        if site == self.0 {
            self.1 = Some(tensor.clone());
        }
        Ok(tensor)
    }
}

fn site(decoder: &Decoder, tokens: usize, fault: Option<Fault>, block: Option<u32>, site: Site) -> Tensor {
    let ids = golden(&golden_folder("llama-gqa").join("golden.safetensors")).integers["token_ids"].clone();
    let positions: Vec<u32> = (0..tokens as u32).collect();
    let chunk = Chunk { token_ids: &ids[..tokens], positions: &positions, visibility: Visibility::Causal };
    let faults = fault.map(|fault| Intervention { block, ..fault.into() }).into_iter().collect();
    let (decoder, wiring) = decoder.with_faults(faults).expect("fits");
    let mut keep = Keep(site, None);
    decoder.forward(&chunk, None, &wiring, &mut keep).expect("computes");
    keep.1.expect("every site is seen")
}

fn errors(fault: Fault, tokens: usize) -> Vec<f64> {
    let reference = reference(&golden_folder("llama-gqa"));
    let rows = |fault| site(reference.decoder(), tokens, fault, None, Site::Logits).to_vec2::<f32>().expect("float32");
    rows(None).iter().zip(&rows(Some(fault))).map(|(right, wrong)| relative_l2(right, wrong)).collect()
}

/// What the first signatures are of.
const OF_ATTENTION: [Fault; 4] =
    [Fault::SoftmaxAcrossHeads, Fault::MaskRepeated, Fault::GqaTile, Fault::RopeInterleaved];

#[test]
fn one_token_splits_the_faults() {
    for fault in OF_ATTENTION {
        let error = errors(fault, 1)[0];
        let seen = match fault {
            // With one legal key every right head weight is 1, so what concerns q, k and masks cannot matter.
            Fault::RopeInterleaved | Fault::MaskRepeated => error < 1e-6,
            _ => error > 0.01,
        };
        assert!(seen, "{}: {error:.2e}", fault.name());
    }
}

#[test]
fn every_fault_is_seen_in_a_prompt() {
    for fault in OF_ATTENTION {
        let errors = errors(fault, 24);
        assert!(errors[23] > 0.01, "{}: {:.2e}", fault.name(), errors[23]);
    }
}

#[test]
fn rope_is_right_at_position_0_and_the_repeated_mask_leaks_there() {
    assert!(errors(Fault::RopeInterleaved, 24)[0] < 1e-6);
    assert!(errors(Fault::MaskRepeated, 24)[0] > 0.01);
}

#[test]
fn one_softmax_shares_one_unit_of_mass_among_the_heads() {
    let reference = reference(&golden_folder("llama-gqa"));
    let mass = |fault| {
        let pattern = site(reference.decoder(), 8, fault, None, Site::Block(0, BlockSite::Pattern));
        pattern.sum_all().and_then(|sum| sum.to_scalar::<f32>()).expect("float32")
    };
    assert!((mass(None) - 4.0 * 8.0).abs() < 1e-4, "four heads, eight rows");
    assert!((mass(Some(Fault::SoftmaxAcrossHeads)) - 8.0).abs() < 1e-4);
}

#[test]
fn tiled_heads_leave_exactly_those_right_that_tile_and_repeat_agree_on() {
    let reference = reference(&golden_folder("llama-gqa"));
    let heads = |fault| {
        let z = site(reference.decoder(), 8, fault, None, Site::Block(0, BlockSite::Z));
        z.get(7).and_then(|row| row.reshape((4, 16))).and_then(|z| z.to_vec2::<f32>()).expect("4 heads of 16")
    };
    let (right, wrong) = (heads(None), heads(Some(Fault::GqaTile)));
    let intact: Vec<usize> = (0..4).filter(|head| relative_l2(&right[*head], &wrong[*head]) < 1e-6).collect();
    // h div 2 == h mod 2 for heads 0 and 3 of 4 query and 2 kv heads.
    assert_eq!(intact, [0, 3]);
}

#[test]
fn a_fault_in_one_block_leaves_the_blocks_before_it_alone() {
    let reference = reference(&golden_folder("llama-gqa"));
    let after = |block, fault| {
        let tensor = site(reference.decoder(), 8, fault, Some(1), Site::Block(block, BlockSite::ResidPost));
        tensor.flatten_all().and_then(|values| values.to_vec1::<f32>()).expect("float32")
    };
    let error = |block| relative_l2(&after(block, None), &after(block, Some(Fault::SoftmaxAcrossHeads)));
    assert!(error(0) < f64::EPSILON && error(1) > 0.01);
}

/// What a prompt and its steps come to in a golden checkpoint under faults: logits by scope and position.
fn logits(folder: &str, faults: Vec<Intervention>) -> BTreeMap<(Scope, u32), Vec<f32>> {
    let checkpoint = fidelity_references::Checkpoint::open(&golden_folder(folder), folder).expect("opens");
    let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("loads");
    let ids = golden(&golden_folder(folder).join("golden.safetensors")).integers["token_ids"].clone();
    let (decoder, wiring) = decoder.with_faults(faults).expect("fits");
    let continuation: Vec<u32> = ids.iter().rev().take(5).copied().collect();
    let request = Request {
        token_ids: &ids[..20],
        scopes: &[Scope::Prefill, Scope::Tbt],
        continuation: Some(&continuation),
        new_tokens: 5,
    };
    let mut captures = [Capture::new(Taps::List(Vec::new()))];
    run_scopes(&decoder, &wiring, &mut Untouched, &[request], &mut captures).expect("computes");
    let [capture] = captures;
    let of_scope = |(scope, captured): (Scope, fidelity_trace::ScopeCapture)| {
        let logits = captured.sites[&Site::Logits].clone();
        let rows = captured.positions.iter().enumerate().map(|(row, at)| ((scope, *at), logits.row(row).to_vec()));
        rows.collect::<Vec<_>>()
    };
    capture.scopes.into_iter().flat_map(of_scope).collect()
}

struct Untouched;

impl Instrument for Untouched {
    fn at(&mut self, _: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        Ok(tensor)
    }
}

/// Relative L2 of the worst row of a scope; infinite where a row is not finite.
fn worst(right: &BTreeMap<(Scope, u32), Vec<f32>>, wrong: &BTreeMap<(Scope, u32), Vec<f32>>, scope: Scope) -> f64 {
    let rows = right.iter().filter(|((its, _), _)| *its == scope);
    let error = |(at, row): (&(Scope, u32), &Vec<f32>)| match wrong.get(at) {
        Some(other) if other.iter().all(|value| value.is_finite()) => relative_l2(row, other),
        Some(_) => f64::INFINITY,
        None => 0.0,
    };
    rows.map(error).fold(0.0, f64::max)
}

#[test]
fn every_fault_of_the_bank_happens_somewhere_and_is_refused_where_it_would_not() {
    let folders = ["llama-gqa", "qwen2-window", "qwen3", "gpt2", "llama-rope-yarn", "llama-bias"];
    let value = |fault: Fault| match fault {
        Fault::NormEps => Some(FaultValue::Number(1e-2)),
        Fault::ActivationClipped => Some(FaultValue::Clip { site: BlockSite::V, limit: 0.2 }),
        Fault::RopeTheta => Some(FaultValue::Number(3e4)),
        Fault::RopeTablesDiffer => Some(FaultValue::Number(3e4)),
        Fault::Overflow => Some(FaultValue::Number(0.5)),
        _ => None,
    };
    let block = |fault: Fault| (fault.places() == Places::OneBlock).then_some(0);
    let mut seen = BTreeSet::new();
    for folder in folders {
        let checkpoint = fidelity_references::Checkpoint::open(&golden_folder(folder), folder).expect("opens");
        let right = logits(folder, Vec::new());
        for fault in Fault::ALL {
            let intervention = Intervention { fault, block: block(fault), value: value(fault) };
            if checkpoint.architecture().immune_to(&intervention).is_some() {
                continue;
            }
            let wrong = logits(folder, vec![intervention]);
            let [prompt, steps] = [Scope::Prefill, Scope::Tbt].map(|scope| worst(&right, &wrong, scope));
            assert!(prompt.max(steps) > 1e-6, "{intervention} in {folder}: {prompt:.1e} {steps:.1e}");
            let of_steps = matches!(
                fault,
                Fault::MaskOffsetLost
                    | Fault::RopeTablesDiffer
                    | Fault::PositionShift
                    | Fault::KvLayout
                    | Fault::KvOffset
                    | Fault::KvRotated
                    | Fault::KvStale
                    | Fault::KvHistoryLost
                    | Fault::KvTruncated
            );
            assert!(!of_steps || prompt < 1e-6, "{intervention} in {folder} changes the prompt: {prompt:.1e}");
            seen.insert(fault);
        }
    }
    let unseen: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| !seen.contains(fault)).collect();
    assert!(unseen.is_empty(), "never tried: {unseen:?}");
}

#[test]
fn faults_that_come_to_the_same_compute_the_same() {
    let same = |folder: &str, one: &str, other: &str| {
        let of = |text: &str| logits(folder, vec![text.parse().expect("a fault")]);
        let (one, other) = (of(one), of(other));
        [Scope::Prefill, Scope::Tbt].map(|scope| worst(&one, &other, scope))
    };
    for (folder, one, other) in [
        // q and k both scaled by m are scores scaled by m².
        ("llama-gqa", "rope_magnitude=1.5", "score_scale=2.25"),
        ("llama-gqa", "kv_truncated=1", "kv_history_lost"),
        ("llama-gqa", "shards_swapped=0-1/2", "shards_swapped=1-0/2"),
        ("qwen2-window", "rope_twice", "rope_twice=both"),
        ("gpt2", "position_shift", "position_shift=1"),
    ] {
        let errors = same(folder, one, other);
        assert!(errors.iter().all(|error| *error < 1e-5), "{one} {other}: {errors:?}");
    }
}

#[test]
fn a_uniform_shift_of_positions_changes_nothing_under_rope() {
    let llama = fidelity_references::Checkpoint::open(&golden_folder("llama-gqa"), "llama").expect("opens");
    let gpt2 = fidelity_references::Checkpoint::open(&golden_folder("gpt2"), "gpt2").expect("opens");
    let shift: Intervention = "position_shift=uniform:3".parse().expect("a fault");
    assert!(llama.architecture().immune_to(&shift).is_some() && gpt2.architecture().immune_to(&shift).is_none());
    let bias: Intervention = "attention_bias_dropped=k".parse().expect("a fault");
    assert!(gpt2.architecture().immune_to(&bias).is_some(), "softmax takes a bias of keys off again");
}

#[test]
fn another_sequence_is_fed_and_its_rows_keep_their_names() {
    let right = logits("llama-gqa", Vec::new());
    let missing = logits("llama-gqa", vec![Fault::BosMissing.into()]);
    let doubled = logits("llama-gqa", vec![Fault::BosDoubled.into()]);
    assert!(!missing.contains_key(&(Scope::Prefill, 0)) && missing.contains_key(&(Scope::Prefill, 19)));
    let positions = |of: &BTreeMap<(Scope, u32), Vec<f32>>| of.keys().copied().collect::<Vec<_>>();
    assert_eq!(positions(&doubled), positions(&right));
}
