//! Which faults are tried, with which values.

use std::collections::BTreeMap;

use fidelity_references::{Architecture, RopeScaling};
use fidelity_trace::{BlockSite, Fault, FaultValue, Intervention, MOST_ORDERED, Places, Site, Values};

/// How many values of a fault are tried in single blocks: all where there are few blocks.
const fn values_in_blocks(blocks: usize) -> usize {
    match blocks {
        0..=4 => usize::MAX,
        5..=8 => 4,
        _ => 2,
    }
}

/// A group that no row of weights exceeds.
pub(crate) const PER_CHANNEL: usize = 65_536;

/// What the values that are tried depend on.
pub(crate) struct Facts<'a> {
    pub(crate) architecture: &'a Architecture,
    pub(crate) magnitudes: Magnitudes,
    /// Whether rows of the arm are not finite.
    pub(crate) not_finite: bool,
    /// The longest sequence, prompt and steps.
    pub(crate) longest: usize,
}

impl Facts<'_> {
    /// The largest magnitude of all.
    pub(crate) fn most(&self) -> f64 {
        self.magnitudes.values().fold(0.0, |most: f64, value| most.max(*value))
    }
}

/// Largest magnitude by kind of site, of the reference.
pub(crate) type Magnitudes = BTreeMap<&'static str, f64>;

/// Which rows a fault can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concerns {
    /// Those of prompts and of steps.
    All,
    /// Those of steps alone: what a prompt computes is right.
    Steps,
}

/// Which rows this fault can change.
pub(crate) fn concerns(intervention: &Intervention) -> Concerns {
    match intervention.fault {
        Fault::MaskOffsetLost
        | Fault::RopeTablesDiffer
        | Fault::KvLayout
        | Fault::KvOffset
        | Fault::KvRotated
        | Fault::KvStale
        | Fault::KvHistoryLost
        | Fault::KvTruncated => Concerns::Steps,
        Fault::PositionShift if intervention.word() != "uniform" => Concerns::Steps,
        _ => Concerns::All,
    }
}

/// Whether it makes rows depend on later tokens of their chunk.
pub(crate) const fn looks_ahead(intervention: &Intervention) -> bool {
    matches!(intervention.fault, Fault::MaskMissing | Fault::MaskRepeated)
}

/// Every fault that this architecture can have, in every block, with the values that are tried first.
pub(crate) fn everywhere(facts: &Facts<'_>) -> Vec<Intervention> {
    let a = facts.architecture;
    let with_block = |fault: &Fault| fault.places() != Places::OneBlock;
    let faults = Fault::ALL.into_iter().filter(with_block);
    let all = faults.flat_map(|fault| values(fault, facts).into_iter().map(move |value| of(fault, None, value)));
    all.filter(|intervention| a.immune_to(intervention).is_none()).collect()
}

/// Every fault that can be in one block, in each: the best values of all blocks first.
pub(crate) fn in_blocks(facts: &Facts<'_>, tried: &[(Intervention, f64)]) -> Vec<Intervention> {
    let blocks = if facts.architecture.blocks > 1 { 0..facts.architecture.blocks as u32 } else { 0..0 };
    let by_block: Vec<Vec<Intervention>> = blocks.map(|block| in_block(facts, block, tried)).collect();
    let most = by_block.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|at| by_block.iter().filter_map(move |of_block| of_block.get(at).copied())).collect()
}

/// Every fault that can be in one block, there: of those that were tried in every block the best few values by name, of the
/// rest all.
fn in_block(facts: &Facts<'_>, block: u32, tried: &[(Intervention, f64)]) -> Vec<Intervention> {
    let a = facts.architecture;
    let mut found = Vec::new();
    for fault in Fault::ALL.into_iter().filter(|fault| fault.places() != Places::Whole) {
        let mut best: Vec<&(Intervention, f64)> = tried.iter().filter(|(it, _)| it.fault == fault).collect();
        // What is meant without a value comes first, whatever it is worth in every block.
        best.sort_by(|a, b| (a.0.value.is_some()).cmp(&b.0.value.is_some()).then(a.1.total_cmp(&b.1)));
        match fault.places() {
            Places::OneBlock => found.extend(of_one_block(fault, facts, block)),
            _ => found
                .extend(best.iter().take(values_in_blocks(a.blocks)).map(|(it, _)| of(fault, Some(block), it.value))),
        }
    }
    found.retain(|it| it.check(a.blocks as u32).is_ok() && a.immune_to(it).is_none());
    // Of a fault, what explained most in every block comes first; among faults, those whose best explained most.
    let worth = |it: &Intervention| {
        let same = tried.iter().filter(|(other, _)| other.fault == it.fault && other.value == it.value);
        same.map(|(_, residual)| *residual).fold(f64::INFINITY, f64::min)
    };
    found.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
    found
}

