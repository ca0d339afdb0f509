//! Permutation tests of several covariates at once, by the maximum of their statistics (Westfall & Young 1993).
//!
//! Under the null hypothesis the outcomes are exchangeable between checkpoints. Whatever the dependence between covariates, the
//! share of permutations whose largest statistic reaches the observed one controls the chance of a single false name among all.
//! All permutations are gone through where they are few enough; else some are drawn, and the data's own is counted as one more
//! (Phipson & Smyth 2010), so that no p-value is 0.

use fidelity_verdict::Permutations;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::rank::product;

/// Arbitrary and fixed: the same rows give the same bytes.
const SEED: u64 = 0x0F1D_E118;
/// Most permutations that are gone through.
const MOST_EXACT: u64 = 100_000;
/// How many are drawn where there are more.
const DRAWN: u64 = 20_000;

/// p-values of each covariate: alone, and as one of all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tested {
    pub(super) permutations: Permutations,
    pub(super) alone: Vec<f64>,
    pub(super) adjusted: Vec<f64>,
}

/// 2 U − n₁ n₀ of Mann and Whitney's U, by covariate: half the sum of centred ranks of those that fail. Its largest possible
/// magnitude is n₁ n₀, whatever the covariate.
pub(super) fn label_statistic(ranks: &[i64], failed: impl IntoIterator<Item = usize>) -> i64 {
    failed.into_iter().map(|index| ranks[index]).sum()
}

/// Which of `ranks.len()` covariates, `[covariate][checkpoint]`, goes with failing: every choice of as many checkpoints as fail
/// is a permutation.
pub(super) fn labels(ranks: &[Vec<i64>], failed: &[usize]) -> Option<Tested> {
    let n = ranks.first()?.len();
    let observed: Vec<f64> =
        ranks.iter().map(|ranks| label_statistic(ranks, failed.iter().copied()).abs() as f64).collect();
    let mut counts = Counts::new(&observed);
    let all = choices(n as u64, failed.len() as u64).filter(|all| *all <= MOST_EXACT);
    let mut add = |chosen: &[usize]| {
        counts.add(ranks.iter().map(|ranks| label_statistic(ranks, chosen.iter().copied()).abs() as f64));
    };
    match all {
        Some(_) => each_choice(n, failed.len(), &mut add),
        None => {
            let mut draws = Draws::new(n);
            (0..DRAWN).for_each(|_| add(&draws.shuffled()[..failed.len()]));
        }
    }
    Some(counts.tested(all))
}

/// Which of the covariates goes with the numbers, given as centred ranks: |Spearman's ρ|.
pub(super) fn numbers(ranks: &[Vec<i64>], numbers: &[i64]) -> Option<Tested> {
    let n = ranks.first()?.len();
    let scales: Vec<f64> = ranks.iter().map(|ranks| (product(ranks, ranks) as f64).sqrt()).collect();
    let statistics = |numbers: &[i64]| -> Vec<f64> {
        ranks.iter().zip(&scales).map(|(ranks, scale)| product(ranks, numbers).abs() as f64 / scale).collect()
    };
    let mut counts = Counts::new(&statistics(numbers));
    let all = factorial(n as u64).filter(|all| *all <= MOST_EXACT);
    let mut add = |order: &[usize]| {
        let permuted: Vec<i64> = order.iter().map(|index| numbers[*index]).collect();
        counts.add(statistics(&permuted).into_iter());
    };
    match all {
        Some(_) => each_order(n, &mut add),
        None => {
            let mut draws = Draws::new(n);
            (0..DRAWN).for_each(|_| add(draws.shuffled()));
        }
    }
    Some(counts.tested(all))
}

struct Counts {
    /// What must be reached, a little below what was observed: sums of the same numbers may differ in their last digit.
    reach: Vec<f64>,
    alone: Vec<u64>,
    adjusted: Vec<u64>,
    permutations: u64,
}

impl Counts {
    fn new(observed: &[f64]) -> Self {
        let reach: Vec<f64> = observed.iter().map(|value| value * (1.0 - 1e-12)).collect();
        let none = vec![0; reach.len()];
        Self { reach, alone: none.clone(), adjusted: none, permutations: 0 }
    }

