//! How much a number of prompts can tell.

use statrs::distribution::{ChiSquared, Continuous, ContinuousCDF, Normal, StudentsT};

/// More prompts than this are never asked for.
const MOST: u64 = 1_000_000;
/// Confidence of the limit that a spread is planned with.
const PLANNED: f64 = 0.8;
/// Prompts up to which the steps of the exact test's level are seen in the power.
const STEPPED: u64 = 32;
/// Prompts by which the test of a gate is behind the t test, at most.
const LOST: f64 = 3.0;
/// Intervals of Simpson's rule.
const INTERVALS: u32 = 400;

/// The upper 80 % confidence limit of a standard deviation seen in `differences`: s √((n − 1) / χ²₀.₂), n − 1 degrees of freedom.
/// Planned with it, at least four in five samples lead to the power that is asked for; with s itself half of them do
/// (Browne 1995, *On the use of a pilot sample for sample size determination*, Stat. Med. 14: 1933–1940; normal differences).
/// `None` where nothing spreads.
pub(super) fn planned_spread(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|it| (it - mean).powi(2)).sum();
    let quantile = ChiSquared::new(n - 1.0).ok()?.inverse_cdf(1.0 - PLANNED);
    let spread = (squares / quantile).sqrt();
    (spread.is_finite() && spread > 0.0).then_some(spread)
}

/// How often a one-sided test over `prompts` shows a mean that lies `gap` from the hypothesis, differences being normal with
/// standard deviation `spread`: the power of the t test ([`of_t_test`]) with λ = gap √(n − 3) / spread, at the largest level up to alpha
/// that the exact test has, a multiple of 2⁻ⁿ.
///
/// Conservative: what the exact test and the correction for skewness take from the t test is less than three prompts' worth, from
/// 6 prompts on. Simulated with differences for which it says 0.80: 0.83 with 6, 0.84 with 8, 0.85 with 16, 0.83 with 24 to 48.
pub(super) fn power(prompts: u64, spread: f64, gap: f64, alpha: f64) -> f64 {
    let Some(level) = reached(prompts, alpha) else { return 0.0 };
    let informative = (prompts as f64 - LOST).max(0.0);
    of_t_test(prompts as f64 - 1.0, gap * informative.sqrt() / spread, level)
}

/// P(T > t₁₋ₐ), T noncentral with ν = `freedom` and λ = `shift`: ∫ Φ(λ − t₁₋ₐ √(v/ν)) dF(v), v ~ χ² with ν degrees of freedom.
fn of_t_test(freedom: f64, shift: f64, level: f64) -> f64 {
    let (Ok(normal), Ok(student)) = (Normal::new(0.0, 1.0), StudentsT::new(0.0, 1.0, freedom)) else { return 0.0 };
    let critical = student.inverse_cdf(1.0 - level);
    let shown = |v: f64| normal.cdf(shift - critical * (v / freedom).sqrt());
    if freedom > f64::from(INTERVALS) {
        return shown(freedom);
    }
    let Ok(chi) = ChiSquared::new(freedom) else { return 0.0 };
    let reach = 8.0 * (2.0 * freedom).sqrt();
    let (low, high) = ((freedom - reach).max(0.0), freedom + reach + 16.0);
    let width = (high - low) / f64::from(INTERVALS);
    let weight = |index: u32| match index {
        0 | INTERVALS => 1.0,
        odd if odd % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let value = |index: u32| {
        let v = low + width * f64::from(index);
        weight(index) * shown(v) * chi.pdf(v)
    };
    ((0..=INTERVALS).map(value).sum::<f64>() * width / 3.0).clamp(0.0, 1.0)
}

/// The smallest gap that `prompts` show with the power wanted; `None` where they show none.
pub(super) fn detectable(prompts: u64, spread: f64, alpha: f64, wanted: f64) -> Option<f64> {
    reached(prompts, alpha)?;
    let (mut low, mut high) = (0.0, spread);
    while power(prompts, spread, high, alpha) < wanted {
        high *= 2.0;
        if !high.is_finite() {
            return None;
        }
    }
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if power(prompts, spread, middle, alpha) < wanted { low = middle } else { high = middle }
    }
    Some(high)
}

