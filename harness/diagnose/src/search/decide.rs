//! From scores to a name, or to none.

use fidelity_trace::{Fault, FaultValue, Intervention, Scope, Values};
use fidelity_verdict::{CLEAN, Candidate, Diagnosis, Margin, UNEXPLAINED};

use super::{
    DiagnoseError, Found, LEAST_ROWS, Numerics, Score, Search, Tried, candidates::PER_CHANNEL, explain,
    ids::Difference, score,
};
use crate::entry;

/// NMSE up to which quantisation alone is believed where no recipe is at hand: 16-bit activations and 8-bit weights are within.
pub(super) const QUANTISATION: f64 = 0.02;
/// NMSE up to which what a fault leaves unexplained is believed to be quantisation.
const RESIDUAL: f64 = 0.06;
/// The first where it is known what the arm computes in, unless that costs more.
const QUANTISATION_KNOWN: f64 = 1e-4;
/// The second where an arm is known to compute in float32. Under a recipe a fault makes the recipe's own errors larger.
const RESIDUAL_FLOAT32: f64 = 0.01;
/// A fault must explain so much more than nothing wrong does; one with a tuned number more, since it can fit noise.
const BETTER_THAN_CLEAN: f64 = 2.5;
const TUNED_BETTER_THAN_CLEAN: f64 = 4.0;
/// And so much more than the next of another name.
const BETTER_THAN_NEXT: f64 = 1.5;
/// How many times closer an explanation must be where one prompt gives no standard error.
const WITHOUT_ERROR: f64 = 20.0;
/// In standard errors over prompts.
const SIGNIFICANT: f64 = 3.0;
/// Predictions closer than this share of what the best leaves unexplained cannot be told apart.
const SAME: f64 = 0.1;
/// NMSE of two predictions below which a fault leaves a row alone.
const UNCHANGED: f64 = 1e-9;
/// Steps that are so many times farther off than prompts are wrong by themselves.
const STEPS_APART: f64 = 20.0;
/// So many rows tell how far an arm is off anyway.
const ENOUGH_ROWS: usize = 6;
/// Rows that a fault changes may be so many times farther off, and are never expected to be nearer than this.
const NOISIER: f64 = 30.0;
const FLOOR: f64 = 5e-4;
/// Two roundings of one recipe are farther from each other than one of them is from the reference: their errors add up.
const TWO_ROUNDINGS: f64 = 2.5;
/// The largest finite float16.
const MOST_FLOAT16: f64 = 65_504.0;

pub(super) fn decide(search: &Search<'_>, found: &Found<'_>) -> Result<Diagnosis, DiagnoseError> {
    let clean = &found.clean.score;
    let costs = found.clean.recipe_costs;
    let residual = match search.question.numerics {
        Numerics::Float32 => RESIDUAL_FLOAT32,
        Numerics::Unknown | Numerics::Recipe(..) => RESIDUAL.max(TWO_ROUNDINGS * costs.unwrap_or(0.0)),
    };
    let mut diagnosis = undecided(search, found);
    let Some(best) = found.finalists.first() else {
        return Ok(nothing_wrong(search, found, diagnosis));
    };
    let same = equivalent(search, found, best)?;
    let next = found.finalists.iter().skip(1).find(|it| !same.iter().any(|same| same.fault == it.fault.fault));
    let better = clear(&best.score, clean, better_than_clean(&best.fault));
    if better && best.score.residual() <= residual && costs.is_none() && is_of_a_recipe(&best.fault) {
        let mut diagnosis = nothing_wrong(search, found, diagnosis);
        diagnosis.sentence =
            "nothing is wrong beyond weights of 4 bits by output channel, as a recipe may ask for; if this one \
                              does not, that is the fault"
                .into();
        diagnosis.next.insert(0, "the recipe (--recipe): its emulator tells whether 4-bit weights are meant".into());
        return Ok(diagnosis);
    }
    let explains = best.score.residual() <= residual
        && better
        && next.is_none_or(|next| clear(&best.score, &next.score, BETTER_THAN_NEXT))
        && believable(found, best)
        && leaves_noise(search, found, best)?;
    diagnosis.runner_up = next.map(candidate);
    diagnosis.margin = Some(margin(&best.score, next.map_or(clean, |next| &next.score)));
    if explains {
        let (named, others) = preferred(search, best.fault, same);
        diagnosis.equivalent = others.iter().map(ToString::to_string).collect();
        name(&mut diagnosis, &named);
        diagnosis.evidence = explain::of_a_fault(found, best, next, &others, &diagnosis);
        diagnosis.next = explain::to_confirm(&named);
        return Ok(diagnosis);
    }
    if clean.residual() <= rounding(costs) && !better && !clean.is_patchy() && !steps_apart(clean) {
        return Ok(nothing_wrong(search, found, diagnosis));
    }
    diagnosis.sentence = explain::why_unexplained(found, best, next, better, residual);
    diagnosis.evidence = explain::of_none(found, &diagnosis);
    diagnosis.next = explain::to_decide(found, &diagnosis);
    Ok(diagnosis)
}

