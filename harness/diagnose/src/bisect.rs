//! Where along an axis an arm begins to be wrong, by bisection: of all sizes few are measured, and each may cost a compile.
//!
//! A bisection finds a threshold only where there is one. The sizes on both sides of what it finds are therefore measured too, and
//! every measurement made must agree with the threshold; where one does not, that is the result.

use std::collections::BTreeMap;

use fidelity_trace::Scope;
use fidelity_verdict::{Bisection, BisectionAxis, Finding, Interval, Measurement, Standing, Verdict};

/// What an arm computes at a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Mean Pearson over rows; absent where it is not defined, which is bad.
    pub pearson: Option<f64>,
    /// Its 95 % interval over prompts.
    pub interval: Option<Interval>,
    /// Whether enough rows were compared to decide anything.
    pub enough: bool,
}

/// Fewer prompts tell nothing of a position, where each has one row.
pub const LEAST_PROMPTS: usize = 4;
/// In standard errors over prompts: what a mean is surely above or below.
const SURE: f64 = 3.0;

impl Reading {
    /// The worst scope's mean Pearson of logits. A row that is not finite is no similarity. `tbt_self` is a probe and does not count.
    #[must_use]
    pub fn of(verdict: &Verdict) -> Self {
        let scopes = verdict.scopes.iter().filter(|(scope, _)| **scope != Scope::TbtSelf);
        let judged = scopes.filter_map(|(_, of)| of.sites.get(&of.judged_site));
        let readings = judged.map(|site| {
            let pearson = site.pearson.filter(|_| site.non_finite_rows == 0);
            Self {
                pearson: pearson.map(|it| it.mean),
                interval: pearson.and_then(|it| it.interval),
                enough: site.rows >= verdict.thresholds.minimum_rows,
            }
        });
        let value = |reading: &Self| reading.pearson.unwrap_or(f64::NEG_INFINITY);
        let worst = readings.min_by(|one, other| value(one).total_cmp(&value(other)));
        worst.unwrap_or(Self { pearson: None, interval: None, enough: false })
    }

    /// The mean over prompts of their rows at a position of `prefill`, give or take three standard errors.
    #[must_use]
    pub fn at_position(verdict: &Verdict, position: usize) -> Self {
        let rows = verdict.scopes.get(&Scope::Prefill).map_or(&[][..], |scope| scope.rows.as_slice());
        let here = rows.iter().filter(|row| row.position as usize == position);
        let values: Vec<f64> = here.map(|row| row.pearson.unwrap_or(0.0)).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = SURE * (squares / (count - 1.0) / count).sqrt();
        let enough = values.len() >= LEAST_PROMPTS;
        Self {
            pearson: Some(mean).filter(|_| enough),
            interval: enough.then_some([mean - error, mean + error]),
            enough,
        }
    }
}

/// What is to be found.
#[derive(Clone, Copy, Debug)]
pub struct Bisecting<'a> {
    /// What is varied.
    pub by: BisectionAxis,
    /// The block whose heads are silenced.
    pub block: Option<usize>,
    /// The sizes, the smallest first, at least one.
    pub sizes: &'a [usize],
    /// Mean Pearson that is good.
    pub threshold: f64,
    /// Whether the arm may compute something else the next time, so that what was found is measured twice.
    pub repeats: bool,
    /// Measurements at most.
    pub budget: usize,
}

/// Bisects; `measure` is given a size.
///
/// # Errors
/// What `measure` says.
pub fn bisect<E>(asked: &Bisecting<'_>, measure: &mut dyn FnMut(usize) -> Result<Reading, E>) -> Result<Bisection, E> {
    let mut search = Search { asked, measure, measured: Vec::new() };
    search.run()?;
    Ok(conclude(asked, search.measured))
}

struct Search<'a, E> {
    asked: &'a Bisecting<'a>,
    measure: &'a mut dyn FnMut(usize) -> Result<Reading, E>,
    measured: Vec<Measurement>,
}

