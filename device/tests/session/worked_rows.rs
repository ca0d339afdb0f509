//! Bytes of a few steps, worked out by hand from the contract (docs/ARCHITECTURE.md names its source) and written here as
//! literals, so that no code of ours is on both sides.
//!
//! Ring L = 6, chunk P = 4, two query heads, one key head, heads of two dimensions, theta = [-0.5, 0.5]. Token t has the codes
//! 256 t + 1 and 256 t + 2, which are the bytes 01 t 02 t.

use fidelity_trace::Scope;

use crate::{
    Kept, configured,
    fake_chip::{Event, FakeLibrary},
    job,
    small_llm::{small, stored, with_codes},
};
use fidelity_hef_writer::hef_writer::Hef;

const EMBEDDINGS: usize = 0;
const MASK: usize = 1;

/// The inputs of every run, by role: embeddings, mask, Q cos, Q sin, K cos, K sin.
fn runs(hef: &Hef, token_ids: &[u32], continuation: &[u32], scopes: &[Scope]) -> Vec<(String, [Vec<u8>; 6])> {
    let (_folder, path) = stored(hef);
    let library = FakeLibrary::default();
    let mut session = configured(&library, &path).expect("sound");
    let job = fidelity_device::session::Job { scopes: scopes.to_vec(), ..job(token_ids, continuation) };
    session.run(&job, &mut Kept::default()).expect("runs");
    let runs = library.take_events().into_iter().filter_map(|event| match event {
        // The file lists the mask before the embeddings.
        Event::Run(group, mut inputs) => {
            inputs.swap(0, 1);
            Some((group, inputs.try_into().expect("six inputs")))
        }
        Event::Configure(_) | Event::InitCache(_) | Event::UpdateOffset(_) => None,
    });
    runs.collect()
}

fn offsets(hef: &Hef, token_ids: &[u32], continuation: &[u32], scopes: &[Scope]) -> Vec<Event> {
    let (_folder, path) = stored(hef);
    let library = FakeLibrary::default();
    let mut session = configured(&library, &path).expect("sound");
    let job = fidelity_device::session::Job { scopes: scopes.to_vec(), ..job(token_ids, continuation) };
    session.run(&job, &mut Kept::default()).expect("runs");
    let mut events = library.take_events();
    events.retain(|event| matches!(event, Event::InitCache(_) | Event::UpdateOffset(_)));
    events
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|quad| f32::from_le_bytes(quad.try_into().expect("4 bytes"))).collect()
}

#[track_caller]
fn assert_floats(bytes: &[u8], expected: &[f32]) {
    let found = floats(bytes);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 6e-8, "{found:?} {expected:?}");
    }
}

/// Visible in the writer's convention, whose values go from -100 to 0: 1.0 is clipped to 0, which is code 255.
const A: u8 = 255;

#[test]
fn the_remainder_comes_first_right_aligned_after_padding() {
    let runs = runs(&with_codes(small().hef()), &[3, 1, 2, 0, 5], &[], &[Scope::Prefill]);
    assert_eq!(runs.len(), 2);
    let (group, inputs) = &runs[0];
    assert_eq!(group, "base_model__prefill");
    #[rustfmt::skip]
    assert_eq!(inputs[EMBEDDINGS], [
        0, 0, 0, 0,
        0, 0, 0, 0,
        0, 0, 0, 0,
        1, 3, 2, 3,
    ]);
    // One token so far. Rows of padding see everything; the block of six columns is there once a head.
    #[rustfmt::skip]
    assert_eq!(inputs[MASK], [
        A, A, A, A, A, A,  A, A, A, A, A, A,
        A, A, A, A, A, A,  A, A, A, A, A, A,
        A, A, A, A, A, A,  A, A, A, A, A, A,
        0, 0, 0, 0, 0, A,  0, 0, 0, 0, 0, A,
    ]);
    assert_floats(&inputs[2], &[1.0; 16]);
    assert_floats(&inputs[3], &[0.0; 16]);
    assert_floats(&inputs[4], &[1.0; 8]);
    assert_floats(&inputs[5], &[0.0; 8]);
}