/// NMSE up to which an arm is believed to round and no more, by what its arithmetic is known to cost.
pub(super) fn rounding(costs: Option<f64>) -> f64 {
    costs.map_or(QUANTISATION, |costs| QUANTISATION_KNOWN.max(TWO_ROUNDINGS * costs))
}

/// The ids are wrong, whatever else is.
pub(super) fn by_ids(search: &Search<'_>, found: &Found<'_>, difference: Difference) -> Diagnosis {
    let mut diagnosis = undecided(search, found);
    let fault = match difference {
        Difference::BosMissing => Some(Fault::BosMissing),
        Difference::BosDoubled => Some(Fault::BosDoubled),
        Difference::Other => None,
    };
    difference.name().clone_into(&mut diagnosis.name);
    diagnosis.family = Some(fidelity_trace::FaultFamily::Tk);
    difference.sentence().clone_into(&mut diagnosis.sentence);
    diagnosis.score = Some(found.clean.score.pearson());
    diagnosis.residual = Some(found.clean.score.residual());
    diagnosis.remedy =
        "Let one side alone tokenise, with the tokenizer.json of the checkpoint, and compare ids before any tensor."
            .into();
    diagnosis.evidence = vec![
        "the ids in the trace are compared with those that the checkpoint's tokenizer makes of the same texts".into(),
        format!(
            "given the ids that it was fed, the arm tracks the reference at Pearson {:.5}",
            found.clean.score.pearson()
        ),
    ];
    diagnosis.confirm = fault.map(|fault| format!("fidelity run --fault {}", fault.name()));
    diagnosis
}

fn undecided(search: &Search<'_>, found: &Found<'_>) -> Diagnosis {
    let clean = &found.clean.score;
    let best = found.finalists.first().map_or(clean, |best| &best.score);
    Diagnosis {
        name: UNEXPLAINED.to_owned(),
        family: None,
        block: None,
        parameter: None,
        sentence: String::new(),
        score: Some(best.pearson()),
        residual: Some(best.residual()),
        margin: None,
        runner_up: None,
        clean: Candidate {
            fault: CLEAN.into(),
            name: CLEAN.into(),
            score: clean.pearson(),
            residual: clean.residual(),
        },
        ranked: found.finalists.iter().map(candidate).collect(),
        equivalent: Vec::new(),
        first_bad_site: search.question.first_bad_site,
        scopes: clean.by_scope(),
        evidence: Vec::new(),
        next: Vec::new(),
        remedy: String::new(),
        confirm: None,
        predicted_by: match found.clean.recipe {
            Some(recipe) => format!("emulator {recipe}"),
            None => "reference".to_owned(),
        },
        passes: found.passes,
        probes: Vec::new(),
    }
}

