//! What a recipe can promote: kinds of tensors, and the bytes that their promotion moves more.

use std::collections::BTreeMap;

use fidelity_emulator::{Plan, Promotions};
use fidelity_references::Architecture;
use fidelity_trace::{BlockSite, PromptRecord, Site};
use fidelity_verdict::{BlockRange, Promotable};

/// Bits of promoted activations.
const PROMOTED: u32 = 16;

/// One kind of tensor, in every block in which the recipe has it in fewer bits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) kind: String,
    pub(super) what: Promotable,
    /// The sites, or those that the linears write, in data-flow order, and the bytes that each moves more, a token.
    pub(super) sites: BTreeMap<Site, f64>,
    pub(super) bits: u32,
    pub(super) promoted_bits: u32,
}

impl Item {
    pub(super) fn bytes(&self) -> f64 {
        self.sites.values().sum()
    }

    /// It as promotions, in the blocks that are `meant`.
    pub(super) fn promotions(&self, meant: impl Fn(Site) -> bool) -> Promotions {
        let sites = self.sites.keys().copied().filter(|site| meant(*site));
        match self.what {
            Promotable::Activations => Promotions { activations: sites.collect(), weights: BTreeMap::new() },
            Promotable::Weights => {
                let weights = sites.map(|site| (site, self.promoted_bits)).collect();
                Promotions { weights, ..Promotions::default() }
            }
        }
    }

    /// Blocks, or the one place outside of blocks, ascending.
    pub(super) fn blocks(&self) -> Vec<Option<u32>> {
        let mut blocks: Vec<Option<u32>> = self.sites.keys().map(|site| site.block()).collect();
        blocks.dedup();
        blocks
    }

    /// In words: `weights of q_proj`, `act`.
    pub(super) fn name(&self) -> String {
        match self.what {
            Promotable::Activations => self.kind.clone(),
            Promotable::Weights => format!("weights of {}", self.kind),
        }
    }
}

/// Every kind that has fewer bits than it can have: activations 16, weights one step up (4 to 8, 8 to 16), or 16 if `wide`.
pub(super) fn items(plan: &Plan, a: &Architecture, prompts: &[PromptRecord], wide: bool) -> Vec<Item> {
    let keys = mean_keys(prompts);
    let mut items: Vec<Item> = Vec::new();
    let mut add = |kind: &str, what, site: Site, [bits, promoted]: [u32; 2], values: f64| {
        let bytes = values * f64::from(promoted - bits) / 8.0;
        match items.iter_mut().find(|item| item.kind == kind && item.what == what) {
            Some(item) => {
                item.sites.insert(site, bytes);
                item.bits = item.bits.min(bits);
                item.promoted_bits = item.promoted_bits.max(promoted);
            }
            None => items.push(Item {
                kind: kind.to_owned(),
                what,
                sites: BTreeMap::from([(site, bytes)]),
                bits,
                promoted_bits: promoted,
            }),
        }
    };
    if plan.embedding_bits < PROMOTED {
        let bits = [plan.embedding_bits, PROMOTED];
        add("embed", Promotable::Activations, Site::Embed, bits, values_a_token(Site::Embed, a, keys));
    }
    for (site, bits) in plan.activations.iter().filter(|(_, bits)| **bits < PROMOTED) {
        let values = values_a_token(*site, a, keys);
        add(kind(*site), Promotable::Activations, *site, [*bits, PROMOTED], values);
    }
    for (site, grid) in plan.weights.iter().filter(|(_, grid)| grid.bits < PROMOTED) {
        let promoted = if wide { PROMOTED } else { grid.bits * 2 };
        add(layer(*site), Promotable::Weights, *site, [grid.bits, promoted], weights(*site, a));
    }
    items
}

/// Both sums of a block are one kind: a recipe's role means both.
const fn kind(site: Site) -> &'static str {
    match site {
        Site::Block(_, BlockSite::ResidMid | BlockSite::ResidPost | BlockSite::ResidSum) => "resid",
        other => other.kind(),
    }
}

