//! The exact sign-flip test: whether paired differences lie around zero.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// Differences up to which every pattern of signs is counted; beyond, patterns are drawn.
const EXACT: usize = 32;
/// Patterns drawn.
const DRAWS: u32 = 19_999;
/// Arbitrary and fixed: the same differences give the same p.
const SEED: u64 = 0x51_6E_F1_1B;
/// Sums that differ by less than this share of Σ|d| are one sum: equal differences of rounded numbers differ in their last bits.
const SAME: f64 = 1e-9;

/// p of a sum of differences as low as this one or lower, if every difference is as likely to have either sign.
///
/// Null hypothesis: the differences are independent of each other and symmetric around 0 (Fisher 1935, *The Design of Experiments*,
/// section 21). The unit must be what is independent: prompts, never the rows of one. p is the share of the 2ⁿ patterns of
/// signs whose sum is as low; a tie counts as as low. The observed pattern is one of them, so that p is at least 2⁻ⁿ. Differences of 0
/// have no sign and do not count.
///
/// Up to 32 differences all patterns are counted, by the sums of two halves. Beyond, 19,999 are drawn with a fixed seed, and
/// p = (1 + as low) / (1 + drawn), which keeps the level (Phipson & Smyth 2010, *Permutation P-values should never be zero*).
pub(super) fn lower(differences: &[f64]) -> f64 {
    let sizes: Vec<f64> = differences.iter().map(|difference| difference.abs()).filter(|size| *size > 0.0).collect();
    let observed: f64 = differences.iter().sum();
    let limit = observed + SAME * sizes.iter().sum::<f64>();
    if sizes.len() > EXACT { drawn(&sizes, limit) } else { counted(&sizes, limit) }
}

/// p of a sum as far from 0 as this one or farther, either way; assumptions and ties as of [`lower`].
pub(super) fn two_sided(differences: &[f64]) -> f64 {
    let observed: f64 = differences.iter().sum();
    let towards = if observed > 0.0 { -1.0 } else { 1.0 };
    let pointing: Vec<f64> = differences.iter().map(|difference| towards * difference).collect();
    // The patterns come in pairs of opposite sums.
    (2.0 * lower(&pointing)).min(1.0)
}

fn counted(sizes: &[f64], limit: f64) -> f64 {
    let (first, second) = sizes.split_at(sizes.len() / 2);
    let (first, second) = (signed_sums(first), signed_sums(second));
    let mut reach = second.len();
    let mut low = 0;
    for sum in &first {
        while reach > 0 && sum + second[reach - 1] > limit {
            reach -= 1;
        }
        low += reach as u64;
    }
    low as f64 / (first.len() as u64 * second.len() as u64) as f64
}

/// The sums under all patterns of signs, ascending.
fn signed_sums(sizes: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for size in sizes {
        sums = [-size, *size].iter().flat_map(|signed| sums.iter().map(move |sum| sum + signed)).collect();
    }
    sums.sort_unstable_by(f64::total_cmp);
    sums
}