fn nothing_wrong(search: &Search<'_>, found: &Found<'_>, mut diagnosis: Diagnosis) -> Diagnosis {
    CLEAN.clone_into(&mut diagnosis.name);
    diagnosis.score = Some(found.clean.score.pearson());
    diagnosis.residual = Some(found.clean.score.residual());
    diagnosis.sentence = match found.clean.recipe {
        Some(recipe) => format!("nothing is wrong beyond what the recipe {recipe} costs"),
        None if found.clean.recipe_costs.is_some() => "nothing is wrong beyond rounding in float32".to_owned(),
        None => "nothing is wrong that quantisation would not explain".to_owned(),
    };
    diagnosis.evidence = explain::of_none(found, &diagnosis);
    if search
        .prompts
        .iter()
        .all(|prompt| prompt.logits.get(&Scope::Tbt).is_none_or(std::collections::BTreeMap::is_empty))
    {
        diagnosis.next = vec!["steps were not run: record scope tbt to see the KV-cache".into()];
    }
    diagnosis
}

fn name(diagnosis: &mut Diagnosis, named: &Intervention) {
    let entry = entry(named.fault);
    named.fault.name().clone_into(&mut diagnosis.name);
    diagnosis.family = Some(named.fault.family());
    diagnosis.block = named.block;
    diagnosis.parameter = named.value.map(|value| value.to_string());
    entry.sentence.clone_into(&mut diagnosis.sentence);
    entry.remedy.clone_into(&mut diagnosis.remedy);
    diagnosis.confirm = Some(format!("fidelity run --fault {named}"));
}

/// Where nothing is finite nothing tells faults apart; and a row without a key is not named where float16 could overflow.
fn believable(found: &Found<'_>, best: &Tried) -> bool {
    let (_, finite) = best.score.not_finite();
    finite > 0 && (best.fault.fault != Fault::MaskedRowNan || found.most < MOST_FLOAT16)
}

/// Steps are so much farther off than prompts as no quantisation makes them.
fn steps_apart(clean: &Score) -> bool {
    let both = clean.of_prompts().zip(clean.of_steps());
    both.is_some_and(|(prompts, steps)| steps > STEPS_APART * prompts && steps > FLOOR)
}

/// Whether it is what a quantisation recipe does, and no fault by itself.
fn is_of_a_recipe(fault: &Intervention) -> bool {
    fault.fault == Fault::Int4Group && fault.block.is_none() && fault.number() == Some(PER_CHANNEL as f64)
}

/// Rows that the fault leaves alone show how far the arm is off anyway: those that it changes must not be much farther off.
fn leaves_noise(search: &Search<'_>, found: &Found<'_>, best: &Tried) -> Result<bool, DiagnoseError> {
    if super::predict::is_of_shards(&best.fault) {
        return Ok(true);
    }
    let predictor = found.clean.predictor;
    let (right, wrong) = (predictor.predict(&[], &search.all)?, predictor.predict(&[best.fault], &search.all)?);
    let (mut left_alone, mut changed) = (Mean::default(), Mean::default());
    for (prompt, scopes) in &wrong {
        for (scope, rows) in scopes {
            for (position, row) in rows {
                let arm = search.prompts[*prompt].logits.get(scope).and_then(|rows| rows.get(position));
                let clean = right.get(prompt).and_then(|it| it.get(scope)).and_then(|rows| rows.get(position));
                let (Some(arm), Some(clean)) = (arm, clean) else { continue };
                let Some((off, _)) = score::closeness(arm, row) else { continue };
                let Some((effect, _)) = score::closeness(clean, row) else { continue };
                if effect < UNCHANGED { left_alone.add(off) } else { changed.add(off) }
            }
        }
    }
    let noise = left_alone.mean().filter(|_| left_alone.count >= ENOUGH_ROWS);
    Ok(match (noise, changed.mean()) {
        (Some(noise), Some(changed)) => changed <= (NOISIER * noise).max(FLOOR),
        _ => true,
    })
}

/// A running mean.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

fn better_than_clean(fault: &Intervention) -> f64 {
    if is_tuned(fault) { TUNED_BETTER_THAN_CLEAN } else { BETTER_THAN_CLEAN }
}

