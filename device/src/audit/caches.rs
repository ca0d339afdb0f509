//! Caches: what one context writes another reads, and prefill and tbt share.

use std::collections::{BTreeMap, BTreeSet};

use crate::hef::{CacheEdge, Description, Direction, Group, Quantisation, quoted};

use super::{
    check::{Outcome, fail, not_applicable, pass, unknown},
    model::Model,
};

const NO_CACHE: &str = "no context reads or writes a cache";

/// The read and the written edge of a cache.
type Pair<'a> = (&'a CacheEdge, &'a CacheEdge);

/// The edges of a group by id, or what is wrong with them.
fn pairs(group: &Group) -> Result<BTreeMap<i32, Pair<'_>>, String> {
    let mut read = BTreeMap::new();
    let mut written = BTreeMap::new();
    for edge in &group.cache_edges {
        let (side, verb) = match edge.stream.direction {
            Direction::In => (&mut read, "read"),
            Direction::Out => (&mut written, "written"),
        };
        if side.insert(edge.cache_id, edge).is_some() {
            return Err(format!("cache {} is {verb} more than once", edge.cache_id));
        }
    }
    let lone = |one: &BTreeMap<i32, &CacheEdge>, other: &BTreeMap<i32, &CacheEdge>| {
        one.keys().find(|id| !other.contains_key(id)).copied()
    };
    if let Some(id) = lone(&read, &written) {
        return Err(format!("cache {id} is read but never written"));
    }
    if let Some(id) = lone(&written, &read) {
        return Err(format!("cache {id} is written but never read"));
    }
    Ok(read.into_iter().map(|(id, edge)| (id, (edge, written[&id]))).collect())
}

/// A group and its caches by id.
type Caches<'a> = (&'a Group, BTreeMap<i32, Pair<'a>>);

/// The caches of every group that has some.
fn all(description: &Description) -> Result<Vec<Caches<'_>>, String> {
    let groups = description.groups.iter().filter(|group| !group.cache_edges.is_empty());
    groups
        .map(|group| Ok((group, pairs(group).map_err(|wrong| format!("group {}: {wrong}", quoted(&group.name)))?)))
        .collect()
}

pub(super) fn cache_pairs(model: &Model<'_>) -> Outcome {
    let groups = match all(model.description) {
        Ok(groups) => groups,
        Err(wrong) => return fail(wrong),
    };
    let Some((first, caches)) = groups.first() else {
        return match model.prefill {
            Some(_) => fail("no context reads or writes a cache: every token would be computed without its past"),
            None => not_applicable(NO_CACHE),
        };
    };
    if let Some(id) = caches.keys().find(|id| **id < 0) {
        return fail(format!("cache id {id} is below 0"));
    }
    if let Some((group, _)) = groups.iter().find(|(group, _)| group.contexts < 2) {
        return fail(format!("group {} has one context; caches need more (INVALID_ARGUMENT)", quoted(&group.name)));
    }
    let without = model.parts().find(|part| part.group.cache_edges.is_empty());
    if let Some(part) = without {
        return fail(format!("{} has no cache, but group {} has", part.role, quoted(&first.name)));
    }
    let ids: BTreeSet<_> = caches.keys().collect();
    let other = groups.iter().find(|(_, caches)| caches.keys().collect::<BTreeSet<_>>() != ids);
    if let Some((group, caches)) = other {
        let (count, other) = (ids.len(), caches.len());
        let lone = caches
            .keys()
            .find(|id| !ids.contains(id))
            .or_else(|| ids.iter().copied().find(|id| !caches.contains_key(id)));
        return fail(format!(
            "group {} has {count} caches, group {} {other}; id {} is in one of them only",
            quoted(&first.name),
            quoted(&group.name),
            lone.copied().unwrap_or_default()
        ));
    }
    pass(format!("{} caches, each read once and written once in each of {} groups", ids.len(), groups.len()))
}

/// Every pair of every group, or the outcome when there is nothing to look at.
fn every<'a>(model: &'a Model<'a>) -> Result<Vec<(&'a Group, i32, Pair<'a>)>, Outcome> {
    let groups = all(model.description).map_err(|_| unknown("the caches are not in pairs"))?;
    let every: Vec<_> = groups
        .into_iter()
        .flat_map(|(group, caches)| caches.into_iter().map(move |(id, pair)| (group, id, pair)))
        .collect();
    if every.is_empty() { Err(not_applicable(NO_CACHE)) } else { Ok(every) }
}

fn entry(edge: &CacheEdge) -> u64 {
    edge.stream.padded_shape[2]
}

pub(super) fn cache_entries(model: &Model<'_>) -> Outcome {
    let every = match every(model) {
        Ok(every) => every,
        Err(outcome) => return outcome,
    };
    let mut entries: BTreeMap<i32, u64> = BTreeMap::new();
    for (group, id, (read, written)) in &every {
        let place = format!("group {}, cache {id}", quoted(&group.name));
        if let Some(edge) = [read, written].into_iter().find(|edge| edge.stream.data_bytes != 1) {
            return fail(format!(
                "{place}: values of {} bytes, but HailoRT sizes caches for 1",
                edge.stream.data_bytes
            ));
        }
        let (one, other) = (entry(read), entry(written));
        if one != other {
            return fail(format!("{place}: an entry is read with {one} values and written with {other}"));
        }
        let known = *entries.entry(*id).or_insert(one);
        if known != one {
            return fail(format!("{place}: an entry has {one} values, but {known} in another group"));
        }
    }
    let width = model.head_dim().map(|head_dim| head_dim.saturating_mul(model.parameters.kv_heads.value));
    let sizes: BTreeSet<_> = entries.values().copied().collect();
    let told = sizes.iter().take(4).map(u64::to_string).collect::<Vec<_>>().join(", ");
    // A cache holds a token's K or V, of all key heads or of some.
    let uneven = |size: &&u64| width.is_some_and(|width| **size == 0 || width % **size != 0);
    match sizes.iter().find(uneven) {
        Some(size) => fail(format!(
            "an entry of {size} values is no even part of head_dim x {} = {}",
            model.parameters.kv_heads,
            width.unwrap_or_default()
        )),
        None => pass(format!("entries of {told} values of 1 byte")),
    }
}

