//! What the chip does wrong, as data. `rpc` acts on misbehaviours, `chip` on faults; both match exhaustively.

use std::{str::FromStr, time::Duration};

use crate::rpc::Action;

/// Which requests: of this action, the n-th since the mock was started (whoever asked), or each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is asked for.
    pub action: Action,
    /// From 1 on; absent: each.
    pub number: Option<u32>,
}

impl Step {
    /// The n-th request of an action, from 1 on.
    #[must_use]
    pub const fn nth(action: Action, number: u32) -> Self {
        Self { action, number: Some(number) }
    }

    /// Each request of an action.
    #[must_use]
    pub const fn each(action: Action) -> Self {
        Self { action, number: None }
    }

    pub(crate) fn is(self, action: Action, number: u32) -> bool {
        self.action == action && self.number.is_none_or(|wanted| wanted == number)
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Nothing is done, and there is never an answer.
    Hang,
    /// It is done, and there is never an answer: what a lost wake-up looks like to the client.
    Unanswered,
    /// The server dies: all links close, all that it held is gone, and nobody listens until it is back; for good if absent.
    Crash {
        /// How long nobody listens.
        back_after: Option<Duration>,
    },
    /// Nothing is done, and this status is the answer.
    Status(u32),
    /// It is done, and the answer comes so much later; other requests are served meanwhile.
    Late(Duration),
    /// It is answered at once, whatever the delay of the others.
    Instant,
    /// This client's link is closed; others go on.
    CloseLink,
}

/// A misbehaviour: which requests, and what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misbehaviour {
    /// Which requests.
    pub at: Step,
    /// What becomes of them.
    pub conduct: Conduct,
}

impl Misbehaviour {
    /// Every attempt to open the device finds it in use, status 73 (`HAILO_DEVICE_IN_USE`).
    pub const BUSY: Self = Self { at: Step::each(Action::OpenDevice), conduct: Conduct::Status(73) };
}

/// A numeric fault that a host can see in the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// tbt takes the values of a cache entry in reverse order, prefill does not: what prefill wrote is read wrongly.
    CacheLayout,
    /// `update_cache_offset` succeeds and the ring does not move.
    OffsetNotAdvanced,
    /// The read offset stops at the last entry where it must wrap: from there on every token overwrites the one before.
    RingWrap,
    /// Visible is hidden and hidden is visible.
    MaskInverted,
    /// The graph negates the half of sin that the table negates too, or neither does.
    ThetaSign,
    /// cos and sin are tiled a second time inside of each head: dimension d takes the value of dimension d / 2.
    RopeTiledTwice,
    /// The first two outputs have each other's logits.
    ShardsSwapped,
}

/// A `--misbehave` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}`: {reason}; write CONDUCT@ACTION[:N], for example hang@run:3, status=8@configure, late=500@run:2, busy"
)]
pub struct MisbehaviourError {
    /// What was given.
    text: String,
    /// What is wrong with it.
    reason: String,
}

/// `busy`, or `CONDUCT[=VALUE]@ACTION[:N]`: hang, unanswered, crash[=MS until it is back], status=NUMBER, late=MS, instant,
/// close-link. Without `:N`, each request of the action.
impl FromStr for Misbehaviour {
    type Err = MisbehaviourError;

    fn from_str(text: &str) -> Result<Self, MisbehaviourError> {
        let wrong = |reason: String| MisbehaviourError { text: text.into(), reason };
        if text == "busy" {
            return Ok(Self::BUSY);
        }
        let (conduct, step) = text.split_once('@').ok_or_else(|| wrong("there is no `@`".into()))?;
        let (name, value) = match conduct.split_once('=') {
            Some((name, value)) => {
                let number = value.parse::<u32>().map_err(|_| wrong(format!("`{value}` is no whole number")))?;
                (name, Some(number))
            }
            None => (conduct, None),
        };
        let span = |milliseconds: u32| Duration::from_millis(milliseconds.into());
        let conduct = match (name, value) {
            ("hang", None) => Conduct::Hang,
            ("unanswered", None) => Conduct::Unanswered,
            ("crash", back) => Conduct::Crash { back_after: back.map(span) },
            ("status", Some(status)) => Conduct::Status(status),
            ("late", Some(delay)) => Conduct::Late(span(delay)),
            ("instant", None) => Conduct::Instant,
            ("close-link", None) => Conduct::CloseLink,
            ("status" | "late", None) => return Err(wrong(format!("{name} needs a value"))),
            ("hang" | "unanswered" | "instant" | "close-link", Some(_)) => {
                return Err(wrong(format!("{name} takes no value")));
            }
            _ => return Err(wrong(format!("`{name}` is no conduct"))),
        };
        let (action, number) = match step.split_once(':') {
            Some((action, number)) => {
                let parsed = number.parse::<u32>().ok().filter(|number| *number > 0);
                (action, Some(parsed.ok_or_else(|| wrong(format!("`{number}` is no number from 1 on")))?))
            }
            None => (step, None),
        };
        let action = Action::named(action).ok_or_else(|| {
            let known = Action::ALL.map(Action::name).join(", ");
            wrong(format!("`{action}` is no action ({known})"))
        })?;
        Ok(Self { at: Step { action, number }, conduct })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_written() {
        let run = |number| Step::nth(Action::Run, number);
        for (text, at, conduct) in [
            ("hang@run:3", run(3), Conduct::Hang),
            ("unanswered@init-cache", Step::each(Action::InitCache), Conduct::Unanswered),
            ("crash@run:1", run(1), Conduct::Crash { back_after: None }),
            ("crash=50@run:1", run(1), Conduct::Crash { back_after: Some(Duration::from_millis(50)) }),
            ("status=8@configure:2", Step::nth(Action::Configure, 2), Conduct::Status(8)),
            ("late=700@run:2", run(2), Conduct::Late(Duration::from_millis(700))),
            ("instant@open", Step::each(Action::OpenDevice), Conduct::Instant),
            ("close-link@update-offset:4", Step::nth(Action::UpdateOffset, 4), Conduct::CloseLink),
            ("busy", Step::each(Action::OpenDevice), Conduct::Status(73)),
        ] {
            assert_eq!(text.parse(), Ok(Misbehaviour { at, conduct }), "{text}");
        }
    }

    #[test]
    fn what_cannot_says_why() {
        for (text, said) in [
            ("hang", "no `@`"),
            ("sulk@run", "`sulk` is no conduct"),
            ("status@run", "status needs a value"),
            ("hang=3@run", "hang takes no value"),
            ("late=soon@run", "`soon` is no whole number"),
            ("hang@walk", "`walk` is no action"),
            ("hang@run:0", "`0` is no number"),
        ] {
            let error = text.parse::<Misbehaviour>().expect_err("it cannot be read").to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