    fn add(&mut self, statistics: impl Iterator<Item = f64>) {
        let mut largest = 0.0_f64;
        for ((statistic, reach), count) in statistics.zip(&self.reach).zip(&mut self.alone) {
            *count += u64::from(statistic >= *reach);
            largest = largest.max(statistic);
        }
        for (reach, count) in self.reach.iter().zip(&mut self.adjusted) {
            *count += u64::from(largest >= *reach);
        }
        self.permutations += 1;
    }

    fn tested(self, all: Option<u64>) -> Tested {
        let own = u64::from(all.is_none());
        let share = |counts: Vec<u64>| {
            let total = (self.permutations + own) as f64;
            counts.into_iter().map(|count| (count + own) as f64 / total).collect()
        };
        Tested {
            permutations: Permutations { count: self.permutations, exact: all.is_some(), seed: SEED },
            alone: share(self.alone),
            adjusted: share(self.adjusted),
        }
    }
}

/// Orders drawn at random (Fisher and Yates).
struct Draws {
    generator: ChaCha8Rng,
    order: Vec<usize>,
}

impl Draws {
    fn new(n: usize) -> Self {
        Self { generator: ChaCha8Rng::seed_from_u64(SEED), order: (0..n).collect() }
    }

    fn shuffled(&mut self) -> &[usize] {
        for last in (1..self.order.len()).rev() {
            // 32 bits scaled to an index (Lemire 2019); the bias is below 2⁻²².
            let drawn = (u64::from(self.generator.next_u32()) * (last as u64 + 1)) >> 32;
            self.order.swap(last, drawn as usize);
        }
        &self.order
    }
}

/// n over k, unless it is beyond counting.
pub(super) fn choices(n: u64, k: u64) -> Option<u64> {
    (0..k.min(n.checked_sub(k)?)).try_fold(1_u64, |count, step| Some(count.checked_mul(n - step)? / (step + 1)))
}

fn factorial(n: u64) -> Option<u64> {
    (1..=n).try_fold(1_u64, u64::checked_mul)
}

/// Every choice of k out of n, in lexicographic order.
fn each_choice(n: usize, k: usize, visit: &mut impl FnMut(&[usize])) {
    let mut chosen: Vec<usize> = (0..k).collect();
    loop {
        visit(&chosen);
        let Some(moving) = (0..k).rev().find(|place| chosen[*place] < n - k + place) else { return };
        chosen[moving] += 1;
        for place in moving + 1..k {
            chosen[place] = chosen[place - 1] + 1;
        }
    }
}

