//! What the judged rows of a scope show: logits, or an encoder's last hidden state.

use std::collections::BTreeMap;

use fidelity_trace::Site;
use fidelity_verdict::{Coverage, Outcome, Rate, SiteResult, Summary, Thresholds};

use crate::{
    numbers::{below, near_one, rows, threshold},
    prompt::ScopeComparison,
};

/// Decimals of a Pearson, of a cosine and of a rate, at least.
const SIMILARITY_DECIMALS: usize = 4;
const RATE_DECIMALS: usize = 3;

/// Judges a scope by the rows of one site and says why, in one short sentence.
///
/// Broken: any of these rows that is not finite in the arm, however few rows there are. Inconclusive: no such rows, fewer
/// than `minimum_rows`, or fewer on which Pearson is defined. Broken: mean Pearson below `broken_pearson`. Faithful: mean
/// Pearson at least `faithful_pearson`, norms within `faithful_norm_factor` and, of logits, tie-aware top-1 at least
/// `faithful_top1`. Degraded: everything else.
///
/// Of hidden rows it is the centred cosine in the place of Pearson. The row that an encoder's token rows are made into can
/// make it worse.
pub(crate) fn judge(
    judged: Site,
    sites: &BTreeMap<Site, SiteResult>,
    coverage: &Coverage,
    prompts: &[&ScopeComparison],
    thresholds: &Thresholds,
) -> (Outcome, String) {
    let of_rows = match sites.get(&judged) {
        Some(site) => only_if_reference_finite(judge_rows(judged, site, coverage, thresholds), judged, coverage),
        None => (Outcome::Inconclusive, why_none(judged, prompts)),
    };
    if judged == Site::Logits {
        return of_rows;
    }
    let judged = match sites.get(&Site::Pooled) {
        Some(pooled) => with_pooled(of_rows, pooled, thresholds),
        None => of_rows,
    };
    only_if_pooled_compares(judged, prompts)
}

fn judge_rows(judged: Site, site: &SiteResult, coverage: &Coverage, thresholds: &Thresholds) -> (Outcome, String) {
    let compared = coverage.rows_compared;
    if site.non_finite_rows > 0 {
        let reason = format!("{} of {compared} {judged} rows hold a NaN or an infinity", site.non_finite_rows);
        return (Outcome::Broken, reason);
    }
    if compared < thresholds.minimum_rows {
        return (
            Outcome::Inconclusive,
            format!("only {} compared, {} needed", rows(compared), thresholds.minimum_rows),
        );
    }
    let (similarity, name) = match judged {
        Site::Logits => (site.pearson, "Pearson"),
        _ => (site.centred_cosine, "centred cosine"),
    };
    let Some(similarity) = similarity else {
        let reason = match judged {
            Site::Logits => format!("{name} is undefined: the reference's logits are constant in every row"),
            _ => format!("{name} is undefined: the reference's {judged} is the same in every row of a prompt"),
        };
        return (Outcome::Inconclusive, reason);
    };
    if similarity.n < thresholds.minimum_rows {
        let reason = format!("{name} is defined in only {}, {} needed", rows(similarity.n), thresholds.minimum_rows);
        return (Outcome::Inconclusive, reason);
    }
    let top1 = site.logits.as_ref().map(|logits| &logits.top1);
    let judged_numbers = judge_numbers(judged, &similarity, top1, thresholds);
    let (outcome, reason) = only_if_same_norm(judged_numbers, judged, site, thresholds);
    let total = compared + coverage.rows_missing + coverage.rows_other_token + coverage.rows_reference_not_finite;
    let share = (total > compared).then(|| format!(" ({compared} of {} compared)", rows(total)));
    (outcome, reason + &share.unwrap_or_default())
}

fn judge_numbers(
    judged: Site,
    similarity: &Summary,
    top1: Option<&Rate>,
    thresholds: &Thresholds,
) -> (Outcome, String) {
    let mean = similarity.mean;
    let name = if judged == Site::Logits { "logits Pearson" } else { "centred cosine" };
    let too_low =
        |limit: f64| format!("mean {name} {} is below {}", below(mean, limit, SIMILARITY_DECIMALS), threshold(limit));
    if mean < thresholds.broken_pearson {
        return (Outcome::Broken, too_low(thresholds.broken_pearson));
    }
    let low_similarity = (mean < thresholds.faithful_pearson).then(|| too_low(thresholds.faithful_pearson));
    let rate = top1.map(|top1| top1.rate.unwrap_or(0.0));
    let low_top1 = rate.filter(|rate| *rate < thresholds.faithful_top1).map(|rate| {
        let limit = thresholds.faithful_top1;
        format!("top-1 {} is below {}", below(rate, limit, RATE_DECIMALS), threshold(limit))
    });
    let low: Vec<String> = low_similarity.into_iter().chain(low_top1).collect();
    match (low.is_empty(), top1) {
        (false, _) => (Outcome::Degraded, low.join(" and ")),
        (true, Some(top1)) => (Outcome::Faithful, passing(mean, rate.unwrap_or(0.0), top1.ties)),
        (true, None) => (Outcome::Faithful, format!("centred cosine {}", near_one(mean, SIMILARITY_DECIMALS))),
    }
}

