//! Rows, widths, types and quantisation of inputs and outputs.

use fidelity_device::audit::{CheckId, State};

use crate::{expect, of, only, with};
use fidelity_hef_writer::{
    hef_writer::{Edge, Hef},
    llm_writer::EMBEDDING_SCALE,
};

/// A sound file with a change to an input of prefill.
fn prefill(layer: u32, change: impl FnOnce(&mut Edge)) -> Hef {
    with(|hef| change(hef.groups[0].edge(&format!("small_prefill/input_layer{layer}"))))
}

/// The same of tbt.
fn tbt(layer: u32, change: impl FnOnce(&mut Edge)) -> Hef {
    with(|hef| change(hef.groups[1].edge(&format!("small_tbt/input_layer{layer}"))))
}

#[test]
fn embeddings() {
    let id = CheckId::EmbeddingsInput;
    only(&prefill(1, |edge| edge.data_bytes = 1), id, "prefill: `small_prefill/input_layer1` has values of 1 bytes");
    only(&tbt(1, |edge| edge.shape[1] = 2), id, "tbt: `small_tbt/input_layer1` is 1x2x32, expected 1 rows");
    only(&tbt(1, |edge| edge.shape[2] = 16), id, "tbt takes embeddings of width 16, prefill of width 32");
    only(&tbt(1, |edge| edge.quantisation = Some((0.5, 0.0))), id, "one embeddings.bin cannot serve both");
    expect(&tbt(1, |edge| edge.quantisation = None), id, State::Unknown, "only one group says");
    expect(&with(|_| ()), id, State::Pass, &format!("uint16, width 32, scale {EMBEDDING_SCALE}"));
}

#[test]
fn rows_of_prefill() {
    let hef = with(|hef| {
        hef.groups[0].edges().filter(|edge| edge.name.contains("input_layer")).for_each(|edge| edge.shape[1] = 8);
    });
    expect(
        &hef,
        CheckId::PrefillCount,
        State::Fail,
        "prefill_input_tokens_count = 4, but the embedding input of prefill is 1x8x32",
    );
    // Rows along the height are rows too.
    let tall = with(|hef| {
        hef.groups[0].edges().filter(|edge| edge.name.contains("input_layer")).for_each(|edge| edge.shape.swap(0, 1));
    });
    expect(&tall, CheckId::PrefillCount, State::Pass, "prefill is fed 4 rows");
}

#[test]
fn masks() {
    let id = CheckId::MaskInput;
    only(&prefill(2, |edge| edge.data_bytes = 2), id, "expected uint8");
    // One head's mask, where every head has a block.
    only(
        &tbt(2, |edge| edge.shape[2] = 16),
        id,
        "is 1x1x16, expected width 64 (num_attention_heads = 4; kv_cache_size = 16)",
    );
    only(&prefill(2, |edge| edge.shape[1] = 1), id, "is 1x1x64, expected 4 rows");
}

#[test]
fn codes_of_the_mask() {
    let id = CheckId::MaskCodes;
    expect(&with(|_| ()), id, State::Pass, "prefill: visible = code 255 (0.0000), hidden = code 0 (-100.0000)");
    // A mask of 0 and 1, as the vendor's own files have.
    let boolean = |edge: &mut Edge| (edge.quantisation, edge.limits) = (Some((1.0 / 128.0, 0.0)), [0.0, 255.0 / 128.0]);
    expect(&prefill(2, boolean), id, State::Pass, "visible = code 128 (1.0000), hidden = code 0 (0.0000)");
    let upside_down = |edge: &mut Edge| (edge.quantisation, edge.limits) = (Some((1.0, 0.0)), [-100.0, 0.0]);
    only(&tbt(2, upside_down), id, "tbt: 1.0 becomes code 0 (0.0000), which also hides a key: nothing is masked");
    expect(&tbt(2, |edge| edge.quantisation = None), id, State::Unknown, "does not say how the mask is quantised");
    expect(&tbt(2, |edge| edge.limits = [f32::NAN, 0.0]), id, State::Fail, "no code of 1.0");
    expect(&tbt(2, |edge| edge.limits = [1.0, -1.0]), id, State::Fail, "no code of 1.0");
}

