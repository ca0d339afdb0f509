//! The search: from everything promoted, one thing after the other goes back to the recipe's bits as long as the target is reached.

use fidelity_emulator::{Calibrated, Plan, Promotions};
use fidelity_trace::Site;
use fidelity_verdict::{AdviceStep, AdviceTarget, Promotable, Trial};

use super::{
    AdviseError,
    bench::Bench,
    items::{Item, items, together},
};

/// Standard errors by which the search prompts must pass the target, so that others may be expected to …
const ERRORS: f64 = 2.0;

/// … and the share of the distance to 1 that the target leaves, which they may use up: a few prompts know little of their own spread,
/// and a search takes what happens to pass.
const HEADROOM: f64 = 0.75;

/// Ends of ranges of blocks are found to this part of all of them: fewer blocks save little and make long lines.
const PART: usize = 8;

/// Kinds whose blocks are looked at, at most: those that move most.
const MOST_BY_BLOCK: usize = 8;

/// Damage below this is none.
const NO_DAMAGE: f64 = 1e-7;

/// Whether a trial reaches the target.
pub(super) fn reaches(target: AdviceTarget, trial: &Trial) -> bool {
    let at_least = |value: Option<f64>, limit: f64| value.is_some_and(|value| value >= limit);
    at_least(trial.similarity, target.similarity) && target.top1.is_none_or(|limit| at_least(trial.top1, limit))
}

/// Whether it does so that other prompts may be expected to.
pub(super) fn surely_reaches(target: AdviceTarget, trial: &Trial) -> bool {
    let surely = |value: Option<f64>, error: Option<f64>, limit: f64| {
        let inner = 1.0 - HEADROOM * (1.0 - limit);
        value.is_some_and(|value| value >= inner && value - ERRORS * error.unwrap_or(0.0) >= limit)
    };
    surely(trial.similarity, trial.standard_error, target.similarity)
        && target.top1.is_none_or(|limit| surely(trial.top1, trial.top1_standard_error, limit))
}

/// A script that promotions are added to.
pub(super) struct Base<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) on: Calibrated<'a>,
    pub(super) plan: Plan,
    pub(super) items: Vec<Item>,
    pub(super) wide: bool,
    text: String,
}

impl<'a> Base<'a> {
    /// `wide` offers weights 16 bits at once.
    pub(super) fn new(bench: &'a Bench<'a>, text: String, wide: bool) -> Result<Self, AdviseError> {
        let (_, plan) = bench.planned(&text)?;
        let on = bench.calibrated(&text, None)?;
        let items = items(&plan, bench.asked.checkpoint.architecture(), bench.asked.search, wide);
        Ok(Self { bench, on, plan, items, wide, text })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn lines(&self, promotions: &Promotions) -> Vec<String> {
        promotions.lines(&self.plan)
    }

    pub(super) fn script(&self, lines: &[String]) -> String {
        if lines.is_empty() {
            return self.text.clone();
        }
        format!("{}\n{}\n", self.text.trim_end(), lines.join("\n"))
    }

    /// Everything that the asked recipe does not say: a rotation, and these lines.
    pub(super) fn added(&self, lines: &[String]) -> Vec<String> {
        let own = self.bench.asked.recipe.text().trim_end();
        let rotation = self.text.trim_end().strip_prefix(own).unwrap_or_default().trim();
        let rotation = Some(rotation).filter(|line| !line.is_empty()).map(str::to_owned);
        rotation.into_iter().chain(lines.iter().cloned()).collect()
    }

    pub(super) fn trial(&self, promotions: &[Promotions]) -> Result<Trial, AdviseError> {
        let all = promotions.iter().cloned().fold(Promotions::default(), together);
        let found = self.bench.trial(&self.on, &self.script(&self.lines(&all)), false)?;
        Ok(Trial { bytes: self.bytes(&all), ..found })
    }

    /// The same, if lines can say that and nothing else.
    pub(super) fn expressible(&self, promotions: &[Promotions]) -> Result<Option<Trial>, AdviseError> {
        let all = promotions.iter().cloned().fold(Promotions::default(), together);
        let (_, planned) = self.bench.planned(&self.script(&self.lines(&all)))?;
        if all.are_all_of(&self.plan, &planned) { self.trial(promotions).map(Some) } else { Ok(None) }
    }

    pub(super) fn everything(&self) -> Result<Trial, AdviseError> {
        self.trial(&self.items.iter().map(|item| item.promotions(|_| true)).collect::<Vec<_>>())
    }

    fn bytes(&self, promotions: &Promotions) -> f64 {
        let of_item = |item: &Item| {
            let promoted = |site: &Site| match item.what {
                Promotable::Activations => promotions.activations.contains(site),
                Promotable::Weights => promotions.weights.contains_key(site),
            };
            item.sites.iter().filter(|(site, _)| promoted(site)).map(|(_, bytes)| bytes).sum::<f64>()
        };
        self.items.iter().map(of_item).sum()
    }
}

/// What is still promoted.
pub(super) struct Search<'a> {
    base: &'a Base<'a>,
    /// What can be promoted, and what is reached with it alone in the recipe's bits.
    items: Vec<(Item, Option<Trial>)>,
    promoted: Promotions,
    trial: Trial,
    steps: Vec<AdviceStep>,
}