/// Every order of n, in lexicographic order.
fn each_order(n: usize, visit: &mut impl FnMut(&[usize])) {
    let mut order: Vec<usize> = (0..n).collect();
    loop {
        visit(&order);
        let Some(moving) = (1..n).rev().find(|place| order[place - 1] < order[*place]).map(|place| place - 1) else {
            return;
        };
        let next = (moving + 1..n).rev().find(|place| order[*place] > order[moving]).unwrap_or(moving);
        order.swap(moving, next);
        order[moving + 1..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rank::centred, *};

    #[test]
    fn everything_is_visited_once() {
        let mut seen = Vec::new();
        each_choice(5, 2, &mut |chosen| seen.push(chosen.to_vec()));
        assert_eq!((seen.len() as u64, Some(seen.len() as u64)), (10, choices(5, 2)));
        let mut orders = std::collections::BTreeSet::new();
        each_order(4, &mut |order| assert!(orders.insert(order.to_vec())));
        assert_eq!(orders.len(), 24);
        assert_eq!((choices(8, 2), choices(3, 3), choices(2, 3), choices(200, 100)), (Some(28), Some(1), None, None));
    }

    #[test]
    fn two_against_six_is_one_in_fourteen_before_any_correction() {
        let separating = centred(&[256.0, 288.0, 576.0, 768.0, 768.0, 768.0, 896.0, 1024.0]);
        let failed = [2, 3, 4, 5, 6, 7];
        let alone = labels(std::slice::from_ref(&separating), &failed).expect("one covariate");
        assert!(alone.permutations.exact && alone.permutations.count == 28);
        assert!((alone.alone[0] - 1.0 / 14.0).abs() < 1e-15 && (alone.adjusted[0] - 1.0 / 14.0).abs() < 1e-15);
        // Another covariate that was tried makes it less.
        let other = centred(&[4.0, 6.0, 30.0, 6.0, 12.0, 12.0, 24.0, 5.0]);
        let two = labels(&[separating, other], &failed).expect("two");
        assert!((two.alone[0] - 1.0 / 14.0).abs() < 1e-15 && two.adjusted[0] > 1.0 / 14.0, "{two:?}");
    }

    #[test]
    fn a_correlation_by_counting() {
        // Of the 6 orders of three numbers, the rising and the falling one have |ρ| = 1.
        let tested = numbers(&[vec![-2, 0, 2]], &[-2, 0, 2]).expect("one covariate");
        assert_eq!((tested.permutations.count, tested.permutations.exact), (6, true));
        assert!((tested.alone[0] - 2.0 / 6.0).abs() < 1e-15);
    }

    #[test]
    fn what_is_drawn_is_never_certain_and_always_the_same() {
        let ranks = centred(&(0..40).map(f64::from).collect::<Vec<_>>());
        let failed: Vec<usize> = (20..40).collect();
        let tested = labels(std::slice::from_ref(&ranks), &failed).expect("one covariate");
        assert!(!tested.permutations.exact);
        let expected = 1.0 / (DRAWN + 1) as f64;
        assert!((tested.alone[0] - expected).abs() < 1e-15, "{}", tested.alone[0]);
        assert_eq!(Some(tested), labels(&[ranks], &failed));
        assert_eq!(labels(&[], &[]), None);
    }

    /// Ten checkpoints with twelve covariates that are correlated and have ties, and outcomes that have nothing to do with them.
    fn null_data(generator: &mut ChaCha8Rng) -> (Vec<Vec<i64>>, Vec<usize>) {
        let mut uniform = || f64::from(generator.next_u32()) / f64::from(u32::MAX);
        let size: Vec<f64> = (0..10).map(|_| uniform()).collect();
        let covariate = |steps: f64, uniform: &mut dyn FnMut() -> f64| {
            let values: Vec<f64> = size.iter().map(|size| ((size + uniform()) * steps).round()).collect();
            centred(&values)
        };
        let ranks = (0..12).map(|index| covariate(f64::from(2 + index), &mut uniform)).collect();
        let mut failed: Vec<(u64, usize)> = (0..10).map(|index| ((uniform() * 1e9) as u64, index)).collect();
        failed.sort_unstable();
        (ranks, failed.into_iter().take(6).map(|(_, index)| index).collect())
    }

    #[test]
    fn where_nothing_explains_a_name_is_given_as_often_as_alpha_says() {
        const TRIALS: u32 = 1500;
        let mut generator = ChaCha8Rng::seed_from_u64(11);
        let [mut adjusted, mut alone] = [0_u32; 2];
        for _ in 0..TRIALS {
            let (ranks, failed) = null_data(&mut generator);
            let tested = labels(&ranks, &failed).expect("covariates");
            let rejects = |p: &[f64]| u32::from(p.iter().any(|p| *p <= 0.05));
            adjusted += rejects(&tested.adjusted);
            alone += rejects(&tested.alone);
        }
        let rate = |count| f64::from(count) / f64::from(TRIALS);
        // 0.05 and three standard errors of the simulation.
        assert!(rate(adjusted) <= 0.05 + 3.0 * (0.05 * 0.95 / f64::from(TRIALS)).sqrt(), "{}", rate(adjusted));
        assert!(rate(alone) > 0.10, "uncorrected, a name is given far too often: {}", rate(alone));
    }

    #[test]
    fn correlations_with_nothing_are_named_as_often_as_alpha_says() {
        const TRIALS: u32 = 60;
        let mut generator = ChaCha8Rng::seed_from_u64(5);
        let rejected = (0..TRIALS).filter(|_| {
            let (ranks, order) = null_data(&mut generator);
            let short: Vec<Vec<i64>> = ranks
                .iter()
                .map(|ranks| centred(&ranks[..6].iter().map(|rank| *rank as f64).collect::<Vec<_>>()))
                .filter(|ranks| ranks.iter().any(|rank| *rank != 0))
                .collect();
            let fidelity = centred(&order.iter().map(|index| *index as f64).collect::<Vec<_>>());
            numbers(&short, &fidelity).expect("covariates").adjusted.iter().any(|p| *p <= 0.05)
        });
        let rate = rejected.count() as f64 / f64::from(TRIALS);
        assert!(rate <= 0.05 + 3.0 * (0.05 * 0.95 / f64::from(TRIALS)).sqrt(), "{rate}");
    }
}
