//! The traces of several shards as the one trace that an unsplit run would have written.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use fidelity_trace::{Manifest, PromptRecord, Trace};
use serde_json::Value;

use crate::{
    arms,
    error::CliError,
    resources,
    shard::{Shard, digest},
};

/// The ids an arm was fed, as its manifest has them.
const FED: &str = "continuations_sha256";

/// A shard and its folder.
pub(crate) type Part = (PathBuf, Shard);

/// Joins the traces called `name` of the shards into `out`. The prompts come in the order that they were split from.
pub(crate) fn join(name: &str, parts: &[Part], out: &Path) -> Result<Trace, CliError> {
    let target = out.join(name);
    if target.join("trace.json").exists() {
        return Err(CliError::NotEmpty { folder: target });
    }
    let io = |action, path: &Path, source| CliError::Io { action, path: path.to_owned(), source };
    let prompts = target.join("prompts");
    fs::create_dir_all(&prompts).map_err(|source| io("create", &prompts, source))?;
    let mut joined: Option<(PathBuf, Manifest)> = None;
    let mut placed: Vec<(usize, PromptRecord)> = Vec::new();
    let mut files = BTreeSet::new();
    for (folder, shard) in parts.iter().filter(|(_, shard)| shard.own() > 0) {
        let folder = folder.join(name);
        let mut manifest = Trace::open(&folder)?.into_manifest();
        check(&folder, &manifest, shard)?;
        for (own, record) in manifest.prompts.drain(..).enumerate() {
            let (from, to) = (folder.join(&record.file), target.join(&record.file));
            if !files.insert(record.file.clone()) {
                let reason = format!("{} is a file of another shard as well", record.file);
                return Err(CliError::UnfitTrace { trace: folder, reason });
            }
            if from.exists() {
                let lay = || fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(|_| ()));
                to.parent()
                    .map_or(Ok(()), fs::create_dir_all)
                    .and_then(|()| lay())
                    .map_err(|source| io("write", &to, source))?;
            }
            placed.push((shard.shard.place(own), record));
        }
        match &mut joined {
            None => joined = Some((folder, manifest)),
            Some((first, whole)) => take(whole, manifest, first, &folder)?,
        }
    }
    let Some((folder, mut manifest)) = joined else {
        return Err(CliError::NoShard { folder: out.to_owned(), reason: "no shard has a prompt".to_owned() });
    };
    placed.sort_by_key(|(place, _)| *place);
    manifest.prompts = placed.into_iter().map(|(_, record)| record).collect();
    if digest(&manifest.prompts) != parts[0].1.prompts_sha256 {
        let reason = "the shards together are not the prompts that were split".to_owned();
        return Err(CliError::UnfitTrace { trace: folder, reason });
    }
    if let Some(fed) = manifest.other.get_mut(FED) {
        *fed = Value::from(arms::digest(&continuations(parts)));
    }
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
    resources::write(&target.join("trace.json"), text)?;
    Ok(Trace::open(&target)?)
}

/// The ids that were fed, by prompt.
pub(crate) fn continuations(parts: &[Part]) -> Vec<Vec<u32>> {
    let placed = parts.iter().flat_map(|(_, shard)| {
        shard.told.continuations.iter().enumerate().map(|(own, ids)| (shard.shard.place(own), ids))
    });
    let mut placed: Vec<_> = placed.collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, ids)| ids.clone()).collect()
}

/// A shard's trace must be what its shard.json says.
fn check(folder: &Path, manifest: &Manifest, shard: &Shard) -> Result<(), CliError> {
    let unfit = |reason: String| CliError::UnfitTrace { trace: folder.to_owned(), reason };
    if manifest.prompts.len() != shard.own() {
        let (found, of) = (manifest.prompts.len(), shard.shard);
        return Err(unfit(format!("{found} prompts, but shard {of} of {} has {}", shard.prompts, shard.own())));
    }
    if !manifest.complete {
        return Err(unfit("its recording was cut short; go on with it by --resume".to_owned()));
    }
    let fed = arms::digest(&shard.told.continuations);
    match manifest.other.get(FED) {
        Some(own) if own.as_str() != Some(&fed) => {
            Err(unfit("it was fed other ids than its shard.json says".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Takes what a further shard adds to the manifest; everything else must be the same.
fn take(whole: &mut Manifest, part: Manifest, first: &Path, folder: &Path) -> Result<(), CliError> {
    let settings = |manifest: &Manifest| {
        let mut other = manifest.other.clone();
        other.remove(FED);
        other
    };
    let differing = [
        ("checkpoint, weights or config", whole.checkpoint != part.checkpoint),
        ("arm", whole.arm != part.arm || whole.network != part.network),
        ("recipe, calibration or other deviations", whole.deviations != part.deviations),
        ("versions or other facts of the environment", whole.environment != part.environment),
        ("steps of the logit grid", whole.logits_step != part.logits_step),
        ("settings (scopes, taps, new tokens)", settings(whole) != settings(&part)),
    ];
    if let Some((what, _)) = differing.into_iter().find(|(_, differs)| *differs) {
        return Err(CliError::ShardsDiffer { a: first.to_owned(), b: folder.to_owned(), what: what.to_owned() });
    }
    for (site, floor) in part.noise_floor {
        let worst = whole.noise_floor.entry(site).or_insert(0.0);
        *worst = worst.max(floor);
    }
    Ok(())
}