#[test]
fn widths_of_rope() {
    // Both at the width of queries: the graph tiles K again.
    let both = with(|hef| {
        for (group, network) in [(0, "small_prefill"), (1, "small_tbt")] {
            for layer in [5, 6] {
                hef.groups[group].edge(&format!("{network}/input_layer{layer}")).shape[2] = 32;
            }
        }
    });
    only(
        &both,
        CheckId::RopeKeyInputs,
        "expected width 16 (num_key_value_heads = 2; head_dim 8 by the length of the RoPE table)",
    );
    only(
        &tbt(4, |edge| edge.shape[2] = 8),
        CheckId::RopeQueryInputs,
        "tbt: `small_tbt/input_layer4` is 1x1x8, expected width 32",
    );
    only(&prefill(3, |edge| edge.shape[1] = 5), CheckId::RopeQueryInputs, "is 1x5x32, expected 4 rows");
    let no_table = with(|hef| hef.resources.retain(|resource| resource.name != "rope_theta_data.bin"));
    for id in [CheckId::RopeQueryInputs, CheckId::RopeKeyInputs, CheckId::Theta] {
        expect(&no_table, id, State::Unknown, "");
    }
}

#[test]
fn range_of_rope() {
    let id = CheckId::RopeRange;
    only(
        &prefill(6, |edge| edge.quantisation = Some((0.5 / 127.0, 128.0))),
        id,
        "holds -0.5039 to 0.5000, but cos and sin",
    );
    only(&tbt(3, |edge| edge.limits = [0.0, 1.0]), id, "holds 0.0000 to 1.0000");
    expect(&tbt(3, |edge| edge.quantisation = None), id, State::Unknown, "does not say how it is quantised");
    let wide = |edge: &mut Edge| (edge.data_bytes, edge.quantisation) = (2, Some((1.0 / 32767.0, 32768.0)));
    expect(&tbt(3, wide), id, State::Pass, "all hold -1 to 1");
}

#[test]
fn outputs() {
    let id = CheckId::Outputs;
    expect(&with(|_| ()), id, State::Pass, "2 x [1, 1, 20] = 40 logits, as many as rows of embeddings.bin");
    expect(&of(|llm| llm.shards = 1), id, State::Pass, "1 x [1, 1, 40] = 40 logits");
    let output =
        |group: usize, name: &'static str, change: fn(&mut Edge)| with(|hef| change(hef.groups[group].edge(name)));
    expect(&output(0, "small_prefill/conv2", |edge| edge.shape[2] = 10), id, State::Fail, "shards must be equal");
    expect(&output(0, "small_prefill/conv2", |edge| edge.data_bytes = 2), id, State::Fail, "shards must be equal");
    expect(&output(0, "small_prefill/conv1", |edge| edge.shape[1] = 4), id, State::Fail, "is 1x4x20, expected one row");
    let all = |width: u64, groups: usize| {
        with(|hef| {
            for group in &mut hef.groups[..groups] {
                group.edges().filter(|edge| edge.name.contains("conv")).for_each(|edge| edge.shape[2] = width);
            }
        })
    };
    expect(&all(16, 2), id, State::Fail, "2 x [1, 1, 16] = 32 logits: the width of the embedding, not 40");
    expect(&all(16, 2), id, State::Fail, "lm_head is missing");
    expect(&all(19, 2), id, State::Fail, "= 38 logits, but there are 40 rows of embeddings.bin");
    expect(&all(24, 2), id, State::Unknown, "ids from 40 on must never be chosen");
    expect(&all(24, 1), id, State::Fail, "prefill gives 48 logits, tbt 40");
    let none = with(|hef| hef.groups[1].contexts[1].edges.clear());
    expect(&none, id, State::Fail, "tbt has no output");
    let no_table = with(|hef| hef.resources.retain(|resource| resource.name != "embeddings.bin"));
    expect(&no_table, id, State::Unknown, "there is no vocabulary to compare with");
}
