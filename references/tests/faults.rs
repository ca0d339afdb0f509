//! Injected faults: each shows the signature that part 3 of the fault literature gives it, and only that.

mod common;

use candle_core::{Result, Tensor};
use common::{golden, golden_folder, reference, relative_l2};
use fidelity_references::{Chunk, Decoder, Instrument, Part, Visibility};
use fidelity_trace::{BlockSite, Fault, Intervention, Site};

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
