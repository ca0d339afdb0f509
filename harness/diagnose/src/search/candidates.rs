//! Which faults are tried, with which values.

use std::collections::BTreeMap;

use fidelity_references::{Architecture, RopeScaling};
use fidelity_trace::{BlockSite, Fault, FaultValue, Intervention, Places, Site, Values};

/// Largest magnitude by kind of site, of the reference.
pub(crate) type Magnitudes = BTreeMap<&'static str, f64>;

/// Every fault that this architecture can have, in every block, with the values that are tried first.
pub(crate) fn everywhere(a: &Architecture, magnitudes: &Magnitudes) -> Vec<Intervention> {
    let with_block = |fault: Fault| fault.places() != Places::OneBlock;
    let faults = Fault::ALL.into_iter().filter(|fault| with_block(*fault));
    let all =
        faults.flat_map(|fault| values(fault, a, magnitudes).into_iter().map(move |value| of(fault, None, value)));
    all.filter(|intervention| a.immune_to(intervention).is_none()).collect()
}

/// Every fault that can be in one block, there, with the values of `tuned` for those that were tuned.
pub(crate) fn in_block(
    a: &Architecture,
    block: u32,
    magnitudes: &Magnitudes,
    tuned: &[Intervention],
) -> Vec<Intervention> {
    let mut found = Vec::new();
    for fault in Fault::ALL.into_iter().filter(|fault| fault.places() != Places::Whole) {
        let best = tuned.iter().filter(|it| it.fault == fault).map(|it| it.value).collect::<Vec<_>>();
        let few = match (fault.values(), best.is_empty()) {
            (Values::Number { .. } | Values::Clip, false) => best,
            _ => values(fault, a, magnitudes),
        };
        found.extend(few.into_iter().map(|value| of(fault, Some(block), value)));
    }
    found.retain(|it| it.check(a.blocks as u32).is_ok() && a.immune_to(it).is_none());
    found
}

/// Values of the same fault near this one, for a number: coarse to fine by `ratio`.
pub(crate) fn nearby(intervention: &Intervention, ratio: f64) -> Vec<Intervention> {
    let scaled = |by: f64| match intervention.value {
        Some(FaultValue::Number(number)) => Some(FaultValue::Number(number * by)),
        Some(FaultValue::Clip { site, limit }) => Some(FaultValue::Clip { site, limit: limit * by }),
        _ => None,
    };
    let fits = |value: &FaultValue| match (intervention.fault.values(), value) {
        (Values::Number { least, most, whole, .. }, FaultValue::Number(number)) => {
            !whole && (least..=most).contains(number)
        }
        (Values::Clip, _) => true,
        _ => false,
    };
    let values = [1.0 / ratio, ratio].into_iter().filter_map(scaled).filter(fits);
    values.map(|value| Intervention { value: Some(value), ..*intervention }).collect()
}

fn of(fault: Fault, block: Option<u32>, value: Option<FaultValue>) -> Intervention {
    Intervention { fault, block, value }
}

fn numbers(numbers: &[f64]) -> Vec<Option<FaultValue>> {
    numbers.iter().map(|number| Some(FaultValue::Number(*number))).collect()
}

fn values(fault: Fault, a: &Architecture, magnitudes: &Magnitudes) -> Vec<Option<FaultValue>> {
    let default_and = |more: &[f64]| [vec![None], numbers(more)].concat();
    match fault.values() {
        Values::None => vec![None],
        Values::Words(words) => words.iter().map(|word| Some(FaultValue::Word(word))).collect(),
        Values::Clip => clips(magnitudes),
        // Of the shards of logits nothing has to be computed: they are tried apart.
        Values::Shards | Values::Padding => Vec::new(),
        Values::Number { .. } => match fault {
            Fault::ScoreScale => {
                // Not scaled, scaled twice, by the width that hidden / heads would have, and whatever else.
                let dims = a.head_dim as f64;
                let by_hidden = (dims * a.query_heads as f64 / a.hidden as f64).sqrt();
                let mut factors = vec![dims.powf(-0.5), 0.25, 0.5, 0.7, 0.85, 1.18, 1.4, 2.0, 4.0];
                factors.extend((by_hidden.ln().abs() > 1e-9).then_some(by_hidden));
                default_and(&factors)
            }
            Fault::RopeTheta => numbers(&[1e3, 1e4, 1e5, 5e5, 1e6, 1e7]),
            Fault::RopeTablesDiffer => default_and(&[1e3, 1e4, 1e5, 5e5, 1e6]),
            Fault::RopeMagnitude => {
                let scaled = a.rope.as_ref().is_some_and(|rope| matches!(rope.scaling, RopeScaling::Yarn { .. }));
                if scaled {
                    default_and(&[0.5, 0.7, 0.85, 1.2, 1.4, 2.0])
                } else {
                    numbers(&[0.5, 0.7, 0.85, 1.2, 1.4, 2.0])
                }
            }
            Fault::PositionShift => numbers(&[-2.0, -1.0, 1.0, 2.0]),
            Fault::WindowOffByOne => numbers(&[-1.0, 1.0]),
            Fault::NormEps => numbers(&[1e-12, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2]),
            Fault::KvOffset | Fault::KvRotated => numbers(&[-2.0, -1.0, 1.0, 2.0]),
            Fault::KvTruncated => numbers(&[-16.0, -8.0, -4.0, -1.0, 1.0, 2.0, 4.0, 8.0, 16.0]),
            Fault::CalibrationRange => numbers(&[0.1, 0.25, 0.5, 0.75]),
            Fault::Int4Group => numbers(&[16.0, 32.0, 64.0, 128.0, 65536.0]),
            Fault::EmbeddingScale => default_and(&[(a.hidden as f64).powf(-0.5), 0.5, 0.9, 1.1, 2.0]),
            Fault::Overflow => vec![None],
            _ => vec![None],
        },
    }
}

/// Limits for the sites that quantisers clip, as shares of what is there.
fn clips(magnitudes: &Magnitudes) -> Vec<Option<FaultValue>> {
    let sites = [BlockSite::V, BlockSite::Act, BlockSite::ResidPost, BlockSite::Q, BlockSite::K, BlockSite::AttnNorm];
    let of_site = |site: BlockSite| {
        let most = magnitudes.get(site.name()).copied().filter(|most| most.is_finite() && *most > 0.0);
        most.into_iter().flat_map(move |most| [0.15, 0.4].map(|share| FaultValue::Clip { site, limit: most * share }))
    };
    sites.into_iter().flat_map(of_site).map(Some).collect()
}

/// What can become of the shards of logits.
pub(crate) fn of_shards() -> Vec<Intervention> {
    let shards = |first, second, of| Some(FaultValue::Shards { first, second, of });
    let mut found = Vec::new();
    for of in [2, 3, 4, 8, 16] {
        found.extend((0..of).map(|shard| self::of(Fault::HeadMissing, None, shards(shard, shard, of))));
        for first in 0..of {
            let seconds = first + 1..if of > 8 { (first + 2).min(of) } else { of };
            found.extend(seconds.map(|second| self::of(Fault::ShardsSwapped, None, shards(first, second, of))));
        }
        let paddings = [1, 2, 4, 7, 8, 16, 24, 32, 48, 64, 128];
        found.extend(paddings.map(|padding| self::of(Fault::VocabPadded, None, shards(padding, padding, of))));
    }
    found
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
