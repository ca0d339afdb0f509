//! The contract of a language model: a sound file passes every check, and each fault turns its own check red.

#[expect(dead_code, reason = "what the checklist needs")]
#[path = "../support/mod.rs"]
mod support;

mod caches;
mod checkpoint;
mod configuration;
mod document;
mod io;
mod mutations;
mod sound;
mod tables;

use fidelity_device::audit::{CheckId, State};

use crate::support::{audit, check};
use fidelity_hef_writer::{hef_writer::Hef, llm_writer::Llm};

/// The state of a check, and what must be said.
#[track_caller]
fn expect(hef: &Hef, id: CheckId, state: State, said: &str) {
    let found = audit(hef.v3());
    let check = check(&found, id);
    assert_eq!(check.state, state, "{check:?}");
    assert!(check.found.contains(said), "{check:?} does not say {said:?}");
    let expected = match state {
        State::Fail => 1,
        // Another check may fail for the same reason.
        State::Unknown if found.in_state(State::Fail).next().is_some() => 1,
        State::Unknown => 3,
        State::Pass | State::NotApplicable => return,
    };
    assert_eq!(found.exit_code, expected, "{found:?}");
}

/// A fault that turns this check red and no other.
#[track_caller]
fn only(hef: &Hef, id: CheckId, said: &str) {
    expect(hef, id, State::Fail, said);
    let found = audit(hef.v3());
    let red: Vec<_> = found.in_state(State::Fail).map(|check| check.id).collect();
    assert_eq!(red, [id], "{found:?}");
}

/// A sound file with a change.
fn with(change: impl FnOnce(&mut Hef)) -> Hef {
    let mut hef = Llm::default().hef();
    change(&mut hef);
    hef
}

/// A sound file of a changed model.
fn of(change: impl FnOnce(&mut Llm)) -> Hef {
    let mut llm = Llm::default();
    change(&mut llm);
    llm.hef()
}
