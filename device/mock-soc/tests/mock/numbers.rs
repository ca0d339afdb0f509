//! What the chip computes is what the checkpoint computes: against a recomputation without any cache.

use fidelity_mock_soc::{Groups, HefOptions, InputOrder, MaskConvention, Rotation, Width};

use crate::support::{Host, Pace, Reference, demo, distance, hef, ids, pearson, start};

/// Logits of the demo checkpoint go from -10 to 14; 16 bits of them and of embeddings and angles leave 0.0015 (measured over 104
/// rows).
const TOLERANCE: f32 = 0.005;

/// Feeds `prompt` tokens through prefill and the rest one by one, and compares the last row of each step.
#[track_caller]
fn agrees(options: &HefOptions, prompt: usize, tokens: usize) {
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &hef(options)).expect("it opens");
    let ids = ids(tokens);
    let mut steps = host.feed(&ids[..prompt], Pace::Prefill).expect("prefill runs");
    steps.extend(host.feed(&ids[prompt..], Pace::Tbt).expect("tbt runs"));
    let ends = ends(prompt, tokens, options.rows);
    let first = |position: usize| {
        // All rows of a run see from the same token on: the last `cache` of the conversation after it.
        let end = *ends.iter().find(|end| **end > position).expect("a run holds it");
        end.saturating_sub(options.cache)
    };
    let expected = Reference::of(demo()).logits(&ids, first);
    assert_eq!(steps.len(), ends.len());
    for (end, logits) in ends.iter().zip(&steps) {
        let (found, expected) = (&logits[logits.len() - 512..], &expected[end - 1]);
        let (off, correlation) = (distance(found, expected), pearson(found, expected));
        assert!(off < TOLERANCE && correlation > 0.999_999, "after {end} tokens: {off}, {correlation}");
    }
}

/// Tokens of the conversation after each step.
fn ends(prompt: usize, tokens: usize, rows: usize) -> Vec<usize> {
    let remainder = prompt % rows;
    let mut ends: Vec<_> = (0..=prompt / rows).map(|chunk| remainder + chunk * rows).filter(|end| *end > 0).collect();
    ends.extend(prompt + 1..=tokens);
    ends
}

#[test]
fn prompts_shorter_equal_longer_and_not_a_multiple() {
    for prompt in [1, 3, 8, 9, 16, 21] {
        agrees(&HefOptions::precise(8, 64), prompt, prompt + 4);
    }
}

#[test]
fn past_a_wrap_of_the_ring_in_either_group() {
    // 24 is no power of two.
    for cache in [16, 24] {
        agrees(&HefOptions::precise(4, cache), 7, 60);
        agrees(&HefOptions::precise(4, cache), 55, 60);
    }
}

#[test]
fn either_convention_of_mask_inputs_and_sign() {
    for mask in [MaskConvention::Official, MaskConvention::Added] {
        for (inputs, rotation) in
            [(InputOrder::KeysFirst, Rotation::SignInTable), (InputOrder::Official, Rotation::SignInGraph)]
        {
            agrees(&HefOptions { mask, inputs, rotation, shards: 1, ..HefOptions::precise(8, 32) }, 11, 16);
        }
    }
}

#[test]
fn one_group_with_caches_takes_every_token() {
    agrees(&HefOptions { groups: Groups::Prefill, ..HefOptions::precise(8, 64) }, 8, 8);
    let mock = start(|_| ());
    let options = HefOptions { groups: Groups::Prefill, ..HefOptions::precise(8, 64) };
    let mut host = Host::open(mock.address(), &hef(&options)).expect("it opens");
    let ids = ids(14);
    // Later short chunks feed earlier tokens once more.
    let mut last = Vec::new();
    for part in [&ids[..5], &ids[5..6], &ids[6..11], &ids[11..]] {
        last = host.feed(part, Pace::Prefill).expect("it runs").pop().expect("a step");
    }
    let expected = Reference::of(demo()).logits(&ids, |_| 0).pop().expect("a row");
    assert!(distance(&last, &expected) < TOLERANCE);
}