fn drawn(sizes: &[f64], limit: f64) -> f64 {
    let mut generator = ChaCha8Rng::seed_from_u64(SEED);
    let mut low = 0;
    for _ in 0..DRAWS {
        let mut sum = 0.0;
        for chunk in sizes.chunks(64) {
            let signs = generator.next_u64();
            let signed = chunk.iter().enumerate().map(|(bit, size)| if signs >> bit & 1 == 0 { *size } else { -size });
            sum += signed.sum::<f64>();
        }
        low += u32::from(sum <= limit);
    }
    f64::from(1 + low) / f64::from(1 + DRAWS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every pattern, one by one.
    fn by_hand(differences: &[f64]) -> f64 {
        let nonzero: Vec<f64> = differences.iter().copied().filter(|it| it.abs() > 0.0).collect();
        let limit = nonzero.iter().sum::<f64>() + SAME * nonzero.iter().map(|it| it.abs()).sum::<f64>();
        let patterns = 1_u32 << nonzero.len();
        let sum = |pattern: u32| -> f64 {
            let signed = nonzero.iter().enumerate().map(|(bit, it)| if pattern >> bit & 1 == 0 { *it } else { -it });
            signed.sum()
        };
        let low = (0..patterns).filter(|pattern| sum(*pattern) <= limit).count();
        low as f64 / f64::from(patterns)
    }

    #[test]
    fn three_differences_by_hand() {
        // Sums of ±1 ±2 ±4: −7 −5 −3 −1 1 3 5 7.
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        close(lower(&[-1.0, -2.0, -4.0]), 1.0 / 8.0);
        close(lower(&[1.0, -2.0, -4.0]), 2.0 / 8.0);
        close(lower(&[1.0, 2.0, 4.0]), 1.0);
        close(two_sided(&[1.0, -2.0, -4.0]), 4.0 / 8.0);
        close(two_sided(&[-1.0, 2.0, 4.0]), 4.0 / 8.0);
    }

    #[test]
    fn nothing_and_zeros_show_nothing() {
        for differences in [&[][..], &[0.0], &[0.0; 40]] {
            assert!((lower(differences) - 1.0).abs() < 1e-12 && (two_sided(differences) - 1.0).abs() < 1e-12);
        }
        assert!((lower(&[0.0, -1.0, 0.0, -1.0]) - 0.25).abs() < 1e-12, "zeros do not count");
    }

    #[test]
    fn equal_differences_reach_the_smallest_p() {
        for count in [1, 2, 5, 6, 16, 32] {
            let p = lower(&vec![-0.1 - 0.2; count]);
            assert!((p - 0.5_f64.powi(count as i32)).abs() < 1e-15, "{count}: {p}");
        }
    }

    #[test]
    fn ties_that_only_rounding_tells_apart_are_ties() {
        // 0.1 + 0.2 ≠ 0.3 in f64; both patterns sum to what was observed.
        assert!((lower(&[0.3, -(0.1 + 0.2)]) - lower(&[0.3, -0.3])).abs() < 1e-12);
        assert!((lower(&[0.3, -0.3]) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn drawn_patterns_agree_with_counted_ones() {
        let differences: Vec<f64> =
            (1..=24).map(|it| f64::from(it % 7) * if it % 3 == 0 { 0.4 } else { -0.3 }).collect();
        let sizes: Vec<f64> = differences.iter().map(|it| it.abs()).filter(|it| *it > 0.0).collect();
        let limit = differences.iter().sum::<f64>() + 1e-9;
        let (exact, drawn) = (counted(&sizes, limit), drawn(&sizes, limit));
        // Four standard errors.
        assert!((exact - drawn).abs() < 4.0 * (exact * (1.0 - exact) / f64::from(DRAWS)).sqrt(), "{exact} {drawn}");
    }

    #[test]
    fn forty_differences_on_one_side_have_the_smallest_p_that_draws_allow() {
        assert!((lower(&[-1.0; 40]) - 1.0 / f64::from(DRAWS + 1)).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn halves_count_what_patterns_count(differences in prop::collection::vec(-3_i32..=3, 0..10)) {
            let differences: Vec<f64> = differences.into_iter().map(f64::from).collect();
            prop_assert!((lower(&differences) - by_hand(&differences)).abs() < 1e-12);
        }

        #[test]
        fn p_is_a_share_and_the_tails_overlap_in_ties(differences in prop::collection::vec(-1.0_f64..1.0, 1..14)) {
            let mirrored: Vec<f64> = differences.iter().map(|it| -it).collect();
            let (low, high) = (lower(&differences), lower(&mirrored));
            let least = 0.5_f64.powi(differences.len() as i32);
            prop_assert!(low >= least - 1e-15 && low <= 1.0 && high >= least - 1e-15);
            prop_assert!(low + high >= 1.0 + least - 1e-12);
            prop_assert!(two_sided(&differences) >= 2.0 * low.min(high) - 1e-12);
        }
    }
}
