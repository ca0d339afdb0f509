//! In which order an arm joined the shards of its logits.

use std::collections::BTreeMap;

use fidelity_compare::{Measured, measure};

use super::{predict::ArmPrompt, score::Rows};

/// Rows that are looked at.
const ROWS: usize = 12;

/// Which of `of` shards of the right logits stands in each place of the arm's: the one that correlates best, if each is used once.
pub(super) fn order(prompts: &[ArmPrompt], right: &BTreeMap<usize, Rows>, of: usize) -> Option<Vec<usize>> {
    let rows: Vec<(&[f32], &[f32])> = right
        .iter()
        .flat_map(|(prompt, scopes)| scopes.iter().map(move |(scope, rows)| (*prompt, scope, rows)))
        .flat_map(|(prompt, scope, rows)| {
            let arm = prompts[prompt].logits.get(scope);
            rows.iter().filter_map(move |(position, row)| Some((arm?.get(position)?.as_slice(), row.as_slice())))
        })
        .filter(|(arm, right)| arm.len() == right.len())
        .take(ROWS)
        .collect();
    let vocabulary = rows.first()?.0.len();
    let width = vocabulary.div_ceil(of);
    // Shards of other widths would move what follows them; the last alone may be narrower.
    let range = |shard: usize| (shard * width).min(vocabulary)..((shard + 1) * width).min(vocabulary);
    let correlation = |place: usize, shard: usize| -> f64 {
        let of_row = |(arm, right): &(&[f32], &[f32])| {
            let (arm, right) = (&arm[range(place)], &right[range(shard)]);
            let count = arm.len().min(right.len());
            match measure(&arm[..count], &right[..count]) {
                Measured::Finite(row) => row.pearson.unwrap_or(0.0),
                Measured::ReferenceNotFinite | Measured::DeviceNotFinite => f64::NAN,
            }
        };
        rows.iter().map(of_row).sum::<f64>() / rows.len() as f64
    };
    let best = |place: usize| {
        (0..of)
            .map(|shard| (correlation(place, shard), shard))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, shard)| shard)
    };
    let order: Vec<usize> = (0..of).map(best).collect::<Option<_>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..of).then_some(order)
}
