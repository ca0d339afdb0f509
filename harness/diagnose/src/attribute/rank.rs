//! Ranks, and correlations of ranks.

use fidelity_verdict::Interval;

/// Checkpoints below which a correlation has no interval: Fisher's approximation is no good there.
const FEWEST_FOR_INTERVAL: usize = 20;

/// The 97.5th percentile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Twice the rank of each value, counted from 1, less n + 1: integers with mean 0. Equal values share the mean of their ranks.
pub(super) fn centred(values: &[f64]) -> Vec<i64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let equal = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        (2 * below + equal + 1) as i64 - (values.len() + 1) as i64
    };
    values.iter().map(rank).collect()
}

/// Spearman's ρ: Pearson's correlation of the ranks. `None` where either is constant.
pub(super) fn spearman(x: &[i64], y: &[i64]) -> Option<f64> {
    let squares = |ranks: &[i64]| ranks.iter().map(|rank| rank * rank).sum::<i64>() as f64;
    let scale = (squares(x) * squares(y)).sqrt();
    (scale > 0.0).then(|| (product(x, y) as f64 / scale).clamp(-1.0, 1.0))
}

pub(super) fn product(x: &[i64], y: &[i64]) -> i64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Kendall's τ-b (Kendall 1945): concordant less discordant pairs over the geometric mean of pairs untied in each.
pub(super) fn kendall(x: &[i64], y: &[i64]) -> Option<f64> {
    let (mut difference, mut untied) = (0_i64, [0_i64; 2]);
    for i in 0..x.len() {
        for j in 0..i {
            let signs = [(x[i] - x[j]).signum(), (y[i] - y[j]).signum()];
            difference += signs[0] * signs[1];
            untied[0] += signs[0].abs();
            untied[1] += signs[1].abs();
        }
    }
    let scale = (untied[0] as f64 * untied[1] as f64).sqrt();
    (scale > 0.0).then(|| (difference as f64 / scale).clamp(-1.0, 1.0))
}

/// 95 % interval of Spearman's ρ by Fisher's transformation with standard error √((1 + ρ²/2) / (n − 3)) (Bonett & Wright 2000).
pub(super) fn spearman_interval(rho: f64, n: usize) -> Option<Interval> {
    fisher(rho, n, |n| (1.0 + rho * rho / 2.0) / (n - 3.0))
}

/// 95 % interval of Kendall's τ by Fisher's transformation with standard error √(0.437 / (n − 4)) (Fieller, Hartley & Pearson
/// 1957).
pub(super) fn kendall_interval(tau: f64, n: usize) -> Option<Interval> {
    fisher(tau, n, |n| 0.437 / (n - 4.0))
}

/// None with few checkpoints, or where the transformation is infinite.
fn fisher(value: f64, n: usize, variance: impl Fn(f64) -> f64) -> Option<Interval> {
    if n < FEWEST_FOR_INTERVAL || value.abs() >= 1.0 {
        return None;
    }
    let (centre, half) = (value.atanh(), Z * variance(n as f64).sqrt());
    Some([(centre - half).tanh(), (centre + half).tanh()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, expected: f64) {
        let found = found.expect("defined");
        assert!((found - expected).abs() < 1e-12, "{found}");
    }

    #[test]
    fn ranks_of_ties_are_shared() {
        // Ranks 1, 2.5, 2.5, 4; doubled 2, 5, 5, 8; less 5.
        assert_eq!(centred(&[1.0, 7.0, 7.0, 9.0]), [-3, 0, 0, 3]);
        assert_eq!(centred(&[]), [0_i64; 0]);
    }

    #[test]
    fn correlations_by_hand() {
        let (x, y) = (centred(&[1.0, 2.0, 3.0, 4.0]), centred(&[1.0, 3.0, 2.0, 4.0]));
        // 1 − 6 Σd² / (n (n² − 1)) = 1 − 12/60; five pairs agree and one does not.
        near(spearman(&x, &y), 0.8);
        near(kendall(&x, &y), 4.0 / 6.0);
        near(spearman(&x, &x), 1.0);
        near(kendall(&x, &centred(&[4.0, 3.0, 2.0, 1.0])), -1.0);
    }

    #[test]
    fn nothing_correlates_with_a_constant() {
        let (x, flat) = (centred(&[1.0, 2.0, 3.0]), centred(&[5.0; 3]));
        assert_eq!((spearman(&x, &flat), kendall(&x, &flat)), (None, None));
        assert_eq!((spearman(&[], &[]), kendall(&[0], &[0])), (None, None));
    }

    #[test]
    fn there_is_an_interval_from_twenty_checkpoints_on() {
        assert_eq!(spearman_interval(0.5, 19), None);
        assert_eq!(kendall_interval(1.0, 30), None, "Fisher's transformation is infinite there");
        // tanh(0.549306 ± 1.959964 · √(1.125 / 17)).
        let [low, high] = spearman_interval(0.5, 20).expect("enough");
        assert!((low - 0.045_08).abs() < 1e-4 && (high - 0.783_16).abs() < 1e-4, "{low} {high}");
    }
}
