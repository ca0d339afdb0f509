//! What `fidelity attribute` found, for a terminal: at most 80 columns.

use fidelity_verdict::{
    Covariate, CovariateTest, Experiment, Explanation, GroupExplanation, Permutations, Prediction, RankCorrelation,
    Separation,
};

use crate::{
    numbers::{ABSENT, magnitude, or_absent},
    terminal::{Align, Style, labelled, table},
    text::printable,
};

/// Checkpoints named at most.
const MOST_NAMES: usize = 12;

/// Every group: who passes, the tests, what goes together, what is open and what would decide.
#[must_use]
pub fn explanation_terminal(explanation: &Explanation, style: Style) -> String {
    explanation.groups.iter().map(|group| section(group, style)).collect::<Vec<_>>().join("\n")
}

/// The last line: the conclusion of the group with the most checkpoints that pass or fail.
#[must_use]
pub fn explanation_line(explanation: &Explanation) -> String {
    let decided = |group: &&GroupExplanation| group.passed.len() + group.failed.len();
    // Of several alike the first.
    let group = explanation.groups.iter().rev().max_by_key(decided);
    let said = group.map_or_else(String::new, |group| format!("{}: {}", title(group), group.conclusion));
    let others = explanation.groups.len().saturating_sub(1);
    let others = if others > 0 { format!(" · {others} more groups") } else { String::new() };
    format!("attributed: {said}{others}")
}

fn title(group: &GroupExplanation) -> String {
    let key = &group.key;
    let sha256 =
        key.recipe_sha256.as_deref().map(|sha256| format!(" ({})", sha256.chars().take(8).collect::<String>()));
    let recipe = format!("{}{}", key.recipe, sha256.unwrap_or_default());
    printable(&format!("{} · {recipe} · {} · {}", key.device, key.scope, key.measured))
}

fn section(group: &GroupExplanation, style: Style) -> String {
    let mut text = labelled("", &title(group), style);
    let checkpoints = [
        ("passes", &group.passed),
        ("fails", &group.failed),
        ("measured", &group.measured_only),
        ("unknown", &group.undecided),
    ];
    for (name, checkpoints) in checkpoints {
        if !checkpoints.is_empty() {
            let label = format!("  {name:<8} {:>3}  ", checkpoints.len());
            text.push_str(&labelled(&label, &names(checkpoints), style));
        }
    }
    // Without a test there is nothing to say of covariates.
    if group.labels.is_some() || group.numbers.is_some() {
        text.push('\n');
        text.push_str(&tests(group, style));
        text.push_str(&how(group, style));
        for (name, covariates) in [("the same of all", &group.constant), ("not known of all", &unknown(group))] {
            if !covariates.is_empty() {
                let names = covariates.iter().map(|covariate| covariate.name()).collect::<Vec<_>>().join(", ");
                text.push_str(&labelled(&format!("  {name}: "), &names, style));
            }
        }
        text.push_str(&confounded(group, style));
    }
    text.push('\n');
    text.push_str(&labelled("  ", &group.conclusion, style));
    for open in &group.open {
        text.push_str(&labelled("  open: ", open, style));
    }
    text.extend(group.next.iter().enumerate().map(|(index, next)| experiment(index, next, style)));
    text
}

fn names(checkpoints: &[String]) -> String {
    let shown = checkpoints.iter().take(MOST_NAMES).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
    match checkpoints.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn unknown(group: &GroupExplanation) -> Vec<Covariate> {
    group.unknown.iter().map(|(covariate, _)| *covariate).collect()
}

fn tests(group: &GroupExplanation, style: Style) -> String {
    let labels = group.labels.is_some();
    let numbers = group.numbers.is_some();
    let mut columns = vec![("  covariate", Align::Left)];
    if labels {
        columns.extend([("fails", Align::Left), ("AUC", Align::Right), ("p", Align::Right), ("p, all", Align::Right)]);
    }
    if numbers {
        columns.extend([("rho", Align::Right), ("95 %", Align::Left), ("p", Align::Right), ("p, all", Align::Right)]);
        columns.push(("tau", Align::Right));
    }
    let row = |test: &CovariateTest| {
        let mut cells = vec![format!("  {}", test.covariate)];
        if labels {
            let auc = or_absent(test.strength, |strength| format!("{:.2}", f64::midpoint(strength, 1.0)));
            cells.extend([
                test.separation.map_or_else(|| "mixed".to_owned(), separation),
                auc,
                p(test.p),
                p(test.p_adjusted),
            ]);
        }
        if numbers {
            let (rho, tau) = (test.spearman, test.kendall);
            let value =
                |found: Option<RankCorrelation>| or_absent(found.map(|it| it.value), |value| format!("{value:.2}"));
            let interval = rho.and_then(|it| it.interval);
            let interval = interval.map_or_else(|| ABSENT.to_owned(), |[low, high]| format!("[{low:.2}, {high:.2}]"));
            let of = |pick: fn(RankCorrelation) -> Option<f64>| p(rho.and_then(pick));
            cells.extend([value(rho), interval, of(|it| it.p), of(|it| it.p_adjusted), value(tau)]);
        }
        cells
    };
    table(&columns, &group.tested.iter().map(row).collect::<Vec<_>>(), style)
}

fn separation(Separation { fails_above, low, high }: Separation) -> String {
    let (low, high) = (short(low), short(high));
    if fails_above { format!("> {low}..{high}") } else { format!("< {low}..{high}") }
}

/// A count as it is; a large one in millions.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", magnitude(value / 1e6)),
        _ if value.fract().abs() < 1e-9 => format!("{value:.0}"),
        _ => magnitude(value),
    }
}

fn p(value: Option<f64>) -> String {
    or_absent(value, |value| if value < 0.0005 { format!("{value:.0e}") } else { format!("{value:.3}") })
}

fn how(group: &GroupExplanation, style: Style) -> String {
    let said = |what: &str, permutations: Option<Permutations>| {
        permutations.map(|Permutations { count, exact, .. }| match exact {
            true => format!("{what}: all {count} permutations"),
            false => format!("{what}: {count} permutations drawn"),
        })
    };
    let parts = [said("p of failing", group.labels), said("p of rho", group.numbers)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return String::new();
    }
    let tried = group.tested.len();
    let all =
        format!("{}; `p, all` is corrected for the {tried} covariates tried (largest statistic)", parts.join(", "));
    labelled("  ", &all, style)
}

fn confounded(group: &GroupExplanation, style: Style) -> String {
    let pairs = group.confounded.iter().map(|pair| {
        let both = if pair.both_separate { ", both separate" } else { "" };
        format!("{} ~ {} (rho {:.2}{both})", pair.a, pair.b, pair.rho)
    });
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    if pairs.is_empty() { String::new() } else { labelled("  go together: ", &pairs, style) }
}

fn experiment(index: usize, experiment: &Experiment, style: Style) -> String {
    let head = if index == 0 { "  next: " } else { "  or:   " };
    let say = |(name, prediction): &(String, Prediction)| {
        let said = match prediction {
            Prediction::Passes => "passes",
            Prediction::Fails => "fails",
            Prediction::Open => "says nothing",
        };
        format!("{name}: {said}")
    };
    let predictions = experiment.predictions.iter().map(say).collect::<Vec<_>>().join(", ");
    let mut text = labelled(head, &printable(&experiment.what), style);
    text.push_str(&labelled("        ", &format!("if it is {predictions}"), style));
    text.push_str(&format!("        {}\n", printable(&experiment.command)));
    text
}