impl<E> Search<'_, E> {
    /// Measures the ends, then between a good and a bad size, then on both sides of what was found.
    fn run(&mut self) -> Result<(), E> {
        let last = self.asked.sizes.len() - 1;
        if self.at(last)? != Some(Standing::Bad) || last == 0 || self.at(0)? != Some(Standing::Good) {
            return Ok(());
        }
        let (mut good, mut bad) = (0, last);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match self.at(middle)? {
                Some(Standing::Good) => good = middle,
                Some(Standing::Bad) => bad = middle,
                // The mean tells where to go on, and no more: between it and what is decided an interval stays.
                Some(Standing::Undecided) if self.is_rather_good(middle) => good = middle,
                Some(Standing::Undecided) => bad = middle,
                None => return Ok(()),
            }
        }
        for beside in [good.checked_sub(1), Some(bad + 1)].into_iter().flatten().filter(|at| *at <= last) {
            if !self.measured.iter().any(|it| it.size == self.asked.sizes[beside]) {
                self.once(beside)?;
            }
        }
        if self.asked.repeats {
            self.once(good)?;
            self.once(bad)?;
        }
        Ok(())
    }

    /// The standing of a size; one that decides nothing is measured again. None where the budget is spent.
    fn at(&mut self, index: usize) -> Result<Option<Standing>, E> {
        let first = self.once(index)?;
        if first == Some(Standing::Undecided) && self.asked.repeats {
            return Ok(self.once(index)?.or(first));
        }
        Ok(first)
    }

    fn is_rather_good(&self, index: usize) -> bool {
        let of_size = self.measured.iter().rev().find(|it| it.size == self.asked.sizes[index]);
        of_size.and_then(|it| it.pearson).is_some_and(|pearson| pearson >= self.asked.threshold)
    }

    fn once(&mut self, index: usize) -> Result<Option<Standing>, E> {
        if self.measured.len() >= self.asked.budget {
            return Ok(None);
        }
        let size = self.asked.sizes[index];
        let reading = (self.measure)(size)?;
        let again = self.measured.iter().any(|it| it.size == size);
        let measurement = measurement(size, &reading, self.asked.threshold, again);
        let standing = measurement.standing;
        self.measured.push(measurement);
        Ok(Some(standing))
    }
}

/// What a reading says of a size.
#[must_use]
pub fn measurement(size: usize, reading: &Reading, threshold: f64, again: bool) -> Measurement {
    let standing = match (reading.pearson, reading.interval) {
        _ if !reading.enough => Standing::Undecided,
        (None, _) => Standing::Bad,
        (Some(_), Some([low, _])) if low >= threshold => Standing::Good,
        (Some(_), Some([_, high])) if high < threshold => Standing::Bad,
        (Some(_), Some(_)) => Standing::Undecided,
        (Some(mean), None) if mean >= threshold => Standing::Good,
        (Some(_), None) => Standing::Bad,
    };
    Measurement { size, pearson: reading.pearson, interval: reading.interval, standing, again }
}

/// What all measurements of a size say together: undecided where they contradict each other.
fn standings(measured: &[Measurement]) -> BTreeMap<usize, (Standing, bool)> {
    let mut by_size: BTreeMap<usize, (Standing, bool)> = BTreeMap::new();
    for it in measured {
        let entry = by_size.entry(it.size).or_insert((it.standing, false));
        match (entry.0, it.standing) {
            (Standing::Undecided, decided) => entry.0 = decided,
            (one, other) if one != other && other != Standing::Undecided => *entry = (Standing::Undecided, true),
            _ => {}
        }
    }
    by_size
}

