//! Summaries over rows.

use fidelity_verdict::{Agreement, Rate, Summary};

use crate::bootstrap::{Contribution, Resamples};

/// Summarises a metric, given by prompt the rows on which it is defined; `None` when there are none.
pub(crate) fn summarise(by_prompt: &[Vec<f64>], resamples: &Resamples) -> Option<Summary> {
    let contributions: Vec<Contribution> = contributing(by_prompt).map(|rows| contribution(rows)).collect();
    let mut sorted: Vec<f64> = by_prompt.iter().flatten().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(Summary {
        mean: mean(&contributions)?,
        interval: resamples.interval(&contributions),
        min: *sorted.first()?,
        max: *sorted.last()?,
        p05: quantile(&sorted, 0.05)?,
        p50: quantile(&sorted, 0.5)?,
        p95: quantile(&sorted, 0.95)?,
        n: sorted.len(),
    })
}

/// Counts agreement, given by prompt. Ties count as agreement in the rate and its interval, not in the strict rate.
pub(crate) fn rate(by_prompt: &[Vec<Agreement>], resamples: &Resamples) -> Rate {
    let count = |wanted| by_prompt.iter().flatten().filter(|found| **found == wanted).count();
    let (agree, ties, flips) = (count(Agreement::Agree), count(Agreement::Tie), count(Agreement::Flip));
    let n = agree + ties + flips;
    let share = |part: usize| (n > 0).then(|| part as f64 / n as f64);
    let score = |agreement: &Agreement| if *agreement == Agreement::Flip { 0.0 } else { 1.0 };
    let scores = contributing(by_prompt).map(|rows| contribution(&rows.iter().map(score).collect::<Vec<f64>>()));
    let contributions: Vec<Contribution> = scores.collect();
    Rate {
        agree,
        ties,
        flips,
        n,
        rate: share(agree + ties),
        rate_strict: share(agree),
        interval: resamples.interval(&contributions),
    }
}

/// The median; `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The quantile `p` of ascending values, interpolated between order statistics: with h = (n − 1) p,
/// x[⌊h⌋] + (h − ⌊h⌋) (x[⌊h⌋ + 1] − x[⌊h⌋]) (Hyndman & Fan 1996, type 7; the default of R and numpy). `None` of nothing.
pub(crate) fn quantile(ascending: &[f64], p: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let h = last as f64 * p.clamp(0.0, 1.0);
    let below = h.floor() as usize;
    let (low, high) = (ascending[below], ascending[(below + 1).min(last)]);
    Some(low + (h - h.floor()) * (high - low))
}

fn contributing<T>(by_prompt: &[Vec<T>]) -> impl Iterator<Item = &Vec<T>> {
    by_prompt.iter().filter(|rows| !rows.is_empty())
}

fn contribution(rows: &[f64]) -> Contribution {
    Contribution { sum: rows.iter().sum(), rows: rows.len() as f64 }
}

fn mean(prompts: &[Contribution]) -> Option<f64> {
    let (sum, rows) = prompts.iter().fold((0.0, 0.0), |(sum, rows), prompt| (sum + prompt.sum, rows + prompt.rows));
    (rows > 0.0).then(|| sum / rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BOOTSTRAP;
    use Agreement::{Agree, Flip, Tie};

    #[test]
    fn quantiles_are_those_of_numpy() {
        // numpy.quantile([1, 2, 4, 8], [0, .05, .5, .95, 1])
        let values = [1.0, 2.0, 4.0, 8.0];
        for (p, expected) in [(0.0, 1.0), (0.05, 1.15), (0.5, 3.0), (0.95, 7.4), (1.0, 8.0)] {
            let found = quantile(&values, p).expect("not empty");
            assert!((found - expected).abs() < 1e-12, "{p}: {found}");
        }
        assert_eq!(quantile(&[3.0], 0.95), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(vec![5.0, 1.0, 3.0]), Some(3.0));
    }

    #[test]
    fn a_summary_by_hand() {
        let resamples = Resamples::draw(BOOTSTRAP, 3);
        let summary = summarise(&[vec![1.0, 3.0], vec![], vec![8.0]], &resamples).expect("rows");
        assert_eq!((summary.mean, summary.min, summary.max, summary.p50, summary.n), (4.0, 1.0, 8.0, 3.0, 3));
        assert_eq!(summary.interval, Some([2.0, 8.0]));
    }

    #[test]
    fn nothing_has_no_summary_and_one_prompt_no_interval() {
        let resamples = Resamples::draw(BOOTSTRAP, 2);
        assert_eq!(summarise(&[vec![], vec![]], &resamples), None);
        let summary = summarise(&[vec![2.0], vec![]], &resamples).expect("a row");
        assert_eq!((summary.interval, summary.mean, summary.n), (None, 2.0, 1));
    }

    #[test]
    fn ties_count_in_the_rate_and_not_in_the_strict_rate() {
        let rate = rate(&[vec![Agree, Tie], vec![Flip, Agree]], &Resamples::draw(BOOTSTRAP, 2));
        assert_eq!((rate.agree, rate.ties, rate.flips, rate.n), (2, 1, 1, 4));
        assert_eq!((rate.rate, rate.rate_strict, rate.interval), (Some(0.75), Some(0.5), Some([0.5, 1.0])));
    }

    #[test]
    fn a_rate_of_nothing_is_absent() {
        assert_eq!(rate(&[], &Resamples::draw(BOOTSTRAP, 0)), Rate::default());
    }
}
