//! From scores to a name, or to none.

use std::collections::BTreeMap;

use fidelity_trace::Intervention;
use fidelity_verdict::{CLEAN, Candidate, Diagnosis, Margin, UNEXPLAINED};

use super::{DiagnoseError, Found, Score, Search, Tried, score};
use crate::entry;

/// NMSE up to which quantisation alone is believed where no recipe is at hand: 16-bit activations and 8-bit weights are within.
const QUANTISATION: f64 = 0.02;
/// NMSE up to which what a fault leaves unexplained is believed to be quantisation.
const RESIDUAL: f64 = 0.06;
/// A fault must explain so much more than nothing wrong does.
const BETTER_THAN_CLEAN: f64 = 4.0;
/// And so much more than the next of another name.
const BETTER_THAN_NEXT: f64 = 1.5;
/// In standard errors over prompts.
const SIGNIFICANT: f64 = 3.0;
/// Predictions closer than this share of what the best leaves unexplained cannot be told apart.
const SAME: f64 = 0.1;

pub(super) fn decide(search: &Search<'_>, found: &Found<'_>) -> Result<Diagnosis, DiagnoseError> {
    let clean = found.clean.residual();
    let believed = |least: f64| found.recipe_costs.map_or(least, |costs| least.max(1.5 * costs));
    let same = equivalent(search, found)?;
    let best = found.finalists.first();
    let next = found.finalists.iter().skip(1).find(|it| !same.iter().any(|same| same.fault.fault == it.fault.fault));
    let ahead = |other: &Score| best.map(|best| margin(&best.score, other));
    let explains = best.filter(|best| {
        let residual = best.score.residual();
        let clear = |other: &Score, factor: f64| {
            let margin = margin(&best.score, other);
            residual * factor <= other.residual() && significant(&margin)
        };
        residual <= believed(RESIDUAL)
            && clear(&found.clean, BETTER_THAN_CLEAN)
            && next.is_none_or(|next| clear(&next.score, BETTER_THAN_NEXT))
    });
    let mut diagnosis = Diagnosis {
        name: UNEXPLAINED.to_owned(),
        family: None,
        block: None,
        parameter: None,
        sentence: String::new(),
        score: Some(best.map_or(found.clean.pearson(), |best| best.score.pearson())),
        residual: Some(best.map_or(clean, |best| best.score.residual())),
        margin: None,
        runner_up: next.map(candidate),
        clean: Candidate { fault: CLEAN.into(), name: CLEAN.into(), score: found.clean.pearson(), residual: clean },
        ranked: found.finalists.iter().map(candidate).collect(),
        equivalent: Vec::new(),
        first_bad_site: search.question.first_bad_site,
        scopes: found.clean.by_scope(),
        evidence: Vec::new(),
        next: Vec::new(),
        remedy: String::new(),
        confirm: None,
        predicted_by: found.recipe.map_or_else(|| "reference".to_owned(), |recipe| format!("emulator {recipe}")),
        passes: found.passes,
    };
    match explains {
        Some(best) => {
            let entry = entry(best.fault.fault);
            diagnosis.name = best.fault.fault.name().to_owned();
            diagnosis.family = Some(best.fault.fault.family());
            diagnosis.block = best.fault.block;
            diagnosis.parameter = best.fault.value.map(|value| value.to_string());
            diagnosis.sentence = entry.sentence.to_owned();
            diagnosis.remedy = entry.remedy.to_owned();
            diagnosis.margin = ahead(next.map_or(&found.clean, |next| &next.score));
            diagnosis.equivalent = same.iter().map(|it| it.fault.to_string()).collect();
            diagnosis.confirm = Some(format!("fidelity run --fault {}", best.fault));
        }
        None if clean <= believed(QUANTISATION) && !better(best, found) => {
            diagnosis.name = CLEAN.to_owned();
            diagnosis.score = Some(found.clean.pearson());
            diagnosis.residual = Some(clean);
            diagnosis.sentence = match found.recipe {
                Some(recipe) => format!("nothing beyond the recipe {recipe} is wrong"),
                None => "nothing is wrong that quantisation would not explain".to_owned(),
            };
        }
        None => {
            diagnosis.sentence = "no fault that is known explains it".to_owned();
            diagnosis.margin = ahead(&found.clean);
        }
    }
    Ok(diagnosis)
}

/// A fault explains much more than nothing wrong, yet is no name.
fn better(best: Option<&Tried>, found: &Found<'_>) -> bool {
    best.is_some_and(|best| {
        best.score.residual() * BETTER_THAN_CLEAN <= found.clean.residual()
            && significant(&margin(&best.score, &found.clean))
    })
}

fn candidate(tried: &Tried) -> Candidate {
    Candidate {
        fault: tried.fault.to_string(),
        name: tried.fault.fault.name().to_owned(),
        score: tried.score.pearson(),
        residual: tried.score.residual(),
    }
}

fn margin(best: &Score, other: &Score) -> Margin {
    let (difference, standard_error, prompts) = best.behind(other);
    Margin { difference, standard_error, prompts }
}

fn significant(margin: &Margin) -> bool {
    margin.standard_error.is_none_or(|error| margin.difference > SIGNIFICANT * error)
}

/// Faults of other names that predict what the best does.
fn equivalent<'a>(search: &Search<'_>, found: &'a Found<'_>) -> Result<Vec<&'a Tried>, DiagnoseError> {
    let Some((best, others)) = found.finalists.split_first() else { return Ok(Vec::new()) };
    let few = search.selection(6 * super::LEAST_ROWS);
    let predict = |fault: Intervention| found.predictor.predict(&[fault], &few);
    let close: Vec<&Tried> =
        others.iter().filter(|it| it.score.residual() < 2.0 * best.score.residual() + 1e-9).collect();
    if close.is_empty() {
        return Ok(close);
    }
    let own: BTreeMap<_, _> = predict(best.fault)?;
    let mut same = Vec::new();
    for other in close {
        if score::apart(&own, &predict(other.fault)?) <= SAME * best.score.residual() + 1e-10 {
            same.push(other);
        }
    }
    Ok(same)
}
