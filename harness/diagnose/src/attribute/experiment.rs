//! The experiment that would decide best: the one of which the hypotheses that survive say different things.

use fidelity_verdict::{Covariate, Covariates, Experiment, GroupKey, Prediction, Separation};

use super::{
    forged::{Change, Sizes, changes},
    read::{Outcome, ResultRow},
};

/// The hypothesis that no covariate of the table is the cause. It speaks of forged checkpoints that compute what their original
/// does alone: they have its outcome.
const SOMETHING_ELSE: &str = "something else";

/// Experiments shown at most.
const MOST: usize = 3;

/// Widths are multiples of this, as accelerators like them.
const WIDTH_STEP: usize = 64;

/// A covariate whose threshold separates perfectly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hypothesis {
    pub(super) covariate: Covariate,
    pub(super) separation: Separation,
}

impl Hypothesis {
    fn predict(self, covariates: &Covariates) -> Prediction {
        let Separation { fails_above, low, high } = self.separation;
        match covariates.get(&self.covariate) {
            Some(value) if *value >= high => fails(fails_above),
            Some(value) if *value <= low => fails(!fails_above),
            _ => Prediction::Open,
        }
    }
}

const fn fails(it_does: bool) -> Prediction {
    if it_does { Prediction::Fails } else { Prediction::Passes }
}

/// An experiment and how well it decides.
struct Ranked {
    experiment: Experiment,
    /// Hypotheses in the smaller of the two camps, then in both: the more the better.
    decides: (usize, usize),
    /// Changes, then parameters: the fewer the better.
    costs: (usize, f64),
}

/// The experiments on which the hypotheses part most evenly, the cheapest first of those alike. None where they all say the
/// same.
pub(super) fn next(key: &GroupKey, cases: &[&ResultRow], hypotheses: &[Hypothesis]) -> Vec<Experiment> {
    let undecided = cases.iter().filter(|case| case.outcome.is_none());
    let mut ranked: Vec<Ranked> = undecided.filter_map(|case| of_checkpoint(key, case, hypotheses)).collect();
    let sizes = sizes(hypotheses);
    for case in cases {
        let Some(outcome) = case.outcome else { continue };
        let forged = changes(&case.covariates, &sizes);
        ranked.extend(forged.iter().filter_map(|changes| of_forged(key, case, outcome, changes, hypotheses)));
    }
    ranked.sort_by(|a, b| {
        let costs = a.costs.0.cmp(&b.costs.0).then(a.costs.1.total_cmp(&b.costs.1));
        b.decides.cmp(&a.decides).then(costs).then_with(|| a.experiment.command.cmp(&b.experiment.command))
    });
    let mut chosen: Vec<Experiment> = Vec::new();
    for ranked in ranked {
        // Another way to the same answer is no other experiment.
        if chosen.len() < MOST && chosen.iter().all(|it| it.predictions != ranked.experiment.predictions) {
            chosen.push(ranked.experiment);
        }
    }
    chosen
}

/// Sizes at which hypotheses say something: at and above the high end of what separates, where something can be added; at the low
/// end, where it can be left out.
fn sizes(hypotheses: &[Hypothesis]) -> Sizes {
    let of = |covariate: Covariate| hypotheses.iter().filter(move |it| it.covariate == covariate);
    let at_least = |it: &Hypothesis| it.separation.high.ceil() as usize;
    let widths = of(Covariate::Hidden).map(|it| at_least(it).div_ceil(WIDTH_STEP) * WIDTH_STEP);
    Sizes {
        widths: widths.filter(|width| *width <= 1 << 16).collect(),
        vocabularies: of(Covariate::Vocabulary).map(at_least).filter(|rows| *rows <= 1 << 24).collect(),
        depths: of(Covariate::Layers)
            .map(|it| it.separation.low.floor() as usize)
            .filter(|blocks| *blocks > 0)
            .collect(),
    }
}

fn rank(what: String, command: String, predictions: Vec<(String, Prediction)>, costs: (usize, f64)) -> Option<Ranked> {
    let of = |wanted| predictions.iter().filter(|(_, prediction)| *prediction == wanted).count();
    let (passes, fails) = (of(Prediction::Passes), of(Prediction::Fails));
    let decides = (passes.min(fails), passes + fails);
    let experiment = Experiment { what, command, predictions };
    (decides.0 > 0).then_some(Ranked { experiment, decides, costs })
}

fn predictions(hypotheses: &[Hypothesis], covariates: &Covariates, otherwise: Prediction) -> Vec<(String, Prediction)> {
    let named = hypotheses.iter().map(|it| (it.covariate.name().to_owned(), it.predict(covariates)));
    named.chain([(SOMETHING_ELSE.to_owned(), otherwise)]).collect()
}

fn size(covariates: &Covariates) -> f64 {
    covariates.get(&Covariate::Parameters).copied().unwrap_or(f64::MAX)
}

fn of_checkpoint(key: &GroupKey, case: &ResultRow, hypotheses: &[Hypothesis]) -> Option<Ranked> {
    let what = format!("run {}, of which nothing is known here", case.checkpoint);
    let command = run(key, &selected(case));
    let predictions = predictions(hypotheses, &case.covariates, Prediction::Open);
    rank(what, command, predictions, (0, size(&case.covariates)))
}

fn of_forged(
    key: &GroupKey,
    case: &ResultRow,
    outcome: Outcome,
    changes: &[Change],
    hypotheses: &[Hypothesis],
) -> Option<Ranked> {
    let mut covariates = case.covariates.clone();
    for change in changes {
        covariates = change.apply(&covariates)?;
    }
    let own = fails(outcome == Outcome::Fail);
    let flags = changes.iter().map(|change| change.flags()).collect::<Vec<_>>().join(" ");
    let words: String = changes.iter().map(|change| format!("-{}", change.word())).collect();
    let folder = quoted(&format!("forged/{}{words}", file_name(&case.checkpoint)));
    let command = format!(
        "fidelity forge {} {flags} --out {folder} && {}",
        selected(case),
        run(key, &format!("--weights {folder}"))
    );
    let verb = if own == Prediction::Fails { "fails" } else { "passes" };
    let (what, otherwise) = match changes.iter().all(|change| change.keeps_function()) {
        true => (format!("{} computes the same after {flags}, and {verb} as it is", case.checkpoint), own),
        // Fewer blocks are another function: what else is wrong may be in those that are left out.
        false => {
            (format!("{} {verb} as it is; after {flags} it is held against itself", case.checkpoint), Prediction::Open)
        }
    };
    rank(what, command, predictions(hypotheses, &covariates, otherwise), (changes.len(), size(&covariates)))
}

/// How the checkpoint is asked for.
fn selected(case: &ResultRow) -> String {
    let folder = case.source.strip_prefix("folder:").or_else(|| case.source.strip_prefix("file:"));
    match folder {
        Some(path) => format!("--weights {}", quoted(path)),
        None => format!("--checkpoint {}", quoted(&case.checkpoint)),
    }
}

fn run(key: &GroupKey, checkpoint: &str) -> String {
    let scope = quoted(&key.scope);
    match key.device.as_str() {
        "hailo" => format!("fidelity run {checkpoint} --device hailo --hef FILE.hef --scopes {scope}"),
        _ => format!("fidelity run {checkpoint} --recipe {} --scopes {scope}", quoted(&key.recipe)),
    }
}

fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

/// The word, so that a shell takes it as it is.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
