//! One metric of one scope, run against baseline.

use fidelity_verdict::{Discordant, GateConclusion, GateSettings, Metric, MetricComparison, Movement};

use super::{mcnemar::mcnemar, numbers_of::mean_of, power, sign_flip, skew};
use crate::bootstrap::Resamples;

/// The numbers of the prompts in which both have one, baseline first.
pub(super) struct Pairs {
    pub(super) values: Vec<[f64; 2]>,
    /// Every prompt has one row.
    pub(super) single_rows: bool,
}

/// Compares; Holm's correction is left to the one who knows all comparisons.
pub(super) fn compare(
    metric: Metric,
    pairs: &Pairs,
    margin: f64,
    settings: &GateSettings,
    resamples: &Resamples,
) -> MetricComparison {
    let towards_worse = |[was, is]: &[f64; 2]| if metric.rises() { was - is } else { is - was };
    let differences: Vec<f64> = pairs.values.iter().map(towards_worse).collect();
    let n = differences.len();
    let mean = |side: usize| pairs.values.iter().map(|pair| pair[side]).sum::<f64>() / n as f64;
    let of_difference = mean_of(&differences, resamples);
    let difference = of_difference.map_or(0.0, |it| it.mean);
    let beyond: Vec<f64> = differences.iter().map(|it| it - margin).collect();
    let within: Vec<f64> = beyond.iter().map(|it| -it).collect();
    let (p_not_worse, p_worse) = (below_zero(&beyond), below_zero(&within));
    let conclusion = match () {
        () if p_not_worse <= settings.alpha => GateConclusion::Pass,
        () if p_worse <= settings.alpha => GateConclusion::Fail,
        () => GateConclusion::Inconclusive,
    };
    let spread = power::planned_spread(&differences);
    let prompts = n as u64;
    let needed = || {
        let planned = power::needed(spread, (margin - difference).abs(), settings.alpha, settings.power)?;
        let seen = power::needed_after(prompts, p_not_worse.min(p_worse), settings.alpha, settings.power)?;
        Some(planned.max(seen).max(prompts + 1))
    };
    let same = differences.iter().all(|it| it.abs() <= 0.0);
    let p_changed = sign_flip::two_sided(&differences);
    MetricComparison {
        conclusion,
        prompts: n,
        baseline: mean(0),
        run: mean(1),
        difference,
        interval: of_difference.and_then(|it| it.interval),
        margin,
        p_not_worse,
        p_worse,
        p_changed,
        p_changed_holm: p_changed,
        movement: if same { Movement::Same } else { Movement::Unclear },
        detectable: spread.and_then(|spread| power::detectable(prompts, spread, settings.alpha, settings.power)),
        power: spread.map(|spread| power::power(prompts, spread, margin, settings.alpha)),
        needed: if conclusion == GateConclusion::Inconclusive { needed() } else { None },
        discordant: (metric == Metric::Top1 && pairs.single_rows).then(|| discordant(&differences)),
    }
}

/// p of a mean of 0 or more: the larger of the exact sign-flip test's, which needs symmetry and no other shape, and that of the t
/// test corrected for skewness, which needs a third moment and no symmetry. A pass needs both.
pub(super) fn below_zero(differences: &[f64]) -> f64 {
    sign_flip::lower(differences).max(skew::lower(differences).unwrap_or(0.0))
}

fn discordant(differences: &[f64]) -> Discordant {
    let count = |sign: f64| differences.iter().filter(|it| sign * **it > 0.5).count();
    let (lost, won) = (count(1.0), count(-1.0));
    Discordant { lost, won, p: mcnemar(lost as u64, won as u64) }
}
