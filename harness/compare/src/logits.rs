//! What is measured on a row of logits beyond [`crate::row`].

use fidelity_verdict::{Agreement, Likely};

/// How many of the most probable tokens of a row are kept.
const MOST_LIKELY: usize = 5;

/// One compared row of logits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogitsRow {
    /// Whether the arm makes the reference's choice.
    pub(crate) top1: Agreement,
    /// Whether the reference's choice is among the arm's five highest.
    pub(crate) top5: Agreement,
    /// The reference's choice.
    pub(crate) reference_choice: u32,
    /// Absent when the arm's row is not finite.
    pub(crate) metrics: Option<LogitsMetrics>,
    /// What the reference holds most probable to follow.
    pub(crate) reference_top5: Vec<Likely>,
    /// The same of the arm; empty when its row is not finite.
    pub(crate) device_top5: Vec<Likely>,
}

/// The metrics of a finite row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogitsMetrics {
    /// KL(reference ‖ arm), nats.
    pub(crate) kl: f64,
    /// The arm's choice.
    pub(crate) device_choice: u32,
    /// Ids that the arm prefers to the reference's choice.
    pub(crate) rank: u32,
    /// log p_arm − log p_reference of the reference's choice, nats.
    pub(crate) delta_log_prob: f64,
    /// log p_reference − log p_arm of the token fed next, nats; absent when none is known.
    pub(crate) target_gap: Option<f64>,
}

/// KL below 0 by no more than this is rounding.
const KL_ROUNDING_NATS: f64 = 1e-12;

/// Measures a row of finite logits, `target` being the token fed at the next position.
pub(crate) fn measure(r: &LogSoftmax<'_>, d: &LogSoftmax<'_>, target: Option<u32>) -> LogitsMetrics {
    let reference_choice = choice(r.row);
    LogitsMetrics {
        kl: divergence(r, d),
        device_choice: id(choice(d.row)),
        rank: rank(d.row, reference_choice),
        delta_log_prob: d.at(reference_choice) - r.at(reference_choice),
        target_gap: target
            .map(|token| token as usize)
            .filter(|token| *token < r.row.len())
            .map(|token| r.at(token) - d.at(token)),
    }
}

/// The strict argmax, the lowest id on equality.
pub(crate) fn choice(row: &[f32]) -> usize {
    let better = |best: usize, index: usize| if row[index] > row[best] { index } else { best };
    (1..row.len()).fold(0, better)
}

/// An index into the vocabulary as an id.
pub(crate) fn id(index: usize) -> u32 {
    u32::try_from(index).expect("a vocabulary has fewer than 2^32 entries")
}

/// How many ids the arm puts before `chosen`: those with a higher value, and those of equal value with a lower id.
fn rank(device: &[f32], chosen: usize) -> u32 {
    let value = device[chosen];
    let before = device[..chosen].iter().filter(|other| **other >= value).count();
    let after = device[chosen + 1..].iter().filter(|other| **other > value).count();
    id(before + after)
}

/// Σ p_r (log p_r − log p_d), in nats (Kullback & Leibler 1951).
fn divergence(reference: &LogSoftmax<'_>, device: &LogSoftmax<'_>) -> f64 {
    let terms = (0..reference.row.len()).map(|index| {
        let log_p = reference.at(index);
        log_p.exp() * (log_p - device.at(index))
    });
    let kl: f64 = terms.sum();
    if kl > -KL_ROUNDING_NATS { kl.max(0.0) } else { kl }
}

/// log p = (logit − max) − log Σ exp(logit − max), in f64.
pub(crate) struct LogSoftmax<'a> {
    row: &'a [f32],
    max: f64,
    log_sum: f64,
}

impl<'a> LogSoftmax<'a> {
    pub(crate) fn of(row: &'a [f32]) -> Self {
        let max = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = row.iter().map(|logit| (f64::from(*logit) - max).exp()).sum();
        Self { row, max, log_sum: sum.ln() }
    }

    fn at(&self, index: usize) -> f64 {
        f64::from(self.row[index]) - self.max - self.log_sum
    }

    /// The most probable ids, the lowest first on equality.
    pub(crate) fn top5(&self) -> Vec<Likely> {
        let mut best: Vec<usize> = Vec::with_capacity(MOST_LIKELY + 1);
        for (index, logit) in self.row.iter().enumerate() {
            let place = best.partition_point(|other| self.row[*other] >= *logit);
            if place < MOST_LIKELY {
                best.insert(place, index);
                best.truncate(MOST_LIKELY);
            }
        }
        best.into_iter().map(|index| (id(index), self.at(index).exp())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    fn measure(reference: &[f32], device: &[f32], target: Option<u32>) -> LogitsMetrics {
        super::measure(&LogSoftmax::of(reference), &LogSoftmax::of(device), target)
    }

    #[test]
    fn the_most_probable_come_first_and_the_lowest_id_of_equals() {
        let row = [0.1_f32, 0.3, 0.05, 0.3, 0.05, 0.15, 0.05].map(f32::ln);
        let found = LogSoftmax::of(&row).top5();
        assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 3, 5, 0, 2]);
        found.iter().zip([0.3, 0.3, 0.15, 0.1, 0.05]).for_each(|((_, found), expected)| close(*found, expected));
        assert_eq!(LogSoftmax::of(&[4.0, 7.0]).top5().len(), 2);
    }

    #[test]
    fn two_entries_by_hand() {
        // p = (0.8, 0.2), q = (0.5, 0.5): KL = 0.8 ln 1.6 + 0.2 ln 0.4.
        let row = measure(&[0.8_f32.ln(), 0.2_f32.ln()], &[7.0, 7.0], Some(1));
        close(row.kl, 0.8 * 1.6_f64.ln() + 0.2 * 0.4_f64.ln());
        close(row.delta_log_prob, 0.5_f64.ln() - 0.8_f64.ln());
        close(row.target_gap.expect("in the vocabulary"), 0.2_f64.ln() - 0.5_f64.ln());
        assert_eq!((row.device_choice, row.rank), (0, 0));
    }

    #[test]
    fn equal_rows_diverge_by_exactly_nothing() {
        let row = [0.3, -7.0, 12.5, 1e4];
        let found = measure(&row, &row, None);
        assert_eq!((found.kl, found.delta_log_prob, found.target_gap), (0.0, 0.0, None));
    }

    #[test]
    fn a_common_offset_changes_no_probability() {
        let found = measure(&[1.0, 2.0, 4.0], &[1001.0, 1002.0, 1004.0], None);
        assert!(found.kl >= 0.0);
        close(found.kl, 0.0);
        close(found.delta_log_prob, 0.0);
    }

    #[test]
    fn huge_logits_stay_finite() {
        let found = measure(&[f32::MAX, f32::MIN], &[f32::MIN, f32::MAX], Some(0));
        assert!(found.kl.is_finite() && found.delta_log_prob.is_finite());
    }

    #[test]
    fn the_lowest_id_wins_an_equality() {
        assert_eq!(choice(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(choice(&[-0.0, 0.0]), 0);
        assert_eq!(rank(&[1.0, 3.0, 3.0, 5.0], 2), 2);
        assert_eq!(rank(&[1.0, 3.0, 3.0, 5.0], 1), 1);
        assert_eq!(rank(&[1.0, 3.0, 3.0, 5.0], 3), 0);
    }

    #[test]
    fn a_target_outside_the_vocabulary_is_none() {
        assert_eq!(measure(&[1.0, 2.0], &[1.0, 2.0], Some(2)).target_gap, None);
    }
}
