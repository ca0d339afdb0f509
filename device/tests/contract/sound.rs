//! Files that keep the contract, and files to which it does not apply.

use fidelity_device::audit::{CheckId, Part, State};

use crate::{
    of,
    support::{audit, check, kinds},
};
use fidelity_hef_writer::{hef_writer::Hef, llm_writer::Llm};

#[test]
fn a_sound_language_model_passes() {
    let found = audit(Llm::default().hef().v3());
    for check in &found.checks {
        let expected = match (check.part, check.id) {
            (Part::Checkpoint, _) | (_, CheckId::CacheQuantisation) => State::NotApplicable,
            (Part::File | Part::Contract, _) => State::Pass,
        };
        assert_eq!(check.state, expected, "{check:?}");
        assert!(!check.why.is_empty() && !check.found.is_empty(), "{check:?}");
    }
    assert_eq!((found.outcome, found.exit_code), (State::Pass, 0));
    assert_eq!(found.language_model_traits.len(), 4, "{:?}", found.language_model_traits);
    assert_eq!(kinds(&found.hef).len(), 1, "{:?}", found.hef.findings);
}

#[test]
fn without_tbt_every_token_goes_through_prefill() {
    let mut hef = Llm::default().hef();
    hef.groups.pop();
    let found = audit(hef.v3());
    assert_eq!((found.outcome, found.exit_code), (State::Pass, 0), "{found:?}");
    assert!(check(&found, CheckId::Groups).found.contains("no tbt, so that every token goes through prefill"));
}

#[test]
fn other_dimensions_are_not_hard_coded() {
    let hef = of(|llm| {
        (llm.query_heads, llm.kv_heads, llm.cache, llm.prefill, llm.shards, llm.blocks) = (3, 1, 24, 6, 1, 1);
    });
    let found = audit(hef.v3());
    assert_eq!(found.outcome, State::Pass, "{found:?}");
}

#[test]
fn a_file_that_is_no_language_model_is_not_judged_as_one() {
    let found = audit(Hef::small().v3());
    assert_eq!((found.outcome, found.exit_code), (State::NotApplicable, 0));
    for check in &found.checks {
        match check.part {
            Part::File => assert_ne!(check.state, State::Fail, "{check:?}"),
            Part::Contract | Part::Checkpoint => assert_eq!(check.state, State::NotApplicable, "{check:?}"),
        }
    }
}

#[test]
fn every_check_is_in_every_audit() {
    for hef in [Hef::small(), Llm::default().hef()] {
        let ids: Vec<_> = audit(hef.v3()).checks.iter().map(|check| check.id).collect();
        assert_eq!(ids, CheckId::ALL);
    }
}

#[test]
fn numbers_that_are_not_finite_are_null_in_json() {
    let mut hef = Hef::small();
    hef.groups[0].edge("net/input").quantisation = Some((f32::NAN, f32::INFINITY));
    let json: serde_json::Value = serde_json::from_str(&audit(hef.v3()).to_json().expect("JSON")).expect("JSON");
    let numbers = &json["hef"]["groups"][0]["inputs"][0]["quantisation"];
    assert!(numbers["scale"].is_null() && numbers["zero_point"].is_null());
}