impl<'a> Search<'a> {
    pub(super) fn new(base: &'a Base<'a>, items: Vec<(Item, Option<Trial>)>, everything: Trial) -> Self {
        let promoted = items.iter().map(|(item, _)| item.promotions(|_| true)).fold(Promotions::default(), together);
        Self { base, items, promoted, trial: everything, steps: Vec::new() }
    }

    /// The same search in another basis, if what is promoted reaches the target there too.
    pub(super) fn in_basis<'b>(&self, other: &'b Base<'b>) -> Result<Option<Search<'b>>, AdviseError> {
        let Some(trial) = other.expressible(std::slice::from_ref(&self.promoted))? else { return Ok(None) };
        let there = Search {
            base: other,
            items: self.items.clone(),
            promoted: self.promoted.clone(),
            trial,
            steps: Vec::new(),
        };
        Ok(surely_reaches(other.bench.asked.target, &trial).then_some(there))
    }

    pub(super) const fn promoted(&self) -> &Promotions {
        &self.promoted
    }

    pub(super) const fn trial(&self) -> Trial {
        self.trial
    }

    pub(super) fn take_steps(&mut self) -> Vec<AdviceStep> {
        std::mem::take(&mut self.steps)
    }

    /// Blocks in which an item is still promoted, ascending.
    pub(super) fn promoted_blocks(&self, item: &Item) -> Vec<Option<u32>> {
        item.blocks()
            .into_iter()
            .filter(|block| item.sites.keys().any(|site| site.block() == *block && self.has(item, *site)))
            .collect()
    }

    fn has(&self, item: &Item, site: Site) -> bool {
        match item.what {
            Promotable::Activations => self.promoted.activations.contains(&site),
            Promotable::Weights => self.promoted.weights.contains_key(&site),
        }
    }

    /// Whole kinds go back, first those that save most bytes for the damage that they do alone.
    pub(super) fn by_kind(&mut self) -> Result<(), AdviseError> {
        let everything = self.trial.similarity;
        let damage = |(item, alone): &(Item, Option<Trial>)| {
            let low = alone.and_then(|trial| trial.similarity);
            let damage = everything.zip(low).map_or(f64::INFINITY, |(all, low)| (all - low).max(NO_DAMAGE));
            damage / item.bytes().max(f64::MIN_POSITIVE)
        };
        let left = self.items.iter().filter(|(item, _)| !self.promoted_blocks(item).is_empty());
        let mut order: Vec<(f64, Item)> = left.map(|item| (damage(item), item.0.clone())).collect();
        order.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (index, (_, item)) in order.iter().enumerate() {
            self.base.bench.expect(order.len() - index + MOST_BY_BLOCK * 8);
            self.back(item, &|_| true, item.name())?;
        }
        Ok(())
    }

    /// Of what is left, the kinds that move most go back block by block, from the first on and from the last: each end is found by
    /// bisection, as if more blocks never helped. What is kept was measured.
    pub(super) fn by_block(&mut self) -> Result<(), AdviseError> {
        let mut left: Vec<Item> = self
            .items
            .iter()
            .map(|(item, _)| item)
            .filter(|item| self.promoted_blocks(item).len() > 1)
            .cloned()
            .collect();
        left.sort_by(|a, b| b.bytes().total_cmp(&a.bytes()));
        left.truncate(MOST_BY_BLOCK);
        for (index, item) in left.iter().enumerate() {
            for from_first in [true, false] {
                self.base.bench.expect((left.len() - index) * 2 * item.blocks().len().ilog2() as usize);
                self.end(item, from_first)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, item: &Item, from_first: bool) -> Result<(), AdviseError> {
        let mut blocks = self.promoted_blocks(item);
        if !from_first {
            blocks.reverse();
        }
        let (mut back, mut too_many) = (0, blocks.len());
        let finest = (item.blocks().len() / PART).max(1);
        while too_many - back > finest {
            let tried = back.midpoint(too_many);
            let (Some(one), Some(other)) = (blocks[back], blocks[tried - 1]) else { return Ok(()) };
            let (first, last) = (one.min(other), one.max(other));
            let meant = |site: Site| site.block().is_some_and(|block| (first..=last).contains(&block));
            let words = if first == last { format!("block {first}") } else { format!("blocks {first} to {last}") };
            match self.back(item, &meant, format!("{} in {words}", item.name()))? {
                true => back = tried,
                false => too_many = tried,
            }
        }
        Ok(())
    }

    /// Gives the recipe's bits back to an item's sites that are `meant`, if the target is still reached.
    fn back(&mut self, item: &Item, meant: &dyn Fn(Site) -> bool, words: String) -> Result<bool, AdviseError> {
        let mut promoted = self.promoted.clone();
        for site in item.sites.keys().filter(|site| meant(**site)) {
            match item.what {
                Promotable::Activations => drop(promoted.activations.remove(site)),
                Promotable::Weights => drop(promoted.weights.remove(site)),
            }
        }
        let Some(trial) = self.base.expressible(std::slice::from_ref(&promoted))? else { return Ok(false) };
        let kept = surely_reaches(self.base.bench.asked.target, &trial);
        self.steps.push(AdviceStep { back: words, trial, kept });
        if kept {
            (self.promoted, self.trial) = (promoted, trial);
        }
        Ok(kept)
    }
}
