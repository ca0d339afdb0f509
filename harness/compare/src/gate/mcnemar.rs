//! McNemar's exact test: paired yes and no.

use statrs::distribution::{Binomial, DiscreteCDF};

/// Two-sided exact p of `lost` rows that only the first gets right and `won` rows that only the second gets right: the
/// discordant rows are fair coins if neither is better, so that p = 2 P(X ≤ min(lost, won)), X ~ Binomial(lost + won, ½), at most 1
/// (McNemar 1947, Psychometrika 12: 153–157, exact).
///
/// Assumes independent pairs: one row a prompt, or the published table of a set of items; not rows of one prompt. Rows on which both
/// agree say nothing. Equal to the two-sided sign-flip test of differences −1, 0 and 1.
#[must_use]
pub fn mcnemar(lost: u64, won: u64) -> f64 {
    let tail = Binomial::new(0.5, lost.saturating_add(won)).map_or(1.0, |coins| coins.cdf(lost.min(won)));
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::sign_flip;

    #[test]
    fn thirteen_of_sixteen_against_fifteen_is_at_best_one_half() {
        // The totals differ by two rows: at best these two are all that differ, and lie one way.
        assert!((mcnemar(2, 0) - 0.5).abs() < 1e-12);
        // Every other table of these totals has more discordant rows in both directions.
        assert!((mcnemar(3, 1) - 0.625).abs() < 1e-12);
    }

    #[test]
    fn six_rows_one_way_are_the_fewest_that_show_anything() {
        assert!(mcnemar(5, 0) > 0.05 && mcnemar(6, 0) < 0.05);
        assert!((mcnemar(6, 0) - 0.031_25).abs() < 1e-12);
    }

    #[test]
    fn nothing_discordant_shows_nothing() {
        assert!((mcnemar(0, 0) - 1.0).abs() < 1e-12);
        assert!((mcnemar(4, 4) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn it_is_the_sign_flip_test_of_single_rows() {
        for (lost, won) in [(0, 1), (2, 5), (7, 1), (3, 3), (9, 0)] {
            let differences = [vec![1.0; lost], vec![0.0; 4], vec![-1.0; won]].concat();
            let (exact, flipped) = (mcnemar(lost as u64, won as u64), sign_flip::two_sided(&differences));
            assert!((exact - flipped).abs() < 1e-12, "{lost} {won}: {exact} {flipped}");
        }
    }
}
