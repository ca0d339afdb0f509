//! What a scope's logits show.

use fidelity_trace::Site;
use fidelity_verdict::{Coverage, LogitsResult, Outcome, SiteResult, Summary, Thresholds};

use crate::{
    numbers::{below, near_one, rows, threshold},
    prompt::ScopeComparison,
};

/// Decimals of a Pearson and of a rate, at least.
const PEARSON_DECIMALS: usize = 4;
const RATE_DECIMALS: usize = 3;

/// Judges a scope and says why, in one short sentence. `logits` is absent when no logits could be compared.
///
/// Broken: any row of the arm's logits that is not finite, however few rows there are. Inconclusive: no logits, fewer rows
/// than `minimum_rows`, or fewer on which Pearson is defined. Broken: mean Pearson below `broken_pearson`. Faithful: mean
/// Pearson at least `faithful_pearson` and tie-aware top-1 at least `faithful_top1`. Degraded: everything else.
pub(crate) fn judge(
    logits: Option<&SiteResult>,
    coverage: &Coverage,
    prompts: &[&ScopeComparison],
    thresholds: &Thresholds,
) -> (Outcome, String) {
    let Some((site, logits)) = logits.and_then(|site| Some((site, site.logits.as_ref()?))) else {
        return (Outcome::Inconclusive, why_no_logits(prompts));
    };
    let compared = coverage.rows_compared;
    if site.non_finite_rows > 0 {
        let reason = format!("{} of {compared} logits rows hold a NaN or an infinity", site.non_finite_rows);
        return (Outcome::Broken, reason);
    }
    if compared < thresholds.minimum_rows {
        return (
            Outcome::Inconclusive,
            format!("only {} compared, {} needed", rows(compared), thresholds.minimum_rows),
        );
    }
    let Some(pearson) = site.pearson else {
        let reason = "Pearson is undefined: the reference's logits are constant in every row";
        return (Outcome::Inconclusive, reason.to_owned());
    };
    if pearson.n < thresholds.minimum_rows {
        let reason = format!("Pearson is defined in only {}, {} needed", rows(pearson.n), thresholds.minimum_rows);
        return (Outcome::Inconclusive, reason);
    }
    let (outcome, reason) = judge_numbers(&pearson, logits, thresholds);
    let total = compared + coverage.rows_missing + coverage.rows_other_token + coverage.rows_reference_not_finite;
    let share = (total > compared).then(|| format!(" ({compared} of {} compared)", rows(total)));
    (outcome, reason + &share.unwrap_or_default())
}

fn judge_numbers(pearson: &Summary, logits: &LogitsResult, thresholds: &Thresholds) -> (Outcome, String) {
    let mean = pearson.mean;
    let too_low = |limit: f64| {
        format!("mean logits Pearson {} is below {}", below(mean, limit, PEARSON_DECIMALS), threshold(limit))
    };
    if mean < thresholds.broken_pearson {
        return (Outcome::Broken, too_low(thresholds.broken_pearson));
    }
    let rate = logits.top1.rate.unwrap_or(0.0);
    let low_pearson = (mean < thresholds.faithful_pearson).then(|| too_low(thresholds.faithful_pearson));
    let low_top1 = (rate < thresholds.faithful_top1).then(|| {
        let limit = thresholds.faithful_top1;
        format!("top-1 {} is below {}", below(rate, limit, RATE_DECIMALS), threshold(limit))
    });
    let low: Vec<String> = low_pearson.into_iter().chain(low_top1).collect();
    if low.is_empty() {
        (Outcome::Faithful, passing(mean, rate, logits.top1.ties))
    } else {
        (Outcome::Degraded, low.join(" and "))
    }
}

fn passing(pearson: f64, rate: f64, ties: usize) -> String {
    let ties = match ties {
        0 => String::new(),
        1 => " (1 tie)".to_owned(),
        many => format!(" ({many} ties)"),
    };
    format!("Pearson {}, top-1 {}{ties}", near_one(pearson, PEARSON_DECIMALS), near_one(rate, RATE_DECIMALS))
}

fn why_no_logits(prompts: &[&ScopeComparison]) -> String {
    let difference = prompts.iter().find_map(|prompt| prompt.incomparable.get(&Site::Logits));
    let missing = || prompts.iter().any(|prompt| prompt.in_device && prompt.sites_missing.contains(&Site::Logits));
    match difference {
        Some(difference) => format!("the logits cannot be compared: {difference}"),
        None if missing() => "the arm holds no logits".to_owned(),
        None => "the reference holds no logits".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidelity_verdict::Rate;

    fn numbers(pearson: f64, agree: usize, ties: usize, flips: usize) -> (Outcome, String) {
        let n = agree + ties + flips;
        let summary = Summary { mean: pearson, interval: None, min: 0.0, max: 1.0, p05: 0.0, p50: 0.5, p95: 1.0, n };
        let rate = Rate {
            agree,
            ties,
            flips,
            n,
            rate: Some((agree + ties) as f64 / n as f64),
            rate_strict: Some(agree as f64 / n as f64),
            interval: None,
        };
        let logits = LogitsResult {
            kl: None,
            top1: rate,
            top5: Rate::default(),
            rank: None,
            delta_log_prob: None,
            perplexity_ratio: None,
        };
        judge_numbers(&summary, &logits, &Thresholds::compiled_in())
    }

    fn says(found: (Outcome, String), outcome: Outcome, reason: &str) {
        assert_eq!((found.0, found.1.as_str()), (outcome, reason));
    }

    #[test]
    fn reasons_carry_their_numbers() {
        says(numbers(0.3211, 9, 0, 1), Outcome::Broken, "mean logits Pearson 0.3211 is below 0.90");
        says(numbers(0.899_999_9, 9, 0, 1), Outcome::Broken, "mean logits Pearson 0.8999999 is below 0.90");
        says(numbers(0.95, 20, 0, 0), Outcome::Degraded, "mean logits Pearson 0.9500 is below 0.99");
        says(numbers(0.995, 912, 0, 88), Outcome::Degraded, "top-1 0.912 is below 0.95");
        let both = "mean logits Pearson 0.9500 is below 0.99 and top-1 0.500 is below 0.95";
        says(numbers(0.95, 1, 0, 1), Outcome::Degraded, both);
        says(numbers(0.999_81, 30, 2, 0), Outcome::Faithful, "Pearson 0.99981, top-1 1.000 (2 ties)");
        says(numbers(1.0, 31, 1, 0), Outcome::Faithful, "Pearson 1.0000, top-1 1.000 (1 tie)");
        says(numbers(0.999_999_99, 1999, 0, 1), Outcome::Faithful, "Pearson 0.999999990, top-1 0.99950");
    }

    #[test]
    fn thresholds_are_reached_by_equality() {
        assert_eq!(numbers(0.99, 19, 0, 1).0, Outcome::Faithful);
        assert_eq!(numbers(0.90, 20, 0, 0).0, Outcome::Degraded);
    }
}