/// A reference that is not finite somewhere is not the checkpoint's computation: what it agrees with elsewhere is no pass.
fn only_if_reference_finite((outcome, reason): (Outcome, String), of: Site, coverage: &Coverage) -> (Outcome, String) {
    let bad = coverage.rows_reference_not_finite;
    if bad == 0 || outcome > Outcome::Inconclusive {
        return (outcome, reason);
    }
    let found = format!("the reference itself holds a NaN or an infinity in {} of {of}", rows(bad));
    (Outcome::Inconclusive, format!("{found}; {reason}"))
}

/// Neither Pearson nor a cosine sees that rows are a multiple of what they should be. The 5th and the 95th percentile decide,
/// for in a mean one row too long hides another too short.
fn only_if_same_norm(
    (outcome, reason): (Outcome, String),
    of: Site,
    site: &SiteResult,
    thresholds: &Thresholds,
) -> (Outcome, String) {
    let factor = thresholds.faithful_norm_factor;
    let same = |norms: Summary| norms.p05 >= 1.0 / factor && norms.p95 <= factor;
    match site.norm_ratio.filter(|norms| outcome < Outcome::Degraded && !same(*norms)) {
        None => (outcome, reason),
        Some(Summary { p05, p95, .. }) => {
            let found = format!("norms of {of} rows are {p05:.3} to {p95:.3} times the reference's");
            (Outcome::Degraded, format!("{found}, beyond a factor of {}; {reason}", threshold(factor)))
        }
    }
}

/// An encoder's one row a prompt follows from its token rows; where it does not, sound token rows are no pass.
fn with_pooled(of_rows: (Outcome, String), pooled: &SiteResult, thresholds: &Thresholds) -> (Outcome, String) {
    let (outcome, reason) = of_rows;
    let count = pooled.rows;
    if pooled.non_finite_rows > 0 {
        let bad = pooled.non_finite_rows;
        return (Outcome::Broken, format!("{bad} of {count} pooled rows hold a NaN or an infinity; {reason}"));
    }
    let Some(mean) = pooled.cosine.map(|cosine| cosine.mean) else { return (outcome, reason) };
    let (found, limit) = match mean {
        _ if mean < thresholds.broken_pearson => (Outcome::Broken, thresholds.broken_pearson),
        _ if mean < thresholds.faithful_pearson => (Outcome::Degraded, thresholds.faithful_pearson),
        _ => return only_if_same_norm((outcome, reason), Site::Pooled, pooled, thresholds),
    };
    // Few rows prove no fault, but they forbid a pass.
    let (found, few) = match count < thresholds.minimum_rows {
        true => (Outcome::Inconclusive, format!(" in only {}", rows(count))),
        false => (found, String::new()),
    };
    if found <= outcome {
        return (outcome, reason);
    }
    let low = format!("mean pooled cosine {} is below {}", below(mean, limit, SIMILARITY_DECIMALS), threshold(limit));
    (found, format!("{low}{few}; {reason}"))
}

/// What cannot be compared may be what is wrong. That an arm has no pooled rows at all is only a note.
fn only_if_pooled_compares((outcome, reason): (Outcome, String), prompts: &[&ScopeComparison]) -> (Outcome, String) {
    let difference = prompts.iter().find_map(|prompt| prompt.incomparable.get(&Site::Pooled));
    let not_finite = || prompts.iter().any(|prompt| prompt.reference_not_finite.contains_key(&Site::Pooled));
    let why = match difference {
        Some(difference) => Some(difference.as_str()),
        None => not_finite().then_some("the reference itself holds a NaN or an infinity there"),
    };
    match why.filter(|_| outcome == Outcome::Faithful) {
        Some(why) => (Outcome::Inconclusive, format!("the pooled rows cannot be compared: {why}; {reason}")),
        None => (outcome, reason),
    }
}

fn passing(pearson: f64, rate: f64, ties: usize) -> String {
    let ties = match ties {
        0 => String::new(),
        1 => " (1 tie)".to_owned(),
        many => format!(" ({many} ties)"),
    };
    format!("Pearson {}, top-1 {}{ties}", near_one(pearson, SIMILARITY_DECIMALS), near_one(rate, RATE_DECIMALS))
}

fn why_none(judged: Site, prompts: &[&ScopeComparison]) -> String {
    let difference = prompts.iter().find_map(|prompt| prompt.incomparable.get(&judged));
    let missing = || prompts.iter().any(|prompt| prompt.in_device && prompt.sites_missing.contains(&judged));
    match difference {
        Some(difference) => format!("the {judged} cannot be compared: {difference}"),
        None if missing() => format!("the arm holds no {judged}"),
        None => format!("the reference holds no {judged}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        judge_numbers(Site::Logits, &summary, Some(&rate), &Thresholds::compiled_in())
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
