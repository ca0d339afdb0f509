//! Intervals of means from a bootstrap over prompts.
//!
//! Rows of one prompt are not independent, so prompts are resampled, never rows. The mean over rows of a resample is the
//! ratio Σ row sums / Σ row counts; the interval is the 2.5th to 97.5th percentile of the resampled means (percentile
//! bootstrap: Efron & Tibshirani 1993, *An Introduction to the Bootstrap*, chapter 13).

use fidelity_verdict::{Bootstrap, Interval};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::summary::quantile;

/// How intervals are made. The seed is arbitrary and fixed: the same traces give the same bytes.
pub const BOOTSTRAP: Bootstrap = Bootstrap { seed: 0x0F1D_E117, resamples: 2000 };

/// What one prompt adds to a mean over rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Contribution {
    /// Sum over the prompt's rows.
    pub(crate) sum: f64,
    /// Number of rows, at least 1.
    pub(crate) rows: f64,
}

/// The random draws, made once and shared by every metric, `[resample, prompt]`.
#[derive(Clone, Debug)]
pub(crate) struct Resamples {
    draws: Vec<u32>,
    prompts: usize,
}

impl Resamples {
    /// Draws for up to `prompts` prompts.
    pub(crate) fn draw(bootstrap: Bootstrap, prompts: usize) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(bootstrap.seed);
        let draws = (0..bootstrap.resamples * prompts).map(|_| generator.next_u32()).collect();
        Self { draws, prompts }
    }

    /// The 95 % interval of Σ sums / Σ rows; `None` with fewer than two prompts. Not more prompts than were drawn for.
    pub(crate) fn interval(&self, prompts: &[Contribution]) -> Option<Interval> {
        if prompts.len() < 2 || self.draws.is_empty() {
            return None;
        }
        let mut means: Vec<f64> =
            self.draws.chunks_exact(self.prompts).map(|draws| resampled(prompts, draws)).collect();
        means.sort_unstable_by(f64::total_cmp);
        Some([quantile(&means, 0.025)?, quantile(&means, 0.975)?])
    }
}

/// The mean over the rows of as many drawn prompts as there are. A draw of 32 bits is scaled to an index (Lemire 2019,
/// without the rejection: the bias is below 2⁻³² × prompts), so that metrics defined on fewer prompts use the same draws.
fn resampled(prompts: &[Contribution], draws: &[u32]) -> f64 {
    let (mut sum, mut rows) = (0.0, 0.0);
    for draw in &draws[..prompts.len()] {
        let index = (u64::from(*draw) * prompts.len() as u64) >> 32;
        let drawn = prompts[index as usize];
        sum += drawn.sum;
        rows += drawn.rows;
    }
    sum / rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Bootstrap = Bootstrap { seed: 7, resamples: 400 };

    fn of(rows: &[f64]) -> Contribution {
        Contribution { sum: rows.iter().sum(), rows: rows.len() as f64 }
    }

    #[test]
    fn one_prompt_has_no_interval() {
        assert_eq!(Resamples::draw(QUICK, 1).interval(&[of(&[1.0, 2.0])]), None);
        assert_eq!(Resamples::draw(QUICK, 0).interval(&[]), None);
    }

    #[test]
    fn equal_rows_have_an_interval_of_no_width() {
        let resamples = Resamples::draw(QUICK, 3);
        assert_eq!(resamples.interval(&[of(&[0.5; 2]), of(&[0.5; 4]), of(&[0.5])]), Some([0.5, 0.5]));
    }

    #[test]
    fn prompts_with_more_rows_weigh_more() {
        // Two prompts: a resample is (a,a), (a,b) or (b,b), so the interval runs from mean to mean.
        let interval = Resamples::draw(QUICK, 5).interval(&[of(&[0.0; 3]), of(&[1.0])]);
        assert_eq!(interval, Some([0.0, 1.0]));
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let prompts = [of(&[0.1, 0.2]), of(&[0.9]), of(&[0.4])];
        let interval = |seed| Resamples::draw(Bootstrap { seed, resamples: 50 }, 3).interval(&prompts);
        assert_eq!(interval(1), interval(1));
    }

    /// Normal deviates to a good approximation: the sum of twelve uniforms, less six.
    fn deviate(generator: &mut ChaCha8Rng) -> f64 {
        (0..12).map(|_| f64::from(generator.next_u32()) / f64::from(u32::MAX)).sum::<f64>() - 6.0
    }

    /// 30 prompts of 4 to 12 rows whose mean is 0: an effect of the prompt, and noise half its size.
    fn correlated_rows(generator: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let prompt = |index: usize| {
            let effect = deviate(generator);
            (0..4 + index % 9).map(|_| effect + 0.5 * deviate(generator)).collect()
        };
        (0..30).map(prompt).collect()
    }

    fn coverage(contributions: impl Fn(&[Vec<f64>]) -> Vec<Contribution>) -> f64 {
        const TRIALS: u32 = 500;
        let mut generator = ChaCha8Rng::seed_from_u64(42);
        let resamples = Resamples::draw(QUICK, 300);
        let mut covered = 0;
        for _ in 0..TRIALS {
            let contributions = contributions(&correlated_rows(&mut generator));
            let [low, high] = resamples.interval(&contributions).expect("many prompts");
            covered += u32::from(low <= 0.0 && 0.0 <= high);
        }
        f64::from(covered) / f64::from(TRIALS)
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let by_prompt = coverage(|prompts| prompts.iter().map(|rows| of(rows)).collect());
        assert!((0.90..=0.98).contains(&by_prompt), "{by_prompt}");
    }

    #[test]
    fn resampling_rows_instead_would_promise_too_much() {
        let by_row = coverage(|prompts| prompts.iter().flatten().map(|row| of(&[*row])).collect());
        assert!(by_row < 0.75, "{by_row}");
    }
}
