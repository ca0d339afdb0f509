//! Evidence in words and numbers, and the experiments that would say more.

use fidelity_trace::Intervention;
use fidelity_verdict::Diagnosis;

use super::{Found, Tried, candidates, candidates::Concerns, decide::QUANTISATION};
use crate::entry;

pub(super) fn of_a_fault(
    found: &Found<'_>,
    best: &Tried,
    next: Option<&Tried>,
    others: &[Intervention],
    diagnosis: &Diagnosis,
) -> Vec<String> {
    let judge = judge(found);
    let mut evidence = vec![format!(
        "the arm tracks {judge} with `{}` at Pearson {}, without it at {}",
        best.fault,
        similarity(best.score.pearson()),
        similarity(found.clean.score.pearson())
    )];
    evidence.push(format!(
        "what the fault leaves unexplained is {} of a row's variance, without it {}",
        share(best.score.residual()),
        share(found.clean.score.residual())
    ));
    if let Some(next) = next {
        evidence.push(format!(
            "the next explanation, `{}`, leaves {} (Pearson {})",
            next.fault,
            share(next.score.residual()),
            similarity(next.score.pearson())
        ));
    }
    if let Some((margin, error)) = diagnosis.margin.and_then(|margin| Some((margin, margin.standard_error?))) {
        evidence.push(format!(
            "over {} prompts it is ahead by {:.2e} ± {:.1e} (standard error)",
            margin.prompts, margin.difference, error
        ));
    } else {
        evidence.push("with one prompt nothing can be said of how sure the difference is".into());
    }
    evidence.extend(scopes(found));
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|other| format!("`{other}`")).collect();
        evidence.push(format!("{} would compute the same here", names.join(" and ")));
    }
    evidence
}

pub(super) fn of_none(found: &Found<'_>, diagnosis: &Diagnosis) -> Vec<String> {
    let mut evidence = vec![format!(
        "the arm tracks {} at Pearson {}; {} of a row's variance differ",
        judge(found),
        similarity(found.clean.score.pearson()),
        share(found.clean.score.residual())
    )];
    if let (Some(recipe), Some(costs)) = (found.clean.recipe, found.clean.recipe_costs) {
        evidence.push(format!("the recipe {recipe} alone costs {} against the reference", share(costs)));
    }
    if let Some(best) = found.finalists.first() {
        evidence.push(format!(
            "the closest fault, `{}`, leaves {} (Pearson {})",
            best.fault,
            share(best.score.residual()),
            similarity(best.score.pearson())
        ));
    }
    evidence.extend(scopes(found));
    if let Some(bad) = diagnosis.first_bad_site {
        let after = bad.after.map_or_else(String::new, |site| format!("; {site} is right"));
        evidence.push(format!("the first bad site is {} ({}){after}", bad.site, bad.scope));
    }
    evidence
}

pub(super) fn why_unexplained(
    found: &Found<'_>,
    best: &Tried,
    next: Option<&Tried>,
    better: bool,
    believed: f64,
) -> String {
    if found.clean.recipe.is_some() && found.clean.recipe_costs.is_some_and(|costs| costs > 0.5) {
        return "the recipe alone predicts a broken model: faults cannot be told apart in its logits".into();
    }
    let fault = best.fault;
    if let (not_finite @ 1.., 0) = found.clean.score.not_finite() {
        let most = found.most;
        return format!(
            "none of {not_finite} rows is finite, which tells faults apart no more; the reference's values stay below {most:.3e}, float16 holds 65504"
        );
    }
    match next {
        _ if !better && found.clean.score.is_patchy() => {
            "some rows are exact and others are not, so it is no rounding; no fault of the bank explains it".to_owned()
        }
        _ if !better => "no fault of the bank explains it better than nothing wrong does".to_owned(),
        _ if best.score.residual() > believed => format!(
            "`{fault}` comes closest, but leaves {}, more than quantisation: it is another fault, or one of several",
            share(best.score.residual())
        ),
        Some(next) => format!("`{fault}` and `{}` explain it alike", next.fault),
        None => format!("`{fault}` comes closest, but other faults would look the same"),
    }
}

/// Which scopes are wrong says where to look.
fn scopes(found: &Found<'_>) -> Option<String> {
    let (prompts, steps) = found.clean.score.of_prompts().zip(found.clean.score.of_steps())?;
    Some(match (prompts > QUANTISATION, steps > QUANTISATION) {
        (false, true) => {
            format!(
                "prompts are right ({}), steps are not ({}): the cache, its mask or the tables of steps",
                share(prompts),
                share(steps)
            )
        }
        (true, true) => {
            format!("prompts ({}) and steps ({}) are wrong alike: not the cache", share(prompts), share(steps))
        }
        (true, false) => format!("prompts are wrong ({}), steps are not ({})", share(prompts), share(steps)),
        (false, false) => {
            format!("prompts differ by {} and steps by {} of a row's variance", share(prompts), share(steps))
        }
    })
}

pub(super) fn to_confirm(named: &Intervention) -> Vec<String> {
    vec![format!("to confirm it on the device: {}", entry(named.fault).confirm)]
}

/// The cheapest experiments that split what is left, as the fault literature orders them.
pub(super) fn to_decide(found: &Found<'_>, diagnosis: &Diagnosis) -> Vec<String> {
    let (prompts, has_steps) = (found.clean.score.of_prompts(), found.clean.score.of_steps().is_some());
    let steps_alone = prompts.is_some_and(|it| it < QUANTISATION) && has_steps;
    let mut next = Vec::new();
    if steps_alone {
        next.push("a step that sees itself alone (scope tbt_self): right means that the cache's contents are wrong, not the graph".into());
        next.push("steps that see one slot at a time: which token is in which slot".into());
    } else {
        next.push("a prompt of one token: right means that queries, keys, masks and positions are to blame, wrong means values, heads, MLP, norms or the head".into());
        next.push("change one token at a time and list which positions move: the mask as it is".into());
    }
    next.push("the arm again (--device, --budget): prompts are chosen on which the explanations left predict the most different rows".into());
    if diagnosis.first_bad_site.is_none_or(|bad| bad.site.block().is_none()) {
        next.push("taps of the residual stream (--taps resid_post), or the model cut after k blocks, show the first bad block".into());
    }
    if found.clean.recipe.is_none() {
        next.push("the recipe (--recipe): its emulator predicts what quantisation alone costs".into());
    }
    let tried = found.finalists.first().map(|best| candidates::concerns(&best.fault));
    if tried == Some(Concerns::All) && !has_steps {
        next.push("steps (scope tbt): the same prompts, one token at a time".into());
    }
    next
}

fn judge(found: &Found<'_>) -> String {
    found.clean.recipe.map_or_else(|| "the reference".to_owned(), |recipe| format!("the emulator of {recipe}"))
}

fn similarity(value: f64) -> String {
    if value > 0.999 { format!("{value:.6}") } else { format!("{value:.3}") }
}

fn share(value: f64) -> String {
    if value >= 0.1 { format!("{:.0} %", value * 100.0) } else { format!("{value:.1e}") }
}
