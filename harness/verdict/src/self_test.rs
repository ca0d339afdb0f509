//! What the diagnosis makes of faults that are known: its confusion matrix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CLEAN, UNEXPLAINED};

/// An effect of so many times the noise must be named; a smaller one is listed and not scored.
pub const DETECTABLE: f64 = 5.0;

/// One injected fault, or none, and what was said of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTestCase {
    /// The checkpoint.
    pub checkpoint: String,
    /// The recipe of the injecting arm; `float32` without one.
    pub precision: String,
    /// Whether the diagnosis had the recipe too.
    pub with_recipe: bool,
    /// What was injected, as `--fault` takes it; empty where nothing was.
    pub injected: String,
    /// The name that is right: a fault's, or `clean`.
    pub truth: String,
    /// Relative L2 of the logits against the same arm without the fault.
    pub effect: f64,
    /// Relative L2 of the arm without the fault against the reference.
    pub noise: f64,
    /// What was named.
    pub named: String,
    /// The explanation as `--fault` takes it; empty where none was named.
    pub as_fault: String,
    /// Names that the diagnosis says predict the same.
    pub equivalent: Vec<String>,
    /// Cost in passes of the reference.
    pub passes: f64,
}

/// What a case comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    /// The right name.
    Right,
    /// `unexplained`: seen, not named.
    Unexplained,
    /// Another name.
    Wrong,
    /// `clean`, though something was wrong.
    Missed,
    /// Nothing was wrong, and `clean` was said.
    Clean,
    /// Nothing was wrong, and something else was said.
    FalseAlarm,
    /// The effect is too small beside the noise to be scored.
    Undetectable,
}

/// A self-test of the diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// Every case, in the order in which they were made.
    pub cases: Vec<SelfTestCase>,
}

/// Rates of one precision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Faults that are scored.
    pub faults: usize,
    /// Of these, not `clean`.
    pub detected: usize,
    /// Of these, the right name.
    pub right: usize,
    /// Of these, a wrong name.
    pub wrong: usize,
    /// Runs in which nothing was wrong.
    pub clean: usize,
    /// Of these, not `clean`.
    pub false_alarms: usize,
    /// Faults that are too small to be scored.
    pub undetectable: usize,
}

/// What must be reached at a precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bars {
    /// Least share detected.
    pub detected: f64,
    /// Least share named rightly, where one is asked for.
    pub right: Option<f64>,
    /// Greatest share named wrongly.
    pub wrong: f64,
    /// Whether a false alarm is a failure.
    pub no_false_alarm: bool,
}

/// The bars of a precision: looser where activations have 8 bits.
#[must_use]
pub fn bars(precision: &str) -> Bars {
    match precision.starts_with("a8") {
        true => Bars { detected: 0.95, right: None, wrong: 0.02, no_false_alarm: false },
        false => Bars { detected: 0.99, right: Some(0.95), wrong: 0.01, no_false_alarm: true },
    }
}

impl SelfTestCase {
    /// What it comes to.
    #[must_use]
    pub fn outcome(&self) -> CaseOutcome {
        let right = self.named == self.truth || self.equivalent.contains(&self.truth);
        if self.truth == CLEAN {
            return if right { CaseOutcome::Clean } else { CaseOutcome::FalseAlarm };
        }
        if self.effect < DETECTABLE * self.noise {
            return CaseOutcome::Undetectable;
        }
        match self.named.as_str() {
            _ if right => CaseOutcome::Right,
            CLEAN => CaseOutcome::Missed,
            UNEXPLAINED => CaseOutcome::Unexplained,
            _ => CaseOutcome::Wrong,
        }
    }
}

impl SelfTest {
    /// Rates by precision.
    #[must_use]
    pub fn rates(&self) -> BTreeMap<String, Rates> {
        let mut rates: BTreeMap<String, Rates> = BTreeMap::new();
        for case in &self.cases {
            let of = rates.entry(case.precision.clone()).or_default();
            match case.outcome() {
                CaseOutcome::Clean => of.clean += 1,
                CaseOutcome::FalseAlarm => (of.clean, of.false_alarms) = (of.clean + 1, of.false_alarms + 1),
                CaseOutcome::Undetectable => of.undetectable += 1,
                outcome => {
                    of.faults += 1;
                    of.detected += usize::from(outcome != CaseOutcome::Missed);
                    of.right += usize::from(outcome == CaseOutcome::Right);
                    of.wrong += usize::from(outcome == CaseOutcome::Wrong);
                }
            }
        }
        rates
    }

    /// Whether every precision reaches its bars.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.rates().iter().all(|(precision, rates)| rates.reach(&bars(precision)))
    }
}

impl Rates {
    /// Whether they reach these bars. A share of nothing reaches any.
    #[must_use]
    pub fn reach(&self, bars: &Bars) -> bool {
        let share = |count: usize| if self.faults == 0 { None } else { Some(count as f64 / self.faults as f64) };
        share(self.detected).is_none_or(|share| share >= bars.detected)
            && bars.right.is_none_or(|least| share(self.right).is_none_or(|share| share >= least))
            && share(self.wrong).is_none_or(|share| share <= bars.wrong)
            && !(bars.no_false_alarm && self.false_alarms > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(truth: &str, named: &str, effect: f64) -> SelfTestCase {
        SelfTestCase {
            checkpoint: "demo".into(),
            precision: "a16w8".into(),
            with_recipe: false,
            injected: truth.into(),
            truth: truth.into(),
            effect,
            noise: 0.01,
            named: named.into(),
            as_fault: String::new(),
            equivalent: Vec::new(),
            passes: 1.0,
        }
    }

    #[test]
    fn outcomes_are_those_of_the_names() {
        for (truth, named, effect, outcome) in [
            ("gqa_tile", "gqa_tile", 1.0, CaseOutcome::Right),
            ("gqa_tile", "unexplained", 1.0, CaseOutcome::Unexplained),
            ("gqa_tile", "clean", 1.0, CaseOutcome::Missed),
            ("gqa_tile", "rope_sign", 1.0, CaseOutcome::Wrong),
            ("gqa_tile", "rope_sign", 0.04, CaseOutcome::Undetectable),
            ("clean", "clean", 0.0, CaseOutcome::Clean),
            ("clean", "unexplained", 0.0, CaseOutcome::FalseAlarm),
        ] {
            assert_eq!(case(truth, named, effect).outcome(), outcome, "{truth} {named} {effect}");
        }
    }

    #[test]
    fn one_wrong_name_in_fifty_is_too_many() {
        let mut cases = vec![case("gqa_tile", "gqa_tile", 1.0); 49];
        assert!(SelfTest { cases: cases.clone() }.passes());
        cases.push(case("gqa_tile", "rope_sign", 1.0));
        assert!(!SelfTest { cases: cases.clone() }.passes());
        cases.truncate(49);
        cases.push(case("clean", "gqa_tile", 0.0));
        assert!(!SelfTest { cases }.passes());
    }
}
