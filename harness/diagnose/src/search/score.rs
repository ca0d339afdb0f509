//! How well a prediction explains what an arm computed.

use std::collections::BTreeMap;

use fidelity_compare::{Measured, measure};
use fidelity_trace::Scope;

/// What a row can count at most: a prediction that is far off is no worse than one that is farther.
const MOST: f64 = 4.0;

/// NMSE below which a row is what it should be down to float32, and above which rows on the whole are not.
const EXACT: f64 = 1e-9;
const NOT_EXACT: f64 = 1e-6;

/// Residuals are no smaller than float32 makes them.
const TINY: f64 = 1e-12;

/// Logits by scope and position.
pub(crate) type Rows = BTreeMap<Scope, BTreeMap<u32, Vec<f32>>>;

/// How close a prediction is to the arm, prompt by prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Score {
    /// Mean NMSE by prompt (by its index); prompts without a common row are absent.
    pub(crate) residuals: BTreeMap<usize, f64>,
    /// Sum of Pearson over rows, and rows.
    pearson: (f64, usize),
    /// Sum of NMSE and rows by scope.
    by_scope: BTreeMap<Scope, (f64, usize)>,
    /// Rows that are as they should be down to float32.
    exact: usize,
    /// Rows that are finite in the arm.
    finite: usize,
}

impl Score {
    pub(crate) fn add(&mut self, prompt: usize, arm: &Rows, predicted: &Rows) {
        let (mut sum, mut count) = (0.0, 0_usize);
        for (scope, rows) in arm {
            for (position, row) in rows {
                let Some(other) = predicted.get(scope).and_then(|rows| rows.get(position)) else { continue };
                let Some((nmse, pearson)) = closeness(row, other) else { continue };
                sum += nmse;
                count += 1;
                self.exact += usize::from(nmse < EXACT);
                self.finite += usize::from(is_finite(row));
                let of_scope = self.by_scope.entry(*scope).or_default();
                *of_scope = (of_scope.0 + nmse, of_scope.1 + 1);
                self.pearson = (self.pearson.0 + pearson, self.pearson.1 + 1);
            }
        }
        if count > 0 {
            self.residuals.insert(prompt, sum / count as f64);
        }
    }

    /// Mean NMSE over prompts; the most possible where nothing was compared.
    pub(crate) fn residual(&self) -> f64 {
        let count = self.residuals.len();
        if count == 0 { MOST } else { self.residuals.values().sum::<f64>() / count as f64 }
    }

    /// How many of the arm's rows are not finite, and how many are.
    pub(crate) fn not_finite(&self) -> (usize, usize) {
        (self.pearson.1 - self.finite, self.finite)
    }

    /// Whether some rows are exact and others are not: no rounding leaves rows alone.
    pub(crate) fn is_patchy(&self) -> bool {
        let rows = self.pearson.1;
        20 * self.exact >= rows && self.exact < rows && self.residual() > NOT_EXACT
    }

    pub(crate) fn pearson(&self) -> f64 {
        if self.pearson.1 == 0 { 0.0 } else { self.pearson.0 / self.pearson.1 as f64 }
    }

    /// Mean NMSE of rows of prompts.
    pub(crate) fn of_prompts(&self) -> Option<f64> {
        let scopes = self.by_scope();
        scopes.get(&Scope::Prefill).or_else(|| scopes.get(&Scope::Base)).copied()
    }

    /// Mean NMSE of rows of steps.
    pub(crate) fn of_steps(&self) -> Option<f64> {
        self.by_scope().get(&Scope::Tbt).copied()
    }

    pub(crate) fn by_scope(&self) -> BTreeMap<Scope, f64> {
        self.by_scope.iter().map(|(scope, (sum, count))| (*scope, sum / *count as f64)).collect()
    }

    /// Mean of other − self over the prompts of both, its standard error, and their number.
    pub(crate) fn behind(&self, other: &Self) -> (f64, Option<f64>, usize) {
        self.paired(other, |own, other| other - own)
    }

