//! Local and cumulative error by block.

use std::collections::BTreeMap;

use fidelity_compare::{PromptSettings, compare_prompt, conclude};
use fidelity_trace::{BlockSite, Network, PromptTrace, Scope, Site};
use fidelity_verdict::BlockError;

use crate::traces::{header, prompt, scope};

const fn resid(block: u32) -> Site {
    Site::Block(block, BlockSite::ResidPost)
}

fn base(sites: &[(Site, Vec<f32>)]) -> PromptTrace {
    let logits = (Site::Logits, vec![vec![0.0, 1.0, 2.0]]);
    let sites = sites.iter().map(|(site, row)| (*site, vec![row.clone()])).chain([logits]);
    prompt([(Scope::Base, scope(&sites.collect::<Vec<_>>()))])
}

fn blocks(reference: &PromptTrace, device: &PromptTrace, local: Option<&PromptTrace>) -> Vec<BlockError> {
    let settings = PromptSettings { noise_floor: &BTreeMap::new(), logits_step: None, network: Network::Decoder };
    let compared = compare_prompt(reference, device, local, &settings);
    let mut found = conclude(header(1), vec![compared]);
    found.scopes.remove(&Scope::Base).expect("base").blocks
}

/// Block 0 of the arm is off by (0, 1); block 1 adds (2, 0) as it should and passes the error on.
fn traces() -> [PromptTrace; 3] {
    let reference = [(Site::Embed, vec![0.0, 0.0]), (resid(0), vec![3.0, 4.0]), (resid(1), vec![6.0, 8.0])];
    let device = [(Site::Embed, vec![0.0, 0.0]), (resid(0), vec![3.0, 5.0]), (resid(1), vec![5.0, 5.0])];
    let local = [(resid(0), vec![3.0, 4.0]), (resid(1), vec![5.0, 5.0])];
    [&reference[..], &device, &local].map(base)
}

#[test]
fn a_block_that_only_passes_an_error_on_has_no_local_error() {
    let [reference, device, local] = traces();
    let found = blocks(&reference, &device, Some(&local));
    let expected = [
        BlockError { block: 0, cumulative: Some(0.2), local: Some(0.2) },
        BlockError { block: 1, cumulative: Some(10.0_f64.sqrt() / 10.0), local: Some(0.0) },
    ];
    assert_eq!(found, expected);
}

#[test]
fn without_a_local_trace_only_the_cumulative_error_is_known() {
    let [reference, device, _] = traces();
    let found = blocks(&reference, &device, None);
    assert_eq!(found.iter().map(|block| (block.block, block.local)).collect::<Vec<_>>(), [(0, None), (1, None)]);
    assert!(found.iter().all(|block| block.cumulative.is_some()));
}

#[test]
fn an_arm_without_embed_has_no_local_error_in_block_0() {
    let [reference, mut device, local] = traces();
    device.scopes.get_mut(&Scope::Base).expect("base").sites.remove(&Site::Embed);
    let found = blocks(&reference, &device, Some(&local));
    assert_eq!(found.iter().map(|block| block.local).collect::<Vec<_>>(), [None, Some(0.0)]);
}

#[test]
fn blocks_that_only_the_reference_holds_are_not_listed() {
    let [reference, mut device, local] = traces();
    device.scopes.get_mut(&Scope::Base).expect("base").sites.remove(&resid(1));
    assert_eq!(blocks(&reference, &device, Some(&local)).len(), 1);
}