#[test]
fn a_later_chunk_sees_the_cache_and_its_own_lower_triangle() {
    let runs = runs(&with_codes(small().hef()), &[3, 1, 2, 0, 5], &[], &[Scope::Prefill]);
    let (_, inputs) = &runs[1];
    #[rustfmt::skip]
    assert_eq!(inputs[EMBEDDINGS], [
        1, 1, 2, 1,
        1, 2, 2, 2,
        1, 0, 2, 0,
        1, 5, 2, 5,
    ]);
    // Five tokens so far: column 0 is free, column 1 is the first token, columns 2 to 5 are this chunk's.
    #[rustfmt::skip]
    assert_eq!(inputs[MASK], [
        0, A, A, 0, 0, 0,  0, A, A, 0, 0, 0,
        0, A, A, A, 0, 0,  0, A, A, A, 0, 0,
        0, A, A, A, A, 0,  0, A, A, A, A, 0,
        0, A, A, A, A, A,  0, A, A, A, A, A,
    ]);
    // Positions 1 to 4 times -0.5 and 0.5, once a head.
    #[rustfmt::skip]
    assert_floats(&inputs[2], &[
        0.877_582_56, 0.877_582_56,  0.877_582_56, 0.877_582_56,
        0.540_302_3, 0.540_302_3,  0.540_302_3, 0.540_302_3,
        0.070_737_2, 0.070_737_2,  0.070_737_2, 0.070_737_2,
        -0.416_146_84, -0.416_146_84,  -0.416_146_84, -0.416_146_84,
    ]);
    #[rustfmt::skip]
    assert_floats(&inputs[3], &[
        -0.479_425_55, 0.479_425_55,  -0.479_425_55, 0.479_425_55,
        -0.841_471, 0.841_471,  -0.841_471, 0.841_471,
        -0.997_495, 0.997_495,  -0.997_495, 0.997_495,
        -0.909_297_4, 0.909_297_4,  -0.909_297_4, 0.909_297_4,
    ]);
    // One key head.
    #[rustfmt::skip]
    assert_floats(&inputs[5], &[
        -0.479_425_55, 0.479_425_55,
        -0.841_471, 0.841_471,
        -0.997_495, 0.997_495,
        -0.909_297_4, 0.909_297_4,
    ]);
}

#[test]
fn a_prompt_longer_than_the_ring_sees_a_full_one() {
    let runs = runs(&with_codes(small().hef()), &[3, 1, 2, 0, 5, 1, 2, 3, 4], &[], &[Scope::Prefill]);
    assert_eq!(runs.len(), 3);
    // Nine tokens so far, of which the ring holds six: two from before, and this chunk's.
    #[rustfmt::skip]
    assert_eq!(runs[2].1[MASK], [
        A, A, A, 0, 0, 0,  A, A, A, 0, 0, 0,
        A, A, A, A, 0, 0,  A, A, A, A, 0, 0,
        A, A, A, A, A, 0,  A, A, A, A, A, 0,
        A, A, A, A, A, A,  A, A, A, A, A, A,
    ]);
    // Positions go on: 5 × 0.5 = 2.5 in the first row.
    assert_floats(&runs[2].1[4][..8], &[-0.801_143_6, -0.801_143_6]);
}

#[test]
fn a_step_is_one_row() {
    let hef = with_codes(small().hef());
    let runs = runs(&hef, &[3, 1], &[2, 4, 0], &[Scope::Tbt]);
    let (group, inputs) = &runs[1];
    assert_eq!(group, "base_model__tbt");
    assert_eq!(inputs[EMBEDDINGS], [1, 2, 2, 2]);
    assert_eq!(inputs[MASK], [0, 0, 0, A, A, A, 0, 0, 0, A, A, A]);
    // Position 2.
    assert_floats(&inputs[2], &[0.540_302_3; 4]);
    assert_floats(&inputs[3], &[-0.841_471, 0.841_471, -0.841_471, 0.841_471]);
    assert_floats(&inputs[4], &[0.540_302_3; 2]);
    assert_floats(&inputs[5], &[-0.841_471, 0.841_471]);
    assert_eq!(runs[2].1[MASK], [0, 0, A, A, A, A, 0, 0, A, A, A, A]);
}

#[test]
fn a_step_beyond_the_ring_sees_all_of_it_at_its_own_position() {
    let runs = runs(&with_codes(small().hef()), &[3, 1, 2, 0, 5], &[1, 2, 3], &[Scope::Tbt]);
    let (_, inputs) = &runs[3];
    assert_eq!(inputs[EMBEDDINGS], [1, 2, 2, 2]);
    assert_eq!(inputs[MASK], [A; 12]);
    // Position 6, the seventh token of a ring of six.
    assert_floats(&inputs[4], &[-0.989_992_5; 2]);
    assert_floats(&inputs[5], &[-0.141_120_01, 0.141_120_01]);
}

#[test]
fn a_step_that_sees_itself_alone_sees_the_last_column() {
    let runs = runs(&with_codes(small().hef()), &[3, 1], &[2, 4], &[Scope::TbtSelf]);
    let (group, inputs) = &runs[1];
    assert_eq!(group, "base_model__tbt");
    assert_eq!(inputs[MASK], [0, 0, 0, 0, 0, A, 0, 0, 0, 0, 0, A]);
    assert_floats(&inputs[4], &[0.540_302_3; 2]);
}

#[test]
fn visible_is_the_code_of_one() {
    // Scale 1/128 from 0: 1.0 is code 128, as in the official files.
    let mut hef = with_codes(small().hef());
    for (group, network) in [(0, "small_prefill"), (1, "small_tbt")] {
        let mask = hef.groups[group].edge(&format!("{network}/input_layer2"));
        (mask.quantisation, mask.limits) = (Some((1.0 / 128.0, 0.0)), [0.0, 1.0]);
    }
    let runs = runs(&hef, &[3], &[2, 4], &[Scope::Tbt]);
    assert_eq!(runs[0].1[MASK], [0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 128], "a prompt of one token goes through tbt");
    assert_eq!(runs[1].1[MASK], [0, 0, 0, 0, 128, 128, 0, 0, 0, 0, 128, 128]);
}