fn of_one_block(fault: Fault, facts: &Facts<'_>, block: u32) -> Vec<Intervention> {
    let a = facts.architecture;
    let values = match fault {
        Fault::LayersSwapped => {
            let others = (block + 1..a.blocks as u32).take(if a.blocks > 8 { 1 } else { 8 });
            others.map(|other| Some(FaultValue::Number(f64::from(other)))).collect()
        }
        _ => values(fault, facts),
    };
    values.into_iter().map(|value| of(fault, Some(block), value)).collect()
}

/// Values of the same fault near this one, for a number: coarse to fine by `ratio`.
pub(crate) fn nearby(intervention: &Intervention, ratio: f64) -> Vec<Intervention> {
    let scaled = |by: f64| match intervention.value {
        Some(FaultValue::Number(number)) => Some(FaultValue::Number(rounded(number * by))),
        Some(FaultValue::Clip { site, limit }) => Some(FaultValue::Clip { site, limit: rounded(limit * by) }),
        _ => None,
    };
    let fits = |value: &FaultValue| match (intervention.fault.values(), value) {
        (Values::Number { least, most, whole, .. }, FaultValue::Number(number)) => {
            !whole && (least..=most).contains(number)
        }
        (Values::Mixed { whole, .. }, FaultValue::Number(number)) => !whole && (1e-3..=1e3).contains(number),
        (Values::Clip, _) => true,
        _ => false,
    };
    let values = [1.0 / ratio, ratio].into_iter().filter_map(scaled).filter(fits);
    values.map(|value| Intervention { value: Some(value), ..*intervention }).collect()
}

/// To four digits: what is tuned is not known better.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn of(fault: Fault, block: Option<u32>, value: Option<FaultValue>) -> Intervention {
    Intervention { fault, block, value }
}

fn numbers(numbers: &[f64]) -> Vec<Option<FaultValue>> {
    numbers.iter().map(|number| Some(FaultValue::Number(*number))).collect()
}

