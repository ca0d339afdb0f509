//! `fidelity advise`: which quantisers of a recipe hurt, and the cheapest promotions found that reach a target.
//!
//! A trial is a script: the recipe's own text and the lines that promote something. It is read, planned and emulated as any
//! recipe is, so that what was measured is what the lines say.

mod bench;
mod conclusion;
mod items;
mod local;
mod search;
mod split;

use fidelity_emulator::{CalibrationSet, EmulatorError, LayerNames, Recipe, RecipeError};
use fidelity_references::{Checkpoint, Decoder};
use fidelity_trace::{FirstPosition, PromptRecord, Site, SubjectError};
use fidelity_verdict::{
    ADVICE_FORMAT, ADVICE_VERSION, Advice, AdviceConclusion, AdvicePrompts, AdviceStep, AdviceTarget, Advised,
    KindEffect, Remedy, Trial,
};

pub use self::{
    conclusion::{conclude_advice, inconclusive_advice, proven},
    split::{Split, split},
};

use self::{
    bench::Bench,
    items::{Item, ranges},
    search::{Base, Search, reaches, surely_reaches},
};

/// What exact rotations a recipe can ask for, and how it declines one.
const ROTATION: [&str; 2] =
    ["pre_quantization_optimization(quarot)", "pre_quantization_optimization(quarot, policy=disabled)"];

/// Ways to set position 0 apart that are tried.
const APART: [FirstPosition; 3] = FirstPosition::ALL;

/// What is asked.
pub struct Advising<'a> {
    /// The checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// Its float32 decoder.
    pub float32: &'a Decoder,
    /// The recipe to promote.
    pub recipe: &'a Recipe,
    /// A compiler's own layer names.
    pub names: &'a LayerNames,
    /// What activation ranges come from.
    pub set: &'a CalibrationSet,
    /// Prompts that trials are judged on.
    pub search: &'a [PromptRecord],
    /// What must be reached.
    pub target: AdviceTarget,
    /// Threads to compare with.
    pub jobs: usize,
    /// Called behind every trial with how many are done and about how many there will be.
    pub on_trial: &'a dyn Fn(usize, usize),
}

/// Why nothing can be advised.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// An emulator cannot be made.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// A script cannot be read or planned: the recipe's own lines, or a fault of ours.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A pass failed.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A pass failed.
    #[error("while measuring sites: {0}")]
    Sites(candle_core::Error),
}

/// Tries and searches on the search prompts. The advice has no proof yet and concludes nothing: [`conclude_advice`] does, with
/// verdicts on the held-out prompts.
///
/// # Errors
/// The recipe does not fit the checkpoint, or memory runs out.
pub fn advise(asked: &Advising<'_>, prompts: AdvicePrompts) -> Result<Advice, AdviseError> {
    let bench = Bench::new(asked)?;
    let mut base = Base::new(&bench, asked.recipe.text().to_owned(), false)?;
    bench.expect(60);
    let of_recipe = base.trial(&[])?;
    let emulator = base.on.emulator(asked.recipe, &base.plan)?;
    let sites = local::local(asked.float32, &emulator, &base.plan, asked.search).map_err(AdviseError::Sites)?;
    drop(emulator);
    let mut advice = Advice {
        format: ADVICE_FORMAT.to_owned(),
        version: ADVICE_VERSION,
        checkpoint: asked.checkpoint.identity().clone(),
        recipe: asked.recipe.name.clone(),
        recipe_sha256: asked.recipe.sha256.clone(),
        calibration: asked.set.describe(),
        target: asked.target,
        prompts,
        conclusion: AdviceConclusion::Inconclusive,
        reason: String::new(),
        exit_code: 0,
        of_recipe,
        of_everything: of_recipe,
        kinds: Vec::new(),
        steps: Vec::new(),
        sites,
        remedies: Vec::new(),
        advised: None,
        everything: None,
        proof: None,
        trials: 0,
        notes: Vec::new(),
    };
    let everything = best_basis(&bench, &mut base, &mut advice)?;
    advice.of_everything = everything;
    let items = effects(&base, &mut advice)?;
    if !reaches(asked.target, &of_recipe) {
        promote(&bench, &base, &items, &mut advice)?;
    }
    remedies(&bench, &mut advice)?;
    advice.trials = bench.trials();
    Ok(advice)
}

