//! Which files of a folder hold its weights, and whether all of them are there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use super::{header::MAX_HEADER_BYTES, read_bounded};
use crate::{CheckpointError, config::object};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The safetensors files of a folder.
pub(super) struct Found {
    /// File names, in name order.
    pub(super) shards: Vec<String>,
    /// What the index says, if there is one: tensor → file name.
    pub(super) index: Option<BTreeMap<String, String>>,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
}

/// `model.safetensors`, or what the index names, or without an index a complete family `model-00001-of-0000N.safetensors`.
pub(super) fn find(folder: &Path) -> Result<Found, CheckpointError> {
    let on_disk = safetensors_files(folder)?;
    let (shards, index) = if folder.join(SINGLE).exists() {
        (vec![SINGLE.to_owned()], None)
    } else if folder.join(INDEX).exists() {
        let index = read_index(folder)?;
        (named_shards(folder, &index)?, Some(index))
    } else {
        (family_on_disk(folder, &on_disk)?, None)
    };
    let extra = on_disk.iter().filter(|name| !shards.contains(name));
    let warnings = extra
        .map(|name| {
            format!("{}: {name} is in the folder, but no part of the checkpoint; it is not read", folder.display())
        })
        .collect();
    Ok(Found { shards, index, warnings })
}

/// Refuses index and shards that do not agree on every tensor.
pub(super) fn check_index(
    folder: &Path,
    index: &BTreeMap<String, String>,
    held: &BTreeMap<&str, &str>,
) -> Result<(), CheckpointError> {
    for (tensor, shard) in index {
        let found = held.get(tensor.as_str()).copied();
        if found != Some(shard) {
            let found = found.unwrap_or("no shard");
            return Err(wrong_index(
                folder,
                format!(
                    "puts tensor `{tensor}` in {shard}, found in {found}; index and shards are of different downloads"
                ),
            ));
        }
    }
    match held.keys().find(|tensor| !index.contains_key(**tensor)) {
        None => Ok(()),
        Some(tensor) => Err(wrong_index(
            folder,
            format!("does not list tensor `{tensor}` of a shard; index and shards are of different downloads"),
        )),
    }
}

fn wrong_index(folder: &Path, reason: String) -> CheckpointError {
    CheckpointError::File { file: folder.join(INDEX).display().to_string(), reason }
}

fn safetensors_files(folder: &Path) -> Result<BTreeSet<String>, CheckpointError> {
    let io =
        |source| CheckpointError::Io { path: folder.to_owned(), source, remedy: "check that it is a readable folder" };
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".safetensors") {
            names.insert(name);
        }
    }
    Ok(names)
}

fn read_index(folder: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    let path = folder.join(INDEX);
    let text = read_bounded(&path, MAX_HEADER_BYTES)?;
    let Some(Value::Object(map)) = object(&text, &path.display().to_string())?.remove("weight_map") else {
        return Err(wrong_index(folder, "no `weight_map` object in it; download the file again".into()));
    };
    let mut named = BTreeMap::new();
    for (tensor, shard) in map {
        let plain = shard.as_str().filter(|name| !name.is_empty() && !name.contains(['/', '\\']) && *name != "..");
        let Some(shard) = plain else {
            let reason = format!("`weight_map.{tensor}` is {shard}, expected a file name inside the folder");
            return Err(wrong_index(folder, reason));
        };
        named.insert(tensor, shard.to_owned());
    }
    Ok(named)
}

fn named_shards(folder: &Path, index: &BTreeMap<String, String>) -> Result<Vec<String>, CheckpointError> {
    let shards: BTreeSet<_> = index.values().cloned().collect();
    if let Some(shard) = shards.iter().find(|shard| !folder.join(shard).exists()) {
        return Err(wrong_index(folder, format!("names the shard {shard}, which is not in the folder; download it")));
    }
    match absent_member(&shards) {
        None => Ok(shards.into_iter().collect()),
        Some(absent) => Err(wrong_index(
            folder,
            format!("names a numbered family of shards without {absent}; download the index again"),
        )),
    }
}

fn family_on_disk(folder: &Path, on_disk: &BTreeSet<String>) -> Result<Vec<String>, CheckpointError> {
    let family: BTreeSet<_> =
        on_disk.iter().filter(|name| member(name).is_some_and(|m| m.0 == "model")).cloned().collect();
    if family.is_empty() {
        return Err(CheckpointError::Incomplete { path: folder.to_owned(), missing: SINGLE });
    }
    match absent_member(&family) {
        None => Ok(family.into_iter().collect()),
        Some(absent) => Err(CheckpointError::File {
            file: folder.display().to_string(),
            reason: format!("there is no {INDEX}, and the numbered shards lack {absent}; download what is missing"),
        }),
    }
}

/// `model-00002-of-00003.safetensors` → (`model`, 2, 3).
fn member(name: &str) -> Option<(&str, u32, u32)> {
    let stem = name.strip_suffix(".safetensors")?;
    let (stem, count) = stem.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let parsed = |digits: &str| if digits.len() == 5 { digits.parse::<u32>().ok() } else { None };
    Some((stem, parsed(number)?, parsed(count)?))
}

/// The first member that a numbered family among `names` lacks.
fn absent_member(names: &BTreeSet<String>) -> Option<String> {
    names.iter().filter_map(|name| member(name)).find_map(|(stem, _, count)| {
        (1..=count)
            .map(|number| format!("{stem}-{number:05}-of-{count:05}.safetensors"))
            .find(|expected| !names.contains(expected))
    })
}
