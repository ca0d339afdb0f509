//! Reference traces kept for the next run on the same inputs.
//!
//! A reference is a function of the weights, config, tokens, scopes, sites and the engine, so a key over these finds it
//! again. Entries are shared with run folders by hard links where the file system can, so that keeping them costs nothing
//! while the run is kept.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use fidelity_references::ENGINE_VERSION;
use fidelity_trace::{Manifest, Status, Trace, hex, write_atomically};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::error::CliError;

/// What the cache may hold; the entries used longest ago go first.
const MAX_BYTES: u64 = 10 << 30;

/// A kept reference.
pub(crate) struct Entry {
    pub(crate) folder: PathBuf,
    pub(crate) checkpoint: String,
    pub(crate) prompts: usize,
    pub(crate) size_bytes: u64,
    pub(crate) used: SystemTime,
}

/// `$FIDELITY_CACHE`, else `fidelity` in the user's cache folder; nowhere when there is neither.
pub(crate) fn folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let root = set("FIDELITY_CACHE").or_else(|| Some(user()?.join("fidelity")))?;
    Some(root.join("references"))
}

/// The entry's folder for a reference with this manifest.
pub(crate) fn place(manifest: &Manifest) -> Option<PathBuf> {
    let prompts: Vec<_> = manifest.prompts.iter().map(|prompt| (&prompt.id, &prompt.text, &prompt.token_ids)).collect();
    let identity = json!({
        "engine": ENGINE_VERSION,
        "arm": manifest.arm,
        "checkpoint": manifest.checkpoint,
        "settings": manifest.other,
        "prompts": prompts,
    });
    Some(folder()?.join(hex(&Sha256::digest(identity.to_string()))))
}

/// Lays a kept trace into `target`, if there is a whole one. An entry that is not is deleted and counts as none.
pub(crate) fn restore(place: &Path, target: &Path) -> Option<Trace> {
    if !place.exists() || target.join("trace.json").exists() {
        return None;
    }
    let readable = |trace: &Trace| (0..trace.manifest().prompts.len()).all(|index| trace.prompt(index).is_ok());
    // The manifest carries no hash of its own, but it is what the key is made of.
    let own = |trace: &Trace| self::place(trace.manifest()).is_some_and(|own| own == place);
    let Some(kept) = Trace::open(place).ok().filter(whole).filter(own).filter(readable) else {
        let _ = fs::remove_dir_all(place);
        return None;
    };
    lay(place, target, kept.manifest()).ok()?;
    touch(place);
    Trace::open(target).ok()
}

/// Keeps a whole trace. The cache is a convenience: what fails here fails nothing else.
pub(crate) fn keep(place: &Path, trace: &Trace, source: &Path) {
    if !whole(trace) || place.exists() {
        return;
    }
    let Some(parent) = place.parent() else { return };
    let making = || -> io::Result<()> {
        fs::create_dir_all(parent)?;
        let making = tempfile::Builder::new().prefix(".making-").tempdir_in(parent)?;
        lay(source, making.path(), trace.manifest())?;
        fs::rename(making.path(), place)
    };
    if making().is_ok() {
        shrink(parent);
    }
}

fn whole(trace: &Trace) -> bool {
    let manifest = trace.manifest();
    manifest.complete && manifest.prompts.iter().all(|prompt| prompt.status == Status::Ok)
}

/// The files of a trace in another folder; the manifest last, so that a half copy is no trace. What stands there already is
/// removed first: it may be a link to the source, which a copy onto it would destroy.
fn lay(from: &Path, to: &Path, manifest: &Manifest) -> io::Result<()> {
    fs::create_dir_all(to.join("prompts"))?;
    for file in manifest.prompts.iter().map(|prompt| prompt.file.as_str()) {
        let (source, target) = (from.join(file), to.join(file));
        match fs::remove_file(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    write_atomically(&to.join("trace.json"), &fs::read(from.join("trace.json"))?)
}

fn touch(place: &Path) {
    if let Ok(folder) = fs::File::open(place) {
        let _ = folder.set_modified(SystemTime::now());
    }
}

/// Every entry, the one used last first.
pub(crate) fn entries(folder: &Path) -> Vec<Entry> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries: Vec<Entry> = found.filter_map(|path| entry(&path)).collect();
    entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.folder.cmp(&b.folder)));
    entries
}

fn entry(path: &Path) -> Option<Entry> {
    let used = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    let manifest = Trace::open(path).ok()?.into_manifest();
    let sizes = manifest.prompts.iter().filter_map(|prompt| fs::metadata(path.join(&prompt.file)).ok());
    Some(Entry {
        folder: path.to_owned(),
        size_bytes: sizes.map(|metadata| metadata.len()).sum(),
        prompts: manifest.prompts.len(),
        checkpoint: manifest.checkpoint.name,
        used,
    })
}

fn shrink(folder: &Path) {
    let mut total = 0;
    for entry in entries(folder) {
        total += entry.size_bytes;
        if total > MAX_BYTES {
            let _ = fs::remove_dir_all(&entry.folder);
        }
    }
}

/// Deletes the entries that were not used since `before`.
pub(crate) fn prune(folder: &Path, before: SystemTime) -> Result<Vec<Entry>, CliError> {
    let old: Vec<Entry> = entries(folder).into_iter().filter(|entry| entry.used <= before).collect();
    for entry in &old {
        let failed = |source| CliError::Io { action: "delete", path: entry.folder.clone(), source };
        fs::remove_dir_all(&entry.folder).map_err(failed)?;
    }
    Ok(old)
}