#[test]
fn without_tbt_a_step_feeds_earlier_tokens_again() {
    let mut hef = with_codes(small().hef());
    hef.groups.pop();
    let runs = runs(&hef, &[3, 1, 2], &[4, 5, 6], &[Scope::Tbt]);
    // Three tokens, then one more: the window of four is full of real tokens.
    #[rustfmt::skip]
    assert_eq!(runs[1].1[EMBEDDINGS], [
        1, 3, 2, 3,
        1, 1, 2, 1,
        1, 2, 2, 2,
        1, 4, 2, 4,
    ]);
    #[rustfmt::skip]
    assert_eq!(runs[1].1[MASK], [
        0, 0, A, 0, 0, 0,  0, 0, A, 0, 0, 0,
        0, 0, A, A, 0, 0,  0, 0, A, A, 0, 0,
        0, 0, A, A, A, 0,  0, 0, A, A, A, 0,
        0, 0, A, A, A, A,  0, 0, A, A, A, A,
    ]);
    // One more: the first token is seen in the cache alone.
    #[rustfmt::skip]
    assert_eq!(runs[2].1[EMBEDDINGS], [
        1, 1, 2, 1,
        1, 2, 2, 2,
        1, 4, 2, 4,
        1, 5, 2, 5,
    ]);
    #[rustfmt::skip]
    assert_eq!(runs[2].1[MASK], [
        0, A, A, 0, 0, 0,  0, A, A, 0, 0, 0,
        0, A, A, A, 0, 0,  0, A, A, A, 0, 0,
        0, A, A, A, A, 0,  0, A, A, A, A, 0,
        0, A, A, A, A, A,  0, A, A, A, A, A,
    ]);
}

#[test]
fn suffixes_say_which_input_is_which() {
    // 3 = K cos, 4 = Q cos, 5 = K sin, 6 = Q sin; widths follow.
    let llm = small();
    let mut config = llm.config();
    config["input_layers_names_suffixes"] = serde_json::json!({
        "pe_k_cos": "input_layer3", "pe_q_cos": "input_layer4", "pe_k_sin": "input_layer5", "pe_q_sin": "input_layer6",
    });
    let mut hef = with_codes(llm.hef());
    hef.resources[0].bytes = config.to_string().into_bytes();
    for (group, network, rows) in [(0, "small_prefill", 4), (1, "small_tbt", 1)] {
        for (number, width) in [(3, 2), (4, 4), (5, 2), (6, 4)] {
            hef.groups[group].edge(&format!("{network}/input_layer{number}")).shape = [1, rows, width];
        }
    }
    let runs = runs(&hef, &[3, 1], &[2, 4], &[Scope::Tbt]);
    let (_, inputs) = &runs[1];
    assert_floats(&inputs[2], &[0.540_302_3; 2]);
    assert_floats(&inputs[3], &[0.540_302_3; 4]);
    assert_floats(&inputs[4], &[-0.841_471, 0.841_471]);
    assert_floats(&inputs[5], &[-0.841_471, 0.841_471, -0.841_471, 0.841_471]);
}

#[test]
fn the_ring_moves_by_real_tokens_before_each_run() {
    use Event::{InitCache as Init, UpdateOffset as Update};
    let hef = with_codes(small().hef());
    let found = offsets(&hef, &[3, 1, 2, 0, 5], &[1, 2, 3], &[Scope::Prefill, Scope::Tbt, Scope::TbtSelf]);
    // Remainder, chunk, two steps; then back to the end of the prompt, entry 5, for the steps that see themselves alone.
    assert_eq!(found, [Init(0), Update(1), Update(4), Update(1), Update(1), Init(5), Update(1), Update(1)]);
}

#[test]
fn rope_and_logits_are_float32_and_the_cache_is_switched_on() {
    let (_folder, path) = stored(&with_codes(small().hef()));
    let library = FakeLibrary::default();
    configured(&library, &path).expect("sound");
    let [Event::Configure(groups)] = &library.take_events()[..] else { panic!("configured once, nothing else done") };
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["base_model__prefill", "base_model__tbt"]);
    for (group, network) in groups.iter().zip(["small_prefill", "small_tbt"]) {
        assert!(group.kv_cache);
        let streams = ["input_layer3", "input_layer4", "input_layer5", "input_layer6", "conv1", "conv2"];
        assert_eq!(group.float32, streams.map(|stream| format!("{network}/{stream}")));
    }
}

#[test]
fn both_groups_are_fed_the_code_of_prefill() {
    let mut hef = with_codes(small().hef());
    let mask = hef.groups[1].edge("small_tbt/input_layer2");
    // By these numbers 1.0 would be code 3.
    mask.quantisation = Some((100.0 / 255.0, 0.0));
    mask.limits = [0.0, 100.0];
    let runs = runs(&hef, &[3, 1], &[4, 0], &[Scope::Tbt]);
    let (group, inputs) = runs.last().expect("a step");
    assert_eq!(group, "base_model__tbt");
    #[rustfmt::skip]
    assert_eq!(inputs[MASK], [
        0, 0, 0, A, A, A,  0, 0, 0, A, A, A,
    ]);
}
