//! What is said of the grid that logits lie on.

use fidelity_device::session::Geometry;
use fidelity_hef_writer::hef_writer::Hef;

use crate::{
    configured,
    fake_chip::FakeLibrary,
    small_llm::{small, stored, whole, with_codes},
};

fn geometry(hef: &Hef) -> Geometry {
    let (_folder, path) = stored(hef);
    configured(&FakeLibrary::default(), &path).expect("sound").geometry().clone()
}

/// A file whose output of that group and name has another step.
fn with_step(group: usize, output: &str, step: f32) -> Hef {
    let mut hef = with_codes(small().hef());
    hef.groups[group].edge(output).quantisation = Some((step, 0.0));
    hef
}

#[test]
fn nothing_is_noted_where_the_steps_say_all() {
    let mut prefill_only = with_codes(small().hef());
    prefill_only.groups.pop();
    for hef in [with_codes(small().hef()), prefill_only, whole(8, 1)] {
        assert_eq!(geometry(&hef).logits_step_note(None), None);
        assert_eq!(geometry(&hef).logits_step_note(Some(5)), None, "equal steps");
    }
}

#[test]
fn a_grid_of_prefill_that_differs_is_noted() {
    let geometry = geometry(&with_step(0, "small_prefill/conv2", 0.75));
    assert!(geometry.logits_step(None).is_some());
    let note = geometry.logits_step_note(None).expect("a note");
    assert!(note.starts_with("The logits of prefill lie on another grid than those of tbt"), "{note}");
}

#[test]
fn a_vocabulary_that_does_not_fill_unequal_shards_is_noted() {
    let mut hef = with_step(0, "small_prefill/conv2", 0.75);
    hef.groups[1].edge("small_tbt/conv2").quantisation = Some((0.75, 0.0));
    let geometry = geometry(&hef);
    for (vocabulary, said) in [(None, None), (Some(7), None), (Some(6), Some("6 logits do not fill them"))] {
        let note = geometry.logits_step_note(vocabulary);
        assert_eq!(note.is_some(), said.is_some(), "{note:?}");
        assert_eq!(note.is_none(), geometry.logits_step(vocabulary).is_some());
        assert!(said.is_none_or(|said| note.is_some_and(|note| note.contains(said))));
    }
}

#[test]
fn steps_that_are_not_stated_are_noted() {
    let mut hef = with_codes(small().hef());
    hef.groups[1].edge("small_tbt/conv1").quantisation = None;
    let geometry = geometry(&hef);
    assert_eq!(geometry.logits_step(None), None);
    let note = geometry.logits_step_note(None).expect("a note");
    assert!(note.starts_with("The HEF states no single step"), "{note}");
}
