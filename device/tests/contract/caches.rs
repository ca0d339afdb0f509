//! Caches: pairs, entries, length, layout, quantisation.

use fidelity_device::audit::{CheckId, State};

use crate::{expect, only, with};
use fidelity_hef_writer::{
    hef_writer::{Edge, Hef},
    llm_writer::Llm,
};

/// A sound file with a change to the caches of a group whose name ends so.
fn caches(group: usize, end: &'static str, change: impl Fn(&mut Edge)) -> Hef {
    with(|hef| hef.groups[group].edges().filter(|edge| edge.name.ends_with(end)).for_each(change))
}

#[test]
fn pairs() {
    let id = CheckId::CachePairs;
    expect(&with(|_| ()), id, State::Pass, "4 caches, each read once and written once in each of 2 groups");
    let fault = |end, cache_id| caches(0, end, |edge| edge.cache_id = cache_id);
    expect(&fault("cache_in1", 0), id, State::Fail, "group `base_model__prefill`: cache 0 is read more than once");
    expect(&fault("cache_out1", 0), id, State::Fail, "cache 0 is written more than once");
    expect(&fault("cache_in1", 9), id, State::Fail, "cache 9 is read but never written");
    expect(&fault("cache_out3", 9), id, State::Fail, "cache 3 is read but never written");
    let renumbered = with(|hef| {
        hef.groups[1].edges().filter(|edge| edge.name.contains("cache")).for_each(|edge| edge.cache_id += 1);
    });
    only(&renumbered, id, "id 4 is in one of them only");
    let none = |groups: &[usize]| {
        with(|hef| {
            for group in groups {
                hef.groups[*group].contexts[0].edges.retain(|edge| edge.connection != 3);
            }
        })
    };
    only(&none(&[0, 1]), id, "no context reads or writes a cache: every token would be computed without its past");
    only(&none(&[1]), id, "tbt has no cache, but group `base_model__prefill` has");
    let one_context = with(|hef| {
        let last = hef.groups[0].contexts.pop().expect("two");
        hef.groups[0].contexts[0].edges.extend(last.edges);
    });
    only(&one_context, id, "group `base_model__prefill` has one context");
}

#[test]
fn entries() {
    let id = CheckId::CacheEntries;
    expect(&with(|_| ()), id, State::Pass, "entries of 16 values of 1 byte");
    only(
        &caches(0, "cache_in0", |edge| edge.data_bytes = 2),
        id,
        "cache 0: values of 2 bytes, but HailoRT sizes caches for 1",
    );
    only(&caches(0, "cache_in0", |edge| edge.shape[2] = 8), id, "read with 8 values and written with 16");
    let one_group = caches(1, "0", |edge| {
        if edge.name.contains("cache") {
            edge.shape[2] = 8;
        }
    });
    only(&one_group, id, "an entry has 8 values, but 16 in another group");
    let all = |features: u64| {
        with(|hef| {
            for group in &mut hef.groups {
                group.edges().filter(|edge| edge.connection == 3).for_each(|edge| edge.shape[2] = features);
            }
        })
    };
    // A cache may hold one head.
    expect(&all(8), id, State::Pass, "entries of 8 values");
    only(&all(12), id, "an entry of 12 values is no even part of head_dim x num_key_value_heads = 2 = 16");
}

#[test]
fn length() {
    let id = CheckId::CacheLength;
    expect(
        &with(|_| ()),
        id,
        State::Pass,
        "`base_model__prefill` 12 + 4, `base_model__tbt` 15 + 1 tokens (kv_cache_size = 16)",
    );
    only(
        &caches(1, "cache_in2", |edge| edge.shape[1] = 14),
        id,
        "cache 2: 14 tokens read + 1 written, expected kv_cache_size = 16",
    );
    // Features where tokens belong: 16 entries of 4, equal to 4 tokens of 16 only in bytes.
    let feature_major = caches(0, "cache_out0", |edge| edge.shape = [1, 16, 4]);
    expect(&feature_major, id, State::Fail, "12 tokens read + 16 written");
    let shifted = with(|hef| {
        for (end, rows) in [("cache_in0", 11), ("cache_out0", 5)] {
            hef.groups[0].edge(&format!("small_prefill/{end}")).shape[1] = rows;
        }
    });
    only(&shifted, id, "5 entries are written for 4 tokens");
}

#[test]
fn layout() {
    let id = CheckId::CacheLayout;
    expect(&with(|_| ()), id, State::Pass, "FCR, tokens along the width");
    only(
        &caches(1, "cache_in3", |edge| edge.format = 1),
        id,
        "cache 3: FCR, tokens along the width in group `base_model__prefill`",
    );
    only(
        &caches(1, "cache_in3", |edge| edge.shape.swap(0, 1)),
        id,
        "tokens along the height in group `base_model__tbt`",
    );
    let all_tall = with(|hef| {
        for group in &mut hef.groups {
            group.edges().filter(|edge| edge.connection == 3).for_each(|edge| edge.shape.swap(0, 1));
        }
    });
    expect(&all_tall, id, State::Pass, "tokens along the height");
}

#[test]
fn quantisation() {
    let id = CheckId::CacheQuantisation;
    let quantised = |change: fn(&mut Hef)| {
        let mut hef = Llm::default().hef();
        for group in &mut hef.groups {
            group.edges().filter(|edge| edge.connection == 3).for_each(|edge| edge.quantisation = Some((0.5, 7.0)));
        }
        change(&mut hef);
        hef
    };
    expect(&with(|_| ()), id, State::NotApplicable, "does not say");
    expect(&quantised(|_| ()), id, State::Pass, "the same scale and zero point");
    let scale = quantised(|hef| hef.groups[1].edge("small_tbt/cache_in1").quantisation = Some((0.25, 7.0)));
    only(&scale, id, "cache 1: scale 0.5, zero point 7 in group `base_model__prefill`");
    let zero_point = quantised(|hef| hef.groups[0].edge("small_prefill/cache_out1").quantisation = Some((0.5, 8.0)));
    only(&zero_point, id, "edge `small_prefill/cache_out1`");
    let half = quantised(|hef| hef.groups[0].edge("small_prefill/cache_out1").quantisation = None);
    expect(&half, id, State::Unknown, "15 of 16 edges");
}
