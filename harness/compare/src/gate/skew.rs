//! What a lopsided spread does to a test of means.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// One-sided p of a mean of 0 or more, corrected for skewness: with S = mean / sd and skewness γ (adjusted for n),
/// √n (S + γS²/3 + γ²S³/27 + γ/6n) on Student's t with n − 1 degrees of freedom (Hall 1992, *On the removal of skewness by
/// transformation of variables*, J. R. Stat. Soc. B 54: 221–228).
///
/// Assumes independent differences with a third moment, not symmetry. Losses are lopsided to the worse: a few prompts lose
/// much. Where a sample happens to miss those, both its mean and its spread are low, and tests that rely on symmetry pass more
/// often than they say. `None` with fewer than three differences, or where they are all the same.
pub(super) fn lower(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    let degrees = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
    if differences.len() < 3 {
        return None;
    }
    let mean = differences.iter().sum::<f64>() / n;
    let moment = |power: i32| differences.iter().map(|it| (it - mean).powi(power)).sum::<f64>() / n;
    let (second, third) = (moment(2), moment(3));
    let largest = differences.iter().fold(0.0_f64, |largest, it| largest.max(it.abs()));
    // What is left of equal numbers by rounding is no spread.
    if second.sqrt() <= 1e-12 * largest {
        return None;
    }
    let skewness = third / second.powf(1.5) * (n * (n - 1.0)).sqrt() / (n - 2.0);
    let s = mean / (second * n / (n - 1.0)).sqrt();
    let corrected = s + skewness * s.powi(2) / 3.0 + skewness.powi(2) * s.powi(3) / 27.0 + skewness / (6.0 * n);
    corrected.is_finite().then(|| degrees.cdf(n.sqrt() * corrected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_skewness_it_is_the_t_test() {
        // mean −1, sd √2.5, n 5: t = −√2, whose one-sided p on 4 degrees of freedom is 0.115.
        let p = lower(&[-3.0, -2.0, -1.0, 0.0, 1.0]).expect("a spread");
        assert!((p - 0.115_1).abs() < 5e-4, "{p}");
    }

    #[test]
    fn a_tail_to_the_worse_makes_it_more_careful() {
        let lopsided = [-1.0, -1.1, -0.9, -1.05, -0.95, -1.0, -1.02, 2.5];
        let mirrored: Vec<f64> = lopsided.iter().map(|it| 2.0 * lopsided.iter().sum::<f64>() / 8.0 - it).collect();
        assert!(lower(&lopsided) > lower(&mirrored));
    }

    #[test]
    fn what_does_not_spread_has_no_such_p() {
        assert_eq!(lower(&[]), None);
        assert_eq!(lower(&[-1.0, -2.0]), None);
        assert_eq!(lower(&[-0.02; 16]), None);
    }

    #[test]
    fn one_small_departure_among_equals_hides_nothing() {
        let mut differences = [-0.02; 16];
        differences[3] = -0.019_99;
        assert!(lower(&differences).is_some_and(|p| p < 1e-6));
    }
}