/// Searches, and puts what was found into the advice. A rotation costs no bytes: where what was found reaches the target rotated too,
/// the search goes on there.
fn promote<'a>(bench: &'a Bench<'a>, base: &Base<'a>, items: &[Item], advice: &mut Advice) -> Result<(), AdviseError> {
    let alone = advice.kinds.iter().map(|effect| effect.alone_low);
    let mut search = Search::new(base, items.iter().cloned().zip(alone).collect(), advice.of_everything);
    // Where nothing reaches the target, all of it is the best that was found.
    let found = surely_reaches(bench.asked.target, &advice.of_everything);
    if found {
        let lines = base.lines(search.promoted());
        advice.everything =
            Some(Advised { text: base.script(&lines), lines: base.added(&lines), trial: advice.of_everything });
        search.by_kind()?;
        search.by_block()?;
    }
    advice.steps = search.take_steps();
    let other = rotated(&base.plan, bench).filter(|_| found && !base.plan.rotated);
    let other = other.map(|line| Base::new(bench, with_line(base.text(), line), base.wide)).transpose()?;
    let mut there = match &other {
        Some(other) => search.in_basis(other)?,
        None => None,
    };
    if let Some(there) = &mut there {
        there.by_kind()?;
        there.by_block()?;
        let steps = there.take_steps().into_iter();
        advice.steps.extend(steps.map(|step| AdviceStep { back: format!("rotated: {}", step.back), ..step }));
    }
    let (search, base) = match (&there, &other) {
        (Some(there), Some(other)) if there.trial().bytes < search.trial().bytes => (there, other),
        _ => (&search, base),
    };
    for (kind, item) in advice.kinds.iter_mut().zip(items) {
        kind.advised = ranges(&search.promoted_blocks(item));
    }
    let lines = base.lines(search.promoted());
    advice.advised = Some(Advised { lines: base.added(&lines), text: base.script(&lines), trial: search.trial() });
    Ok(())
}

fn with_line(text: &str, line: &str) -> String {
    format!("{}\n{line}\n", text.trim_end())
}

/// With everything promoted: weights one step up, or where that is too little to 16 bits, or where that is too little in the other
/// basis. `base` becomes the one that goes on.
fn best_basis<'a>(bench: &'a Bench<'a>, base: &mut Base<'a>, advice: &mut Advice) -> Result<Trial, AdviseError> {
    let target = bench.asked.target;
    let mut best = base.everything()?;
    if surely_reaches(target, &best) || reaches(target, &advice.of_recipe) {
        return Ok(best);
    }
    let better = |a: &Trial, b: &Trial| a.similarity > b.similarity;
    let mut others = vec![(bench.asked.recipe.text().to_owned(), true)];
    others.extend(
        rotated(&base.plan, bench).map(|line| (format!("{}\n{line}\n", bench.asked.recipe.text().trim_end()), true)),
    );
    for (text, wide) in others {
        let other = Base::new(bench, text, wide)?;
        let found = other.everything()?;
        if surely_reaches(target, &found) || (better(&found, &best) && !reaches(target, &best)) {
            (*base, best) = (other, found);
        }
        if surely_reaches(target, &best) {
            break;
        }
    }
    Ok(best)
}