fn is_tuned(fault: &Intervention) -> bool {
    let number = matches!(fault.value, Some(FaultValue::Number(_) | FaultValue::Clip { .. }));
    number && !matches!(fault.fault.values(), Values::Number { whole: true, .. } | Values::Mixed { whole: true, .. })
}

fn clear(best: &Score, other: &Score, factor: f64) -> bool {
    let margin = margin(best, other);
    // One prompt has no standard error: then the difference itself must leave no doubt.
    let factor = if margin.standard_error.is_none() { factor.max(WITHOUT_ERROR) } else { factor };
    // Residuals of prompts differ by orders of magnitude: their ratio can be sure where their difference is not.
    let in_proportion = best.behind_in_proportion(other);
    let sure = significant(&margin) || in_proportion.1.is_some_and(|error| in_proportion.0 > SIGNIFICANT * error);
    best.residual() * factor <= other.residual() && sure
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
fn equivalent(search: &Search<'_>, found: &Found<'_>, best: &Tried) -> Result<Vec<Intervention>, DiagnoseError> {
    let close = |it: &&Tried| it.score.residual() < 2.0 * best.score.residual() + 1e-9;
    let mut close: Vec<Intervention> = found.finalists.iter().skip(1).filter(close).map(|it| it.fault).collect();
    if let Some(twin) = twin(search, &best.fault) {
        close.retain(|other| other.fault != twin.fault);
        close.push(twin);
    }
    if close.is_empty() {
        return Ok(close);
    }
    let concerns = super::candidates::concerns(&best.fault);
    let few = search.few(2 * LEAST_ROWS, concerns);
    let predict = |fault: Intervention| found.clean.predictor.predict(&[fault], &few);
    let own = predict(best.fault)?;
    let mut same = Vec::new();
    for other in close {
        if score::apart(&own, &predict(other)?) <= SAME * best.score.residual() + 1e-10 {
            same.push(other);
        }
    }
    Ok(same)
}

/// Scores scaled by s are q and k both scaled by √s, which is what cos and sin of another magnitude make where all of a head is
/// rotated.
fn twin(search: &Search<'_>, fault: &Intervention) -> Option<Intervention> {
    let rope = search.question.checkpoint.architecture().rope.as_ref()?;
    let number = match fault.fault {
        Fault::ScoreScale => fault.number().or_else(|| {
            let dims = search.question.checkpoint.architecture().head_dim as f64;
            (fault.word() == "unscaled").then(|| dims.sqrt())
        }),
        Fault::RopeMagnitude => Some(fault.number().unwrap_or(1.0 / rope.magnitude())),
        _ => None,
    }?;
    let (other, value) = match fault.fault {
        Fault::ScoreScale => (Fault::RopeMagnitude, number.sqrt()),
        _ => (Fault::ScoreScale, number * number),
    };
    Some(Intervention { fault: other, block: fault.block, value: Some(FaultValue::Number(value)) })
}

/// Of faults that predict the same the one that says least: what the checkpoint's files suggest, no value before one, the
/// order of the bank.
fn preferred(search: &Search<'_>, best: Intervention, same: Vec<Intervention>) -> (Intervention, Vec<Intervention>) {
    let magnitude =
        search.question.checkpoint.architecture().rope.as_ref().map_or(1.0, fidelity_references::Rope::magnitude);
    let suggested = |it: &Intervention| {
        let undone = it.number().unwrap_or(1.0 / magnitude) * magnitude;
        it.fault == Fault::RopeMagnitude && (magnitude - 1.0).abs() > 1e-9 && (undone - 1.0).abs() < 0.01
    };
    let rank = |it: &Intervention| (!suggested(it), it.value.is_some(), it.fault);
    let mut all = same;
    all.insert(0, best);
    let at = (0..all.len()).min_by_key(|at| rank(&all[*at])).unwrap_or(0);
    let named = all.remove(at);
    (named, all)
}
