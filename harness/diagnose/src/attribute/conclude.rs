//! One group: tests, what goes together, and what is said of it.

use fidelity_verdict::{Confounded, Covariate, CovariateTest, GroupExplanation, GroupKey, RankCorrelation, Separation};

use super::{
    experiment::{Hypothesis, next},
    permute::{self, Tested, label_statistic},
    rank::{centred, kendall, kendall_interval, spearman, spearman_interval},
    read::{Outcome, ResultRow},
};

/// The level of evidence.
const ALPHA: f64 = 0.05;
/// Rank correlation from which two covariates count as confounded.
const CONFOUNDED: f64 = 0.9;
/// Fewest checkpoints whose numbers are correlated.
const FEWEST_NUMBERS: usize = 3;

/// A covariate and its values in the order of some checkpoints.
struct Column {
    covariate: Covariate,
    values: Vec<f64>,
    ranks: Vec<i64>,
}

pub(super) fn group(key: &GroupKey, cases: &[&ResultRow]) -> GroupExplanation {
    let decided: Vec<&ResultRow> = cases.iter().copied().filter(|case| case.outcome.is_some()).collect();
    let numbered: Vec<&ResultRow> = cases.iter().copied().filter(|case| case.fidelity.is_some()).collect();
    // What is known of checkpoints that pass or fail decides; without any, of those with a number.
    let ground = if decided.is_empty() { &numbered } else { &decided };
    let (columns, constant, unknown) = columns(ground);
    let failed: Vec<usize> =
        (0..decided.len()).filter(|index| decided[*index].outcome == Some(Outcome::Fail)).collect();
    let both = !failed.is_empty() && failed.len() < decided.len();
    let ranks: Vec<Vec<i64>> = columns.iter().map(|column| column.ranks.clone()).collect();
    let labels = if both { permute::labels(&ranks, &failed) } else { None };
    let mut tested: Vec<CovariateTest> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| CovariateTest {
            covariate: column.covariate,
            separation: separation(&column.values, &failed).filter(|_| both),
            strength: both.then(|| strength(&column.ranks, &failed)),
            p: labels.as_ref().map(|tested| tested.alone[index]),
            p_adjusted: labels.as_ref().map(|tested| tested.adjusted[index]),
            spearman: None,
            kendall: None,
        })
        .collect();
    let numbers = correlate(&mut tested, &numbered);
    let confounded = confounded(&columns, &tested);
    let hypotheses: Vec<Hypothesis> = tested
        .iter()
        .filter_map(|test| Some(Hypothesis { covariate: test.covariate, separation: test.separation? }))
        .collect();
    let names = |wanted: Outcome| {
        cases.iter().filter(|case| case.outcome == Some(wanted)).map(|case| case.checkpoint.clone()).collect::<Vec<_>>()
    };
    let mut explanation = GroupExplanation {
        key: key.clone(),
        passed: names(Outcome::Pass),
        failed: names(Outcome::Fail),
        measured_only: unsettled(cases, true),
        undecided: unsettled(cases, false),
        constant,
        unknown,
        labels: labels.map(|tested| tested.permutations),
        measured_checkpoints: numbered.len(),
        numbers,
        confounded,
        conclusion: String::new(),
        open: Vec::new(),
        next: if both { next(key, cases, &hypotheses) } else { Vec::new() },
        tested,
    };
    explanation.conclusion = conclusion(&explanation);
    explanation.open = open(&explanation);
    explanation
}