/// The linear that writes a site, as recipes name it.
const fn layer(site: Site) -> &'static str {
    use BlockSite::{AttnOut, Gate, K, MlpOut, Q, Up, V};
    match site {
        Site::Block(_, Q) => "q_proj",
        Site::Block(_, K) => "k_proj",
        Site::Block(_, V) => "v_proj",
        Site::Block(_, AttnOut) => "o_proj",
        Site::Block(_, Gate) => "gate_proj",
        Site::Block(_, Up) => "up_proj",
        Site::Block(_, MlpOut) => "down_proj",
        _ => "lm_head",
    }
}

/// Keys that a row of these prompts attends to, in the mean.
fn mean_keys(prompts: &[PromptRecord]) -> f64 {
    let lengths = || prompts.iter().map(|prompt| prompt.token_ids.len() as f64);
    let rows: f64 = lengths().sum();
    lengths().map(|length| length * (length + 1.0) / 2.0).sum::<f64>() / rows.max(1.0)
}

fn values_a_token(site: Site, a: &Architecture, keys: f64) -> f64 {
    use BlockSite::{Act, AttnNorm, AttnOut, Gate, K, MlpNorm, MlpOut, Pattern, Q, ResidMid, ResidPost, ResidSum};
    use BlockSite::{Scores, Up, V, Z};
    let heads = |count: usize| (count * a.head_dim) as f64;
    match site {
        Site::Logits => a.vocabulary as f64,
        Site::Embed | Site::FinalNorm | Site::Pooled => a.hidden as f64,
        Site::Block(_, Q | Z) => heads(a.query_heads),
        Site::Block(_, K | V) => heads(a.kv_heads),
        Site::Block(_, Scores | Pattern) => a.query_heads as f64 * keys,
        Site::Block(_, Gate | Up | Act) => a.mlp as f64,
        Site::Block(_, AttnNorm | AttnOut | ResidMid | MlpNorm | MlpOut | ResidSum | ResidPost) => a.hidden as f64,
    }
}

/// A step reads every weight once.
fn weights(site: Site, a: &Architecture) -> f64 {
    use BlockSite::{AttnOut, Gate, K, MlpOut, Q, Up, V};
    let (hidden, heads) = (a.hidden as f64, |count: usize| (count * a.head_dim) as f64);
    match site {
        Site::Block(_, Q | AttnOut) => hidden * heads(a.query_heads),
        Site::Block(_, K | V) => hidden * heads(a.kv_heads),
        Site::Block(_, Gate | Up | MlpOut) => hidden * a.mlp as f64,
        _ => hidden * a.vocabulary as f64,
    }
}

/// Both promotions.
pub(super) fn together(mut a: Promotions, b: Promotions) -> Promotions {
    a.activations.extend(b.activations);
    a.weights.extend(b.weights);
    a
}

/// Blocks as ranges without holes.
pub(super) fn ranges(blocks: &[Option<u32>]) -> Vec<BlockRange> {
    let mut ranges: Vec<BlockRange> = Vec::new();
    for block in blocks {
        match ranges.last_mut() {
            Some(BlockRange { last: Some(last), .. }) if *block == Some(*last + 1) => *last += 1,
            _ => ranges.push(BlockRange { first: *block, last: *block }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_blocks_are_one_range() {
        let found = ranges(&[Some(0), Some(1), Some(4), Some(5), Some(6)]);
        let range = |first, last| BlockRange { first: Some(first), last: Some(last) };
        assert_eq!(found, [range(0, 1), range(4, 6)]);
        assert_eq!(ranges(&[None]), [BlockRange { first: None, last: None }]);
        assert!(ranges(&[]).is_empty());
    }

    #[test]
    fn keys_of_two_prompts_by_hand() {
        let record = |length: usize| PromptRecord::new(0, "p".into(), None, vec![1; length]);
        // Rows see 1, 2, 3 and 1 keys.
        assert!((mean_keys(&[record(3), record(1)]) - 7.0 / 4.0).abs() < 1e-12);
    }
}