/// The line that takes a network into the other basis, where that is exact.
fn rotated(plan: &fidelity_emulator::Plan, bench: &Bench<'_>) -> Option<&'static str> {
    let line = ROTATION[usize::from(plan.rotated)];
    bench
        .planned(&with_line(bench.asked.recipe.text(), line))
        .ok()
        .filter(|(_, other)| other.rotated != plan.rotated)
        .map(|_| line)
}

/// One at a time, both ways; the most harmful first.
fn effects(base: &Base<'_>, advice: &mut Advice) -> Result<Vec<Item>, AdviseError> {
    let mut found = Vec::new();
    base.bench.expect(4 * base.items.len() + 60);
    for (index, item) in base.items.iter().enumerate() {
        let others: Vec<_> = base
            .items
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, item)| item.promotions(|_| true))
            .collect();
        let effect = KindEffect {
            kind: item.kind.clone(),
            what: item.what,
            bits: item.bits,
            promoted_bits: item.promoted_bits,
            bytes: item.bytes(),
            alone_low: base.expressible(&others)?,
            alone_promoted: base.expressible(&[item.promotions(|_| true)])?,
            blocks: ranges(&item.blocks()),
            advised: Vec::new(),
        };
        found.push((effect, item.clone()));
    }
    let left = |effect: &KindEffect| effect.alone_low.and_then(|trial| trial.similarity).unwrap_or(f64::NEG_INFINITY);
    found.sort_by(|(a, _), (b, _)| left(a).total_cmp(&left(b)));
    let (effects, items): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    for effect in effects.iter().filter(|effect| effect.alone_low.is_none() || effect.alone_promoted.is_none()) {
        advice.notes.push(format!("no line of a recipe promotes {} by itself: it was not a candidate", effect.kind));
    }
    advice.kinds = effects;
    Ok(items)
}

/// What else is exact in float: the other basis, position 0 apart, and both.
fn remedies(bench: &Bench<'_>, advice: &mut Advice) -> Result<(), AdviseError> {
    let recipe = bench.asked.recipe.text();
    let (_, plan) = bench.planned(recipe)?;
    let advised = advice.advised.as_ref().map(|advised| advised.text.clone());
    let other = rotated(&plan, bench);
    let causal = bench.asked.checkpoint.architecture().computes(Site::Logits);
    let ways = APART.into_iter().map(Some).filter(|_| causal);
    let combinations = [None, other]
        .into_iter()
        .flat_map(|line| std::iter::once(None).chain(ways.clone()).map(move |way| (line, way)));
    let combinations: Vec<_> = combinations.filter(|(line, way)| line.is_some() || way.is_some()).collect();
    bench.expect(2 * combinations.len());
    for (line, way) in combinations {
        let with = |text: &str| match line {
            Some(line) => with_line(text, line),
            None => text.to_owned(),
        };
        let on = bench.calibrated(&with(recipe), way)?;
        let tried = |text: &str| bench.trial(&on, &with(text), way == Some(FirstPosition::Prefix));
        let of_recipe = tried(recipe)?;
        // What is advised may be rotated itself.
        let of_advised = match &advised {
            Some(text) if on.fits(&bench.planned(&with(text))?.1) => Some(tried(text)?),
            _ => None,
        };
        advice.remedies.push(Remedy {
            name: remedy(plan.rotated, line.is_some(), way),
            line: line.map(str::to_owned),
            first_position: way.map(|way| way.name().to_owned()),
            of_recipe,
            of_advised,
        });
    }
    Ok(())
}

/// A remedy in words.
fn remedy(was_rotated: bool, other_basis: bool, way: Option<FirstPosition>) -> String {
    let basis = other_basis.then_some(if was_rotated { "no rotation" } else { "rotation" });
    let apart = way.map(|way| match way {
        FirstPosition::Residual16 => "position 0: residual stream in 16 bits",
        FirstPosition::Every16 => "position 0: all in 16 bits",
        FirstPosition::Prefix => "position 0: float prefix",
    });
    basis.into_iter().chain(apart).collect::<Vec<_>>().join(", ")
}