/// Covariates known of all of `cases` and different in some; those that are the same of all; those that are not known of all.
fn columns(cases: &[&ResultRow]) -> (Vec<Column>, Vec<Covariate>, Vec<(Covariate, usize)>) {
    let (mut columns, mut constant, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for covariate in Covariate::ALL {
        let values: Vec<f64> = cases.iter().filter_map(|case| case.covariates.get(&covariate).copied()).collect();
        let ranks = centred(&values);
        match cases.len() - values.len() {
            0 if ranks.iter().all(|rank| *rank == 0) => constant.push(covariate),
            0 => columns.push(Column { covariate, values, ranks }),
            lacking => unknown.push((covariate, lacking)),
        }
    }
    (columns, constant, unknown)
}

/// Thresholds with all that fail on one side and all that pass on the other.
fn separation(values: &[f64], failed: &[usize]) -> Option<Separation> {
    let side = |of_failed: bool| {
        let own = values.iter().enumerate().filter(move |(index, _)| failed.contains(index) == of_failed);
        own.map(|(_, value)| *value)
    };
    let lowest = |of_failed| side(of_failed).fold(f64::INFINITY, f64::min);
    let highest = |of_failed| side(of_failed).fold(f64::NEG_INFINITY, f64::max);
    let between = |fails_above: bool| {
        let (low, high) = (highest(!fails_above), lowest(fails_above));
        (low < high).then_some(Separation { fails_above, low, high })
    };
    between(true).or_else(|| between(false))
}

fn strength(ranks: &[i64], failed: &[usize]) -> f64 {
    let pairs = failed.len() * (ranks.len() - failed.len());
    label_statistic(ranks, failed.iter().copied()) as f64 / pairs as f64
}

/// Adds rank correlations with the fidelity numbers to the tests.
fn correlate(tested: &mut [CovariateTest], numbered: &[&ResultRow]) -> Option<fidelity_verdict::Permutations> {
    let numbers = centred(&numbered.iter().filter_map(|case| case.fidelity).collect::<Vec<_>>());
    if numbered.len() < FEWEST_NUMBERS || numbers.iter().all(|rank| *rank == 0) {
        return None;
    }
    let (columns, _, _) = columns(numbered);
    let ranks: Vec<Vec<i64>> = columns.iter().map(|column| column.ranks.clone()).collect();
    let Tested { permutations, alone, adjusted } = permute::numbers(&ranks, &numbers)?;
    let n = numbered.len();
    for (index, column) in columns.iter().enumerate() {
        let Some(test) = tested.iter_mut().find(|test| test.covariate == column.covariate) else { continue };
        test.spearman = spearman(&column.ranks, &numbers).map(|value| RankCorrelation {
            value,
            n,
            interval: spearman_interval(value, n),
            p: Some(alone[index]),
            p_adjusted: Some(adjusted[index]),
        });
        test.kendall = kendall(&column.ranks, &numbers).map(|value| RankCorrelation {
            value,
            n,
            interval: kendall_interval(value, n),
            p: None,
            p_adjusted: None,
        });
    }
    Some(permutations)
}

fn confounded(columns: &[Column], tested: &[CovariateTest]) -> Vec<Confounded> {
    let mut pairs = Vec::new();
    for (index, a) in columns.iter().enumerate() {
        for (offset, b) in columns[index + 1..].iter().enumerate() {
            let rho = spearman(&a.ranks, &b.ranks).unwrap_or(0.0);
            let separates = |index: usize| tested[index].separation.is_some();
            let both_separate = separates(index) && separates(index + 1 + offset);
            if both_separate || rho.abs() >= CONFOUNDED {
                pairs.push(Confounded { a: a.covariate, b: b.covariate, rho, both_separate });
            }
        }
    }
    pairs
}

/// Checkpoints of which it is not known whether they pass, with a number or without.
fn unsettled(cases: &[&ResultRow], with_number: bool) -> Vec<String> {
    let own = cases.iter().filter(|case| case.outcome.is_none() && case.fidelity.is_some() == with_number);
    own.map(|case| case.checkpoint.clone()).collect()
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What is concluded, never more than an association.
fn conclusion(of: &GroupExplanation) -> String {
    let (passed, failed, tried) = (of.passed.len(), of.failed.len(), of.tested.len());
    let said = match (passed, failed) {
        (0, 0) => Some("no checkpoint is known to pass or to fail".to_owned()),
        (_, 0) => Some(format!("all {passed} pass: there is nothing to explain")),
        (0, _) => Some(format!("all {failed} fail: no covariate can be told from another")),
        _ => None,
    };
    if let Some(said) = said {
        return correlated(of).map_or_else(|| said.clone(), |numbers| format!("{said}; {numbers}"));
    }
    if tried == 0 {
        return "no covariate is known of all checkpoints and differs between them".to_owned();
    }
    let separating: Vec<&str> =
        of.tested.iter().filter(|test| test.separation.is_some()).map(|test| test.covariate.name()).collect();
    let least = of.tested.iter().filter_map(|test| test.p_adjusted).fold(1.0, f64::min);
    let evidence = if least <= ALPHA {
        format!(
            "p = {least:.3}, corrected for the {tried} covariates tried: an association, of which these data cannot say that it is the cause"
        )
    } else {
        format!("p = {least:.3}, corrected for the {tried} covariates tried: not evidence")
    };
    match separating.len() {
        0 => format!(
            "no threshold of any one covariate separates {passed} that pass from {failed} that fail; {evidence}"
        ),
        1 => {
            format!("a threshold of {} separates {passed} that pass from {failed} that fail; {evidence}", separating[0])
        }
        _ => format!(
            "thresholds of {} each separate {passed} that pass from {failed} that fail, and cannot be told apart here; {evidence}",
            list(&separating)
        ),
    }
}

/// What the fidelity numbers say where passing and failing say nothing.
fn correlated(of: &GroupExplanation) -> Option<String> {
    let n = of.measured_checkpoints;
    if of.numbers.is_none() {
        let few = n > 0 && n < FEWEST_NUMBERS;
        return few.then(|| format!("{n} with a fidelity number, {FEWEST_NUMBERS} needed to correlate"));
    }
    let strongest = of.tested.iter().filter_map(|test| Some((test.covariate, test.spearman?)));
    let (covariate, rho) = strongest.max_by(|a, b| a.1.value.abs().total_cmp(&b.1.value.abs()))?;
    let p = rho.p_adjusted?;
    let evidence = if p <= ALPHA { "an association, which need not be the cause" } else { "not evidence" };
    let tried = of.tested.len();
    Some(format!(
        "of {n} fidelity numbers the strongest rank correlation is {covariate}'s, {:.2}; p = {p:.3}, corrected for the {tried} covariates tried: {evidence}",
        rho.value
    ))
}

/// What stays open whatever the p-values are.
fn open(of: &GroupExplanation) -> Vec<String> {
    if of.passed.is_empty() || of.failed.is_empty() {
        return Vec::new();
    }
    let names = |profiled: bool| {
        let unknown = of.unknown.iter().filter(|(covariate, _)| covariate.is_of_profile() == profiled);
        unknown.map(|(covariate, _)| covariate.name()).collect::<Vec<_>>()
    };
    let mut open = Vec::new();
    if let names @ [_, ..] = &names(true)[..] {
        open.push(format!(
            "{} were not measured of every checkpoint, and any of them may be the cause; `fidelity sweep` measures them without a device",
            list(names)
        ));
    }
    if let names @ [_, ..] = &names(false)[..] {
        open.push(format!("{} not known of every checkpoint, so not tested", list(names)));
    }
    let separating: Vec<&str> =
        of.tested.iter().filter(|test| test.separation.is_some()).map(|test| test.covariate.name()).collect();
    if separating.len() > 1 {
        open.push(format!("which of {} it is, if any", list(&separating)));
    }
    let (passed, failed) = (of.passed.len() as u64, of.failed.len() as u64);
    if let Some(all) = permute::choices(passed + failed, failed)
        && 2.0 / all as f64 > ALPHA
    {
        open.push(format!(
            "{passed} against {failed} cannot be evidence for any covariate: perfect separation has p = 2/{all} before any correction"
        ));
    }
    open
}
