//! Promotions: more bits for some tensors of a planned network, as lines of a recipe.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_trace::Site;

use super::{
    layers::{Kind, Layer},
    plan::Plan,
    precision::Precision,
};

/// Columns of a recipe's line, at most, where names allow it.
const LINE: usize = 80;

/// Bits of promoted activations.
const PROMOTED: u32 = 16;

/// What gets more bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promotions {
    /// Sites whose activations get 16 bits.
    pub activations: BTreeSet<Site>,
    /// Bits of the weights of linears, by the site that they write.
    pub weights: BTreeMap<Site, u32>,
}

impl Promotions {
    /// Whether nothing is promoted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.activations.is_empty() && self.weights.is_empty()
    }

    /// The lines that, put behind the recipe of `plan`, promote this. Every layer that writes a site or hands it on, and every
    /// linear that reads it where only linears do, is named, since a tensor has the fewest bits of them. What a line does not
    /// change it says again, for a mode is always whole.
    #[must_use]
    pub fn lines(&self, plan: &Plan) -> Vec<String> {
        let mut changed: BTreeMap<String, Vec<&Layer>> = BTreeMap::new();
        for (layer, old) in &plan.layers {
            let new = self.mode(layer, *old);
            if new != *old {
                changed.entry(new.to_string()).or_default().push(layer);
            }
        }
        changed.iter().map(|(mode, layers)| line(&names(layers, plan), mode)).collect()
    }

    fn mode(&self, layer: &Layer, old: Precision) -> Precision {
        let writes = if self.activations.contains(&layer.site) { old.writes.max(PROMOTED) } else { old.writes };
        let Some(linear) = layer.linear else {
            // Without weights a mode says one number of bits, as adds and products of published recipes do.
            return if writes == old.writes { old } else { Precision { reads: writes, weights: PROMOTED, writes } };
        };
        let read = linear.reads.is_some_and(|site| self.activations.contains(&site));
        let reads = if read { old.reads.max(PROMOTED) } else { old.reads };
        let weights = self.weights.get(&layer.site).map_or(old.weights, |bits| old.weights.max(*bits));
        Precision { reads, weights, writes }
    }

    /// Whether `promoted` differs from `plan` in what is promoted and nothing else.
    #[must_use]
    pub fn are_all_of(&self, plan: &Plan, promoted: &Plan) -> bool {
        let mut expected = plan.activations.clone();
        for site in &self.activations {
            expected.entry(*site).and_modify(|bits| *bits = PROMOTED);
        }
        let mut weights = plan.weights.clone();
        for (site, bits) in &self.weights {
            weights.entry(*site).and_modify(|grid| grid.bits = grid.bits.max(*bits));
        }
        let embedding = if self.activations.contains(&Site::Embed) { PROMOTED } else { plan.embedding_bits };
        promoted.activations == expected && promoted.weights == weights && promoted.embedding_bits == embedding
    }
}

/// A kind by itself where it is meant in every block; else by block, ten at a time where all ten that there are are meant.
fn names(layers: &[&Layer], plan: &Plan) -> Vec<String> {
    let every = |kind: Kind| plan.layers.iter().map(|(layer, _)| layer).filter(move |layer| layer.kind == kind);
    let kinds: BTreeSet<Kind> = layers.iter().map(|layer| layer.kind).collect();
    let of_kind = |kind: &Kind| {
        let own: Vec<&Layer> = layers.iter().copied().filter(|layer| layer.kind == *kind).collect();
        if own.len() == every(*kind).count() {
            return vec![kind.name().to_owned()];
        }
        let decade = |layer: &Layer| layer.block.map(|block| block / 10);
        let mut names: Vec<String> = Vec::new();
        for ten in own.chunk_by(|a, b| decade(a) == decade(b)) {
            let there = every(*kind).filter(|layer| decade(layer) == decade(ten[0])).count();
            match decade(ten[0]).filter(|_| ten.len() == there && there > 1) {
                Some(0) => names.push(format!("{{blocks.?.{}}}", kind.name())),
                Some(tens) => names.push(format!("{{blocks.{tens}?.{}}}", kind.name())),
                None => names.extend(ten.iter().map(|layer| layer.name())),
            }
        }
        names
    };
    kinds.iter().flat_map(of_kind).collect()
}

/// Inside brackets a line may end anywhere.
fn line(names: &[String], mode: &str) -> String {
    let [one] = names else {
        let (mut text, mut width) = (String::from("quantization_param(["), 20);
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                let ends = width + name.len() + 3 > LINE;
                text.push_str(if ends { ",\n    " } else { ", " });
                width = if ends { 4 } else { width + 2 };
            }
            text.push_str(name);
            width += name.len();
        }
        let ends = width + mode.len() + 18 > LINE;
        text.push_str(if ends { "],\n    " } else { "], " });
        return text + &format!("precision_mode={mode})");
    };
    format!("quantization_param({one}, precision_mode={mode})")
}