    /// The same of ln(other / self): one hard prompt weighs no more than an easy one.
    pub(crate) fn behind_in_proportion(&self, other: &Self) -> (f64, Option<f64>, usize) {
        self.paired(other, |own, other| ((other + TINY) / (own + TINY)).ln())
    }

    fn paired(&self, other: &Self, difference: impl Fn(f64, f64) -> f64) -> (f64, Option<f64>, usize) {
        let differences: Vec<f64> = self
            .residuals
            .iter()
            .filter_map(|(prompt, own)| other.residuals.get(prompt).map(|other| difference(*own, *other)))
            .collect();
        let count = differences.len();
        let mean = differences.iter().sum::<f64>() / count.max(1) as f64;
        let squares = differences.iter().map(|difference| (difference - mean).powi(2)).sum::<f64>();
        let error = (count > 1).then(|| (squares / (count - 1) as f64 / count as f64).sqrt());
        (mean, error, count)
    }
}

/// ‖d − p‖² / ‖d − mean(d)‖² and Pearson of an arm's row d and a prediction p. A row that is finite in one of the two alone is
/// as far off as can be, one that is finite in neither is explained. `None` where the arm's row is constant.
pub(crate) fn closeness(arm: &[f32], predicted: &[f32]) -> Option<(f64, f64)> {
    if arm.len() != predicted.len() {
        return None;
    }
    match measure(arm, predicted) {
        Measured::Finite(row) => Some((row.nmse?.min(MOST), row.pearson?)),
        Measured::ReferenceNotFinite if !is_finite(predicted) => Some((0.0, 1.0)),
        Measured::ReferenceNotFinite | Measured::DeviceNotFinite => Some((MOST, 0.0)),
    }
}

fn is_finite(row: &[f32]) -> bool {
    row.iter().all(|value| value.is_finite())
}

/// How far two predictions are apart, as [`Score::residual`] says, on the rows of both.
pub(crate) fn apart(one: &BTreeMap<usize, Rows>, other: &BTreeMap<usize, Rows>) -> f64 {
    distances(one, other).residual()
}

/// The same by prompt.
pub(crate) fn distances(one: &BTreeMap<usize, Rows>, other: &BTreeMap<usize, Rows>) -> Score {
    let mut score = Score::default();
    for (prompt, rows) in one {
        if let Some(others) = other.get(prompt) {
            score.add(*prompt, rows, others);
        }
    }
    score
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[[f32; 3]]) -> Rows {
        let rows = values.iter().zip(0..).map(|(row, position)| (position, row.to_vec())).collect();
        BTreeMap::from([(Scope::Prefill, rows)])
    }

    #[test]
    fn a_prediction_is_scored_in_variances_of_the_arms_rows() {
        let arm = rows(&[[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]);
        let mut score = Score::default();
        score.add(0, &arm, &rows(&[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]));
        // Three squares of 1 against two.
        assert!((score.residual() - 0.75).abs() < 1e-12);
        assert!((score.pearson() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_finite_must_be_predicted() {
        let arm = rows(&[[f32::NAN, 1.0, 2.0], [0.0, 1.0, 2.0]]);
        let residual = |predicted: &Rows| {
            let mut score = Score::default();
            score.add(0, &arm, predicted);
            score.residual()
        };
        assert!(residual(&rows(&[[f32::INFINITY, 0.0, 0.0], [0.0, 1.0, 2.0]])).abs() < 1e-12);
        assert!((residual(&rows(&[[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])) - MOST / 2.0).abs() < 1e-12);
    }

    #[test]
    fn differences_are_paired_by_prompt() {
        let score =
            |values: &[f64]| Score { residuals: values.iter().copied().enumerate().collect(), ..Score::default() };
        let (mean, error, count) = score(&[0.1, 0.2]).behind(&score(&[0.2, 0.4, 9.0]));
        assert!((mean - 0.15).abs() < 1e-12 && count == 2);
        assert!((error.expect("two prompts") - 0.05).abs() < 1e-12);
        assert_eq!(Score::default().behind(&score(&[1.0])).2, 0);
    }
}