fn conclude(asked: &Bisecting<'_>, measured: Vec<Measurement>) -> Bisection {
    let by_size = standings(&measured);
    let of = |standing| by_size.iter().filter(move |(_, (it, _))| *it == standing).map(|(size, _)| *size);
    let (largest_good, smallest_bad) = (of(Standing::Good).max(), of(Standing::Bad).min());
    let contradicts = by_size.values().any(|(_, contradicts)| *contradicts);
    let end = |size: usize| by_size.get(&size).map(|(standing, _)| *standing);
    let (first, last) = (asked.sizes[0], asked.sizes[asked.sizes.len() - 1]);
    let finding = match (largest_good, smallest_bad) {
        _ if contradicts => Finding::NotMonotone,
        (Some(good), Some(bad)) if bad < good => Finding::NotMonotone,
        (Some(good), Some(bad)) if adjacent(asked.sizes, good, bad) => Finding::Threshold,
        (Some(_), Some(_)) => Finding::Interval,
        _ if end(last) == Some(Standing::Good) => Finding::NeverBad,
        _ if end(first) == Some(Standing::Bad) => Finding::AlwaysBad,
        _ => Finding::Undecided,
    };
    let sizes: std::collections::BTreeSet<usize> = measured.iter().map(|it| it.size).collect();
    let mut bisection = Bisection {
        by: asked.by,
        block: asked.block,
        threshold: asked.threshold,
        finding,
        last_good: largest_good.filter(|_| matches!(finding, Finding::Threshold | Finding::Interval)),
        first_bad: smallest_bad.filter(|_| matches!(finding, Finding::Threshold | Finding::Interval)),
        measured,
        skipped: None,
        compiles: if asked.by == BisectionAxis::Position { 0 } else { sizes.len() },
        sentence: String::new(),
    };
    bisection.sentence = sentence(&bisection, last);
    bisection
}

fn adjacent(sizes: &[usize], good: usize, bad: usize) -> bool {
    sizes.windows(2).any(|pair| pair == [good, bad])
}