pub(super) fn cache_length(model: &Model<'_>) -> Outcome {
    let every = match every(model) {
        Ok(every) => every,
        Err(outcome) => return outcome,
    };
    let expected = model.parameters.kv_cache_size;
    let mut told = BTreeMap::new();
    for (group, id, (read, written)) in &every {
        let place = format!("group {}, cache {id}", quoted(&group.name));
        let rows = |edge: &CacheEdge| edge.stream.padded_shape[0].checked_mul(edge.stream.padded_shape[1]);
        let (Some(before), Some(fresh)) = (rows(read), rows(written)) else {
            return fail(format!("{place}: 64 bits do not hold its length"));
        };
        if before.checked_add(fresh) != Some(expected.value) {
            return fail(format!("{place}: {before} tokens read + {fresh} written, expected {expected} together"));
        }
        if let Some(part) = model.parts().find(|part| part.group.name == group.name) {
            let rows = model.rows(part);
            if fresh != rows {
                return fail(format!(
                    "{place}: {fresh} entries are written for {rows} tokens; one entry a token is the only layout that both groups \
                     can share"
                ));
            }
        }
        told.insert(&group.name, format!("{before} + {fresh}"));
    }
    let told = told.into_iter().take(4).map(|(name, length)| format!("{} {length}", quoted(name)));
    pass(format!("{} tokens ({expected})", told.collect::<Vec<_>>().join(", ")))
}

/// A property that edges of one id must share, within and across groups.
fn shared<'a>(
    model: &'a Model<'a>,
    same: impl Fn(&CacheEdge, &CacheEdge) -> bool,
    told: impl Fn(&CacheEdge) -> String,
) -> Result<Vec<&'a CacheEdge>, Outcome> {
    let mut known: BTreeMap<i32, (&Group, &CacheEdge)> = BTreeMap::new();
    let mut edges = Vec::new();
    for (group, id, (read, written)) in every(model)? {
        for edge in [read, written] {
            let (before, other) = *known.entry(id).or_insert((group, edge));
            if !same(edge, other) {
                return Err(fail(format!(
                    "cache {id}: {} in group {}, edge {}; {} in group {}, edge {}",
                    told(other),
                    quoted(&before.name),
                    quoted(&other.stream.name),
                    told(edge),
                    quoted(&group.name),
                    quoted(&edge.stream.name)
                )));
            }
            edges.push(edge);
        }
    }
    Ok(edges)
}

/// Which of height and width counts tokens; a single token is along either.
fn axis(edge: &CacheEdge) -> Option<&'static str> {
    match edge.stream.padded_shape {
        [1, 1, _] => None,
        [1, ..] => Some("tokens along the width"),
        [_, 1, _] => Some("tokens along the height"),
        _ => Some("tokens over height and width"),
    }
}

pub(super) fn cache_layout(model: &Model<'_>) -> Outcome {
    let same = |one: &CacheEdge, other: &CacheEdge| {
        let axes = axis(one).zip(axis(other)).is_none_or(|(one, other)| one == other);
        let (one, other) = (&one.stream, &other.stream);
        axes && one.layout.format == other.layout.format && one.transposed == other.transposed
    };
    let told = |edge: &CacheEdge| {
        let layout = &edge.stream.layout;
        let order = layout.device.map_or_else(|| format!("format {}", layout.format), ToOwned::to_owned);
        let transposed = if edge.stream.transposed { ", transposed" } else { "" };
        format!("{order}, {}{transposed}", axis(edge).unwrap_or("one token"))
    };
    match shared(model, same, told) {
        Ok(edges) => pass(format!("every edge of a cache has the same, as {}", told(edges[0]))),
        Err(outcome) => outcome,
    }
}

pub(super) fn cache_quantisation(model: &Model<'_>) -> Outcome {
    let same = |one: &CacheEdge, other: &CacheEdge| match (stated(one), stated(other)) {
        (Some(one), Some(other)) => one.equals(other),
        _ => true,
    };
    let told = |edge: &CacheEdge| stated(edge).map_or_else(|| "none stated".into(), super::inputs::told);
    match shared(model, same, told) {
        Ok(edges) => match edges.iter().filter(|edge| stated(edge).is_some()).count() {
            0 => not_applicable("the file does not say how caches are quantised"),
            some if some < edges.len() => {
                unknown(format!("{some} of {} edges say how they are quantised", edges.len()))
            }
            _ => pass("wherever a cache is read or written it has the same scale and zero point"),
        },
        Err(outcome) => outcome,
    }
}

/// Quantisation with a scale: caches are moved, not converted, so that the file may leave it 0.
fn stated(edge: &CacheEdge) -> Option<&Quantisation> {
    edge.stream.quantisation.as_ref().filter(|numbers| numbers.scales().any(|scale| scale > 0.0))
}