#[test]
fn without_caches_every_row_is_there() {
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &hef(&HefOptions::base(16))).expect("it opens");
    let ids = ids(11);
    // No remainder: one run holds the text, right-aligned.
    let logits = host.feed(&ids, Pace::Prefill).expect("it runs").pop().expect("a step");
    let expected = Reference::of(demo()).logits(&ids, |_| 0);
    for (row, expected) in logits.chunks(512).skip(5).zip(&expected) {
        assert!(distance(row, expected) < TOLERANCE);
    }
    assert_eq!((logits.len(), expected.len()), (16 * 512, 11));
    assert_eq!(mock.last_offset(), None);
}

#[test]
fn eight_bits_are_near_and_lie_on_the_grid_of_their_shard() {
    let file = hef(&HefOptions::official(8, 64));
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &file).expect("it opens");
    let ids = ids(20);
    let logits = host.feed(&ids, Pace::Prefill).expect("it runs").pop().expect("a step");
    let expected = Reference::of(demo()).logits(&ids, |_| 0).pop().expect("a row");
    let correlation = pearson(&logits, &expected);
    assert!((0.999..0.99995).contains(&correlation), "{correlation}");
    let [Some((group, _)), _] = host.groups() else { panic!("prefill") };
    for (output, shard) in group.outputs.iter().zip(logits.chunks(128)) {
        let numbers = output.quantisation.as_ref().expect("a grid");
        for value in shard {
            let code = value / numbers.scale + numbers.zero_point;
            assert!((code - code.round()).abs() < 1e-3 && (-0.5..255.5).contains(&code), "{code}");
        }
    }
}

#[test]
fn a_second_conversation_starts_anew_and_a_roll_back_goes_on_from_there() {
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &hef(&HefOptions::precise(4, 32))).expect("it opens");
    let ids = ids(12);
    let once = host.feed(&ids, Pace::Prefill).expect("it runs");
    host.begin().expect("init_cache");
    host.feed(&ids[..8], Pace::Prefill).expect("it runs");
    // Two tokens that are taken back.
    host.feed(&[400, 401], Pace::Tbt).expect("it runs");
    assert_eq!(mock.last_offset(), Some(10));
    host.roll_back(2, 8);
    let again = host.feed(&ids[8..], Pace::Prefill).expect("it runs");
    assert!(distance(&once[2], &again[0]) < 1e-6);
}

#[test]
fn attention_with_biases_and_a_head_of_its_own() {
    let checkpoint = crate::support::with_biases_and_head(demo());
    let file = fidelity_mock_soc::build(&checkpoint, &HefOptions::precise(8, 32)).expect("it can be compiled");
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &file).expect("it opens");
    let ids = ids(13);
    let logits = host.feed(&ids, Pace::Prefill).expect("it runs").pop().expect("a step");
    let expected = Reference::of(checkpoint).logits(&ids, |_| 0).pop().expect("a row");
    assert!(pearson(&logits, &expected) > 0.99999);
    let without = Reference::of(demo()).logits(&ids, |_| 0).pop().expect("a row");
    assert!(pearson(&logits, &without) < 0.999, "biases and head matter");
}

#[test]
fn without_the_kv_cache_enabled_a_run_does_not_wait_for_its_offset() {
    let mock = start(|_| ());
    let file = hef(&HefOptions { logits: Width::Sixteen, ..HefOptions::precise(4, 32) });
    let mut host = Host::open_with(mock.address(), &file, false).expect("it opens");
    let ids = ids(9);
    let steps = host.feed(&ids, Pace::Prefill).expect("it runs");
    let expected = Reference::of(demo()).logits(&ids, |_| 0);
    assert!(pearson(steps.last().expect("a step"), &expected[8]) < 0.99);
}