fn values(fault: Fault, facts: &Facts<'_>) -> Vec<Option<FaultValue>> {
    let a = facts.architecture;
    let default_and = |more: &[f64]| [vec![None], numbers(more)].concat();
    match fault.values() {
        Values::None => vec![None],
        Values::Words(words) => of_words(words).collect(),
        Values::Clip => clips(&facts.magnitudes),
        // Of the shards of logits nothing has to be computed: they are tried apart.
        Values::Shards | Values::Padding => Vec::new(),
        Values::Mixed { words, named, meaning, .. } => {
            let pairs =
                named.iter().flat_map(|word| named_values(fault, facts).into_iter().map(|number| (*word, number)));
            let named = pairs.map(|(word, number)| Some(FaultValue::Named(word, number)));
            let mut all: Vec<_> = of_words(words).chain(named).collect();
            if !meaning.is_empty() {
                all.extend(numbers(&mixed_numbers(fault, a)));
                // Where the first word is `next`, it says what the number 1 says.
                if words_begin_with_next(fault) {
                    all.retain(|value| *value != Some(FaultValue::Number(1.0)));
                }
            }
            all
        }
        Values::Number { .. } => match fault {
            Fault::RopeTheta => numbers(&[1e3, 1e4, 1e5, 5e5, 1e6, 1e7]),
            Fault::RopeTablesDiffer => default_and(&[1e3, 1e4, 1e5, 5e5, 1e6]),
            Fault::RopeMagnitude => {
                let scaled = a.rope.as_ref().is_some_and(|rope| matches!(rope.scaling, RopeScaling::Yarn { .. }));
                let factors = [0.5, 0.7, 0.85, 1.2, 1.4, 2.0];
                if scaled { default_and(&factors) } else { numbers(&factors) }
            }
            Fault::WindowOffByOne => numbers(&[-1.0, 1.0]),
            Fault::NormEps => numbers(&[1e-12, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
            Fault::KvTruncated => numbers(&[-16.0, -8.0, -4.0, -1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
            Fault::CalibrationRange => numbers(&[0.1, 0.25, 0.5, 0.75]),
            Fault::Int4Group => {
                let groups = [16, 32, 64, 128].into_iter().filter(|group| *group < a.hidden);
                // The whole of a row is one group: 4 bits by output channel.
                groups.chain([PER_CHANNEL]).map(|group| Some(FaultValue::Number(group as f64))).collect()
            }
            Fault::Overflow if facts.not_finite => {
                let most = facts.most();
                let limits = (1..=20).map(|step| Some(FaultValue::Number(rounded(most * 0.9_f64.powi(step)))));
                [None].into_iter().chain(limits).collect()
            }
            Fault::EmbeddingScale => default_and(&[(a.hidden as f64).powf(-0.5), 0.5, 0.9, 1.1, 2.0]),
            _ => vec![None],
        },
    }
}

/// The first word is what is meant without one.
fn of_words(words: &'static [&'static str]) -> impl Iterator<Item = Option<FaultValue>> {
    [None].into_iter().chain(words[1..].iter().map(|word| Some(FaultValue::Word(word))))
}

fn words_begin_with_next(fault: Fault) -> bool {
    matches!(fault.values(), Values::Mixed { words: ["next", ..], .. })
}

fn mixed_numbers(fault: Fault, a: &Architecture) -> Vec<f64> {
    match fault {
        Fault::ScoreScale => {
            // Scaled twice, by the width that hidden / heads would have, and whatever else.
            let dims = a.head_dim as f64;
            let by_hidden = (dims * a.query_heads as f64 / a.hidden as f64).sqrt();
            let mut factors = vec![dims.powf(-0.5), 0.5, 0.7, 0.85, 1.18, 1.4, 2.0];
            factors.extend((by_hidden.ln().abs() > 1e-9).then_some(by_hidden));
            factors
        }
        _ => vec![-4.0, -2.0, -1.0, 1.0, 2.0, 4.0],
    }
}

fn named_values(fault: Fault, facts: &Facts<'_>) -> Vec<i64> {
    let a = facts.architecture;
    match fault {
        Fault::WindowWrongLayers => (1..a.blocks as i64).take(8).collect(),
        Fault::KvLayout => {
            // The prompt's entries alone, or as one of as many as graphs are compiled for.
            let longest = facts.longest;
            let mut sizes =
                vec![-1, longest.next_multiple_of(8) as i64, longest.next_power_of_two() as i64, 1024, 2048];
            sizes.dedup();
            sizes
        }
        Fault::KvRotated => vec![1, 2, 4],
        _ => vec![-1, 1],
    }
}

/// Limits for the sites that quantisers clip, as shares of what is there.
fn clips(magnitudes: &Magnitudes) -> Vec<Option<FaultValue>> {
    let sites = [BlockSite::V, BlockSite::Act, BlockSite::ResidPost, BlockSite::Q, BlockSite::K, BlockSite::MlpOut];
    let of_site = |site: BlockSite| {
        let most = magnitudes.get(site.name()).copied().filter(|most| most.is_finite() && *most > 0.0);
        most.into_iter()
            .flat_map(move |most| [0.15, 0.4].map(|share| FaultValue::Clip { site, limit: rounded(most * share) }))
    };
    sites.into_iter().flat_map(of_site).map(Some).collect()
}

/// What can become of the shards of `vocabulary` logits, where an arm has `width` of them. `order` is which shard of the right
/// ones stands in each place, by the number of shards, where that can be told.
pub(crate) fn of_shards(
    vocabulary: usize,
    width: usize,
    order: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Vec<Intervention> {
    let shards = |first, second, of| Some(FaultValue::Shards { first, second, of });
    let mut found = Vec::new();
    if width > vocabulary {
        let padding = (width - vocabulary) as u32;
        let even = (1..=64).filter(|of| padding.is_multiple_of(*of));
        found.extend(even.map(|of| self::of(Fault::VocabPadded, None, shards(padding / of, padding / of, of))));
        return found;
    }
    for of in [2_u32, 3, 4, 5, 6, 8, 16] {
        found.extend((0..of).map(|shard| self::of(Fault::HeadMissing, None, shards(shard, shard, of))));
        found.extend(
            order(of as usize)
                .and_then(|order| in_order(&order))
                .map(|value| self::of(Fault::ShardsSwapped, None, Some(value))),
        );
        let paddings = [1, 2, 4, 7, 8, 16, 24, 32, 48, 64, 128];
        found.extend(paddings.map(|padding| self::of(Fault::VocabPadded, None, shards(padding, padding, of))));
    }
    found
}

/// An order of shards as a value, told as two exchanged ones where it is that; none for the right order.
fn in_order(order: &[usize]) -> Option<FaultValue> {
    let moved: Vec<usize> = (0..order.len()).filter(|place| order[*place] != *place).collect();
    match moved[..] {
        [] => None,
        [first, second] => {
            Some(FaultValue::Shards { first: first as u32, second: second as u32, of: order.len() as u32 })
        }
        _ if order.len() > MOST_ORDERED => None,
        _ => {
            let mut places = [0; MOST_ORDERED];
            places.iter_mut().zip(order).for_each(|(place, shard)| *place = *shard as u8);
            Some(FaultValue::Order { order: places, of: order.len() as u8 })
        }
    }
}

/// Largest magnitudes by kind of site.
pub(crate) fn magnitudes<'a>(sites: impl Iterator<Item = (Site, &'a [f32])>) -> Magnitudes {
    let mut found = Magnitudes::new();
    for (site, values) in sites {
        let most = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let entry = found.entry(site.kind()).or_default();
        *entry = entry.max(f64::from(most));
    }
    found
}