/// Prompts that show a gap with the power wanted; `None` where a million do not.
pub(super) fn needed(spread: Option<f64>, gap: f64, alpha: f64, wanted: f64) -> Option<u64> {
    let fewest = fewest(alpha);
    let Some(spread) = spread else { return Some(fewest) };
    let shows = |prompts: u64| power(prompts, spread, gap, alpha) >= wanted;
    if !shows(MOST) {
        return None;
    }
    // Exact levels make steps among few prompts: each is looked at. Beyond, power only rises.
    if let Some(few) = (fewest..=STEPPED).find(|prompts| shows(*prompts)) {
        return Some(few);
    }
    let (mut low, mut high) = (STEPPED, MOST);
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if shows(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Prompts needed by what a test of `prompts` came to: n ((z₁₋ₐ + z_power) / z₁₋ₚ)², for z grows with √n. `None` where p shows no
/// direction, or a million prompts do not do. A sample that is lopsided has a larger p than its spread alone says.
pub(super) fn needed_after(prompts: u64, p: f64, alpha: f64, wanted: f64) -> Option<u64> {
    let fewest = fewest(alpha);
    // Too few to have a p that means anything.
    if prompts < fewest {
        return Some(fewest);
    }
    let normal = Normal::new(0.0, 1.0).ok()?;
    let z = |upper: f64| normal.inverse_cdf(1.0 - upper);
    let needed = prompts as f64 * ((z(alpha) + normal.inverse_cdf(wanted)) / z(p)).powi(2);
    (z(p) > 0.0 && needed <= MOST as f64).then(|| needed.ceil() as u64)
}

/// The fewest prompts whose exact one-sided test can reach alpha: ⌈log₂ 1/alpha⌉, for p is at least 2⁻ⁿ.
pub(super) fn fewest(alpha: f64) -> u64 {
    (-alpha.log2()).ceil() as u64
}

/// The largest share of prompts that can all stay out of a sample with more chance than alpha: 1 − alpha^(1/n).
pub(super) fn unseen_share(prompts: usize, alpha: f64) -> f64 {
    if prompts == 0 { 1.0 } else { 1.0 - alpha.powf(1.0 / prompts as f64) }
}

/// The largest level at or below alpha that the exact test has.
fn reached(prompts: u64, alpha: f64) -> Option<f64> {
    if prompts < fewest(alpha).max(2) {
        return None;
    }
    if prompts > STEPPED {
        return Some(alpha);
    }
    let patterns = (1_u64 << prompts) as f64;
    Some((alpha * patterns).floor() / patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_prompts_are_the_fewest_for_one_in_forty() {
        assert_eq!([fewest(0.05), fewest(0.025), fewest(0.01)], [5, 6, 7]);
        assert!(power(5, 1.0, 1e9, 0.025) < 1e-12, "nothing can be shown");
        assert!(power(6, 1.0, 1e9, 0.025) > 0.999);
    }

    #[test]
    fn power_is_that_of_tables() {
        // G*Power 3.1, effect size 0.5 and power 0.8: 27 one-sided at 0.05 (0.8118), 34 two-sided at 0.05 (0.8078).
        for (n, level, expected) in [(27.0_f64, 0.05, 0.8118), (34.0, 0.025, 0.8078)] {
            let found = of_t_test(n - 1.0, 0.5 * n.sqrt(), level);
            assert!((found - expected).abs() < 1e-3, "{n}: {found}");
        }
    }

    #[test]
    fn a_p_that_is_almost_there_needs_twice_the_prompts() {
        // z of 0.025 and of 0.8 are 1.960 and 0.842: (2.802 / 1.960)² = 2.04.
        assert_eq!(needed_after(16, 0.025, 0.025, 0.8), Some(33));
        assert_eq!(needed_after(16, 0.5, 0.025, 0.8), None);
        assert_eq!(needed_after(2, 0.25, 0.025, 0.8), Some(6));
    }

    #[test]
    fn a_spread_is_planned_larger_than_it_was_seen() {
        let spread = planned_spread(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("spreads");
        // s² = 2.5, χ²₀.₂ on 4 degrees = 1.6488.
        assert!((spread - (10.0_f64 / 1.648_8).sqrt()).abs() < 1e-3, "{spread}");
        assert_eq!(planned_spread(&[2.0; 5]), None);
        assert_eq!(planned_spread(&[2.0]), None);
        assert_eq!(planned_spread(&[]), None);
    }

    #[test]
    fn what_can_go_unseen() {
        assert!((unseen_share(16, 0.025) - 0.206).abs() < 1e-3);
        assert!((unseen_share(0, 0.025) - 1.0).abs() < 1e-12);
    }
}