fn sentence(bisection: &Bisection, last: usize) -> String {
    let what = |size: usize| match bisection.by {
        BisectionAxis::Block if size == 1 => "the first block".to_owned(),
        BisectionAxis::Block => format!("the first {size} blocks"),
        BisectionAxis::Position if size == 1 => "the first token".to_owned(),
        BisectionAxis::Position => format!("the first {size} tokens"),
        BisectionAxis::Head => match size {
            0 => "no head".to_owned(),
            1 => "the first head".to_owned(),
            _ => format!("the first {size} heads"),
        },
        BisectionAxis::Hidden => format!("hidden {size}"),
    };
    // The last of those that are bad is the one to look at.
    let culprit = |size: usize| match bisection.by {
        BisectionAxis::Block => format!(": look at block {}", size - 1),
        BisectionAxis::Position => format!(": look at position {}", size - 1),
        BisectionAxis::Head => size.checked_sub(1).map_or_else(String::new, |head| format!(": look at head {head}")),
        BisectionAxis::Hidden => String::new(),
    };
    match (bisection.finding, bisection.last_good, bisection.first_bad) {
        (Finding::Threshold, Some(good), Some(bad)) => {
            format!("good with {}, bad with {}{}", what(good), what(bad), culprit(bad))
        }
        (Finding::Interval, Some(good), Some(bad)) => {
            format!("good with {}, bad with {}; what lies between is not decided", what(good), what(bad))
        }
        (Finding::NeverBad, ..) => format!("good with {}: nothing to bisect", what(last)),
        (Finding::AlwaysBad, ..) => {
            let first = bisection.measured.iter().map(|it| it.size).min().unwrap_or(last);
            format!("bad with {} already", what(first))
        }
        (Finding::NotMonotone, ..) => {
            "no threshold: larger sizes are good and smaller ones bad, or one size is both".into()
        }
        _ => "undecided: an end of the range decides nothing, or was not measured".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn reading(pearson: f64) -> Reading {
        Reading { pearson: Some(pearson), interval: Some([pearson - 0.001, pearson + 0.001]), enough: true }
    }

    fn asked(sizes: &[usize]) -> Bisecting<'_> {
        Bisecting { by: BisectionAxis::Block, block: None, sizes, threshold: 0.99, repeats: false, budget: 1000 }
    }

    fn found(asked: &Bisecting<'_>, mut of: impl FnMut(usize) -> Reading) -> Bisection {
        bisect::<Infallible>(asked, &mut |size| Ok(of(size))).unwrap_or_else(|never| match never {})
    }

    proptest! {
        #[test]
        fn a_threshold_is_found_in_few_measurements(count in 2_usize..200, at in 1_usize..200) {
            let sizes: Vec<usize> = (1..=count).collect();
            let bad_from = at.min(count - 1) + 1;
            let bisection = found(&asked(&sizes), |size| reading(if size < bad_from { 0.999 } else { 0.5 }));
            prop_assert_eq!(bisection.finding, Finding::Threshold);
            prop_assert_eq!(bisection.first_bad, Some(bad_from));
            prop_assert_eq!(bisection.last_good, Some(bad_from - 1));
            prop_assert!(bisection.measured.len() <= 5 + count.ilog2() as usize + 1);
            let look_at = format!("look at block {}", bad_from - 1);
            prop_assert!(bisection.sentence.ends_with(&look_at));
        }
    }

    #[test]
    fn a_good_size_beyond_a_bad_one_is_no_threshold() {
        let sizes: Vec<usize> = (1..=8).collect();
        let bisection =
            found(&asked(&sizes), |size| reading(if [3, 5, 6, 7, 8].contains(&size) { 0.5 } else { 0.999 }));
        assert_eq!(bisection.finding, Finding::NotMonotone);
        assert_eq!(bisection.first_bad, None);
    }

    #[test]
    fn ends_decide_whether_there_is_anything_to_find() {
        let sizes = [1, 2, 3, 4];
        assert_eq!(found(&asked(&sizes), |_| reading(0.999)).finding, Finding::NeverBad);
        assert_eq!(found(&asked(&sizes), |_| reading(0.1)).finding, Finding::AlwaysBad);
        assert_eq!(found(&asked(&sizes), |_| reading(0.99)).finding, Finding::Undecided);
        let few = |_| Reading { enough: false, ..reading(0.1) };
        assert_eq!(found(&asked(&sizes), few).finding, Finding::Undecided);
        assert_eq!(found(&asked(&[3]), |_| reading(0.1)).finding, Finding::AlwaysBad);
    }

    #[test]
    fn what_decides_nothing_leaves_an_interval() {
        let sizes: Vec<usize> = (1..=9).collect();
        let bisection = found(&asked(&sizes), |size| reading([0.999, 0.99, 0.5][(size + 1) / 4]));
        assert_eq!(bisection.finding, Finding::Interval);
        assert_eq!((bisection.last_good, bisection.first_bad), (Some(1), Some(7)));
    }

    #[test]
    fn a_device_that_is_good_once_and_bad_once_has_no_threshold() {
        let sizes = [1, 2, 3, 4];
        let mut seen = 0;
        let flaky = Bisecting { repeats: true, ..asked(&sizes) };
        let bisection = found(&flaky, |size| {
            seen += usize::from(size == 2);
            reading(if size < 2 || (size == 2 && seen == 1) { 0.999 } else { 0.5 })
        });
        assert_eq!(bisection.finding, Finding::NotMonotone);
        assert!(bisection.measured.iter().any(|it| it.size == 2 && it.again));
    }

    #[test]
    fn the_budget_is_kept() {
        let sizes: Vec<usize> = (1..=100).collect();
        let budgeted = Bisecting { budget: 4, ..asked(&sizes) };
        let bisection = found(&budgeted, |size| reading(if size < 40 { 0.999 } else { 0.5 }));
        assert_eq!(bisection.measured.len(), 4);
        assert_eq!(bisection.finding, Finding::Interval);
        assert_eq!((bisection.last_good, bisection.first_bad), (Some(25), Some(50)));
    }
}
