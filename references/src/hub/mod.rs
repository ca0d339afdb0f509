//! Checkpoints from the Hugging Face Hub, through the cache that Python's `huggingface_hub` keeps.
//!
//! A revision is resolved to a commit first, and the commit is what is fetched and recorded. Nothing that is not whole gets a name
//! in the cache. Which files make a checkpoint is said here and nowhere else.

mod cache;
mod client;
mod download;
mod error;
mod refusal;
mod settings;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use cache::{Known, RepositoryCache, is_plain_name};
use client::{Client, Found};
use download::Download;
pub use error::HubError;
pub use settings::HubSettings;

use crate::{config, pooling, weights::read_bounded};

const CONFIG: &str = "config.json";
/// What a checkpoint may do without.
const OPTIONAL: [&str; 3] = ["generation_config.json", "tokenizer.json", "tokenizer_config.json"];
/// What an encoder may do without: it names the modules that stand on it.
const MODULES: &str = "modules.json";
const MAX_CONFIG_BYTES: u64 = 8 << 20;
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const MAX_INDEX_BYTES: u64 = 100_000_000;

/// A checkpoint's files of one commit, all in one folder of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The folder `models--OWNER--NAME/snapshots/COMMIT`.
    pub folder: PathBuf,
    /// What the revision resolved to.
    pub commit: String,
    /// Why this may not be what the Hub holds: it could not be asked, or the cache does not know of every file. Not to be hidden
    /// from a person.
    pub warning: Option<String>,
}

/// Gets a checkpoint: config.json, safetensors, and the tokenizer, generation and pooling files that it has.
///
/// `progress` is called with a line for each thing that takes a while. A full commit whose files are all in the cache needs no
/// network; a branch or tag is resolved anew, unless offline. When the Hub cannot be asked and the cache holds the revision, the
/// cache is used and [`Snapshot::warning`] says so.
///
/// # Errors
/// Each variant of [`HubError`] says what happened and what to do.
pub fn fetch(
    repository: &str,
    revision: &str,
    settings: &HubSettings,
    progress: &dyn Fn(&str),
) -> Result<Snapshot, HubError> {
    check_names(repository, revision)?;
    let cache = RepositoryCache::new(&settings.cache, repository)?;
    if settings.offline {
        return cached(&cache, revision)?.map_err(|missing| HubError::Offline {
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            missing,
            cache: cache.root().to_owned(),
        });
    }
    if cache::is_commit(revision) && matches!(inventory(&cache, revision)?, (None, unknown) if unknown.is_empty()) {
        return Ok(Snapshot { folder: cache.snapshot(revision), commit: revision.to_owned(), warning: None });
    }
    let client = Client::new(repository, settings)?;
    match client.revision(revision) {
        Ok((commit, name)) => {
            if let Some(name) = name.filter(|name| name != repository) {
                progress(&format!("{repository} is called {name} today"));
            }
            download(&client, &cache, &commit, progress)?;
            cache.write_ref(revision, &commit)?;
            Ok(Snapshot { folder: cache.snapshot(&commit), commit, warning: None })
        }
        Err(outage) if outage.is_outage() => match cached(&cache, revision)? {
            Ok(snapshot) => {
                let commit = &snapshot.commit;
                let warning =
                    format!("{outage}. Going on with {repository} at {commit} from the cache, which may be older");
                Ok(Snapshot { warning: Some(warning), ..snapshot })
            }
            Err(_) => Err(outage),
        },
        Err(error) => Err(error),
    }
}

fn check_names(repository: &str, revision: &str) -> Result<(), HubError> {
    let wrong = |what, found: &str, expected| Err(HubError::Name { what, found: found.to_owned(), expected });
    let parts: Vec<_> = repository.split('/').collect();
    if parts.len() > 2 || !parts.iter().all(|part| is_plain_name(part)) {
        return wrong("repository", repository, "OWNER/NAME of letters, digits, `-`, `_` and `.`");
    }
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', ':']);
    if !revision.split('/').all(part) || revision.contains(char::is_control) {
        return wrong("revision", revision, "a branch, a tag or a commit");
    }
    Ok(())
}

/// The snapshot of the cache alone, or what it lacks.
fn cached(cache: &RepositoryCache, revision: &str) -> Result<Result<Snapshot, String>, HubError> {
    let commit = match cache.commit(revision) {
        Ok(commit) => commit,
        Err(missing) => return Ok(Err(missing)),
    };
    let (missing, unknown) = inventory(cache, &commit)?;
    if let Some(file) = missing {
        return Ok(Err(cache.describe_missing(&commit, &file)));
    }
    let warning = (!unknown.is_empty()).then(|| {
        let unknown = unknown.join(", ");
        format!(
            "the cache does not say whether commit {commit} has {unknown}; going on without. Run once online to know"
        )
    });
    Ok(Ok(Snapshot { folder: cache.snapshot(&commit), commit, warning }))
}

/// What of a commit the cache lacks, and of which optional files it does not know whether they exist.
fn inventory(cache: &RepositoryCache, commit: &str) -> Result<(Option<String>, Vec<String>), HubError> {
    let there = |file: &str| Ok(cache.known(commit, file) == Known::There);
    let missing = visit(&cache.snapshot(commit), "the cache", &there)?;
    let folder = cache.snapshot(commit);
    let optional = OPTIONAL.into_iter().map(str::to_owned).chain(of_encoder(&folder)).chain(of_modules(&folder));
    let unknown = optional.filter(|file| cache.known(commit, file) == Known::Nothing);
    Ok((missing, unknown.collect()))
}

fn download(
    client: &Client<'_>,
    cache: &RepositoryCache,
    commit: &str,
    progress: &dyn Fn(&str),
) -> Result<(), HubError> {
    let page = client.page();
    let get = |file: &str| download_file(client, cache, commit, file, progress);
    match visit(&cache.snapshot(commit), &page, &get)? {
        Some(file) => Err(HubError::NoFile { page, commit: commit.to_owned(), file }),
        None => Ok(()),
    }
}

fn download_file(
    client: &Client<'_>,
    cache: &RepositoryCache,
    commit: &str,
    file: &str,
    progress: &dyn Fn(&str),
) -> Result<bool, HubError> {
    match cache.known(commit, file) {
        Known::There => return Ok(true),
        Known::Absent => return Ok(false),
        Known::Nothing => {}
    }
    let remote = match client.remote(commit, file)? {
        Found::There(remote) => remote,
        Found::Absent { for_sure } => {
            if for_sure {
                cache.mark_absent(commit, file);
            }
            return Ok(false);
        }
    };
    if let Some(size) = remote.size {
        progress(&format!("{file}: {}", download::amount(size, None)));
    }
    let blob = cache.blob(&remote.etag);
    let download = Download { client, commit, file, remote: &remote, blob, progress };
    download::into_cache(&download, cache)?;
    cache.link(commit, file, &remote.etag)?;
    Ok(true)
}

/// Visits the files of a checkpoint in an order that fails early; `get` says whether a file is there. Returns the first file that
/// is not and must be.
fn visit(folder: &Path, page: &str, get: &dyn Fn(&str) -> Result<bool, HubError>) -> Result<Option<String>, HubError> {
    if !get(CONFIG)? {
        return Ok(Some(CONFIG.to_owned()));
    }
    for file in OPTIONAL {
        get(file)?;
    }
    // The one names the others, so it must be there first.
    if let Some(file) = of_encoder(folder) {
        get(&file)?;
    }
    for file in of_modules(folder) {
        get(&file)?;
    }
    if get(WEIGHTS)? {
        return Ok(None);
    }
    if !get(INDEX)? {
        return Ok(Some(WEIGHTS.to_owned()));
    }
    for shard in shards(&folder.join(INDEX), page)? {
        if !get(&shard)? {
            return Ok(Some(shard));
        }
    }
    Ok(None)
}

fn of_encoder(folder: &Path) -> Option<String> {
    let config = read_bounded(&folder.join(CONFIG), MAX_CONFIG_BYTES).ok()?;
    config::is_encoder(&config).then(|| MODULES.to_owned())
}

/// The files of the modules that an encoder's modules.json names. Names that are not plain are left to be refused by name.
fn of_modules(folder: &Path) -> Vec<String> {
    let folders = of_encoder(folder).map_or_else(Vec::new, |modules| pooling::module_folders(&folder.join(modules)));
    folders.into_iter().filter(|path| is_plain_name(path)).map(|path| format!("{path}/config.json")).collect()
}

/// The files that an index names. They come from outside and become file names, so anything but a plain name is refused.
fn shards(index: &Path, page: &str) -> Result<BTreeSet<String>, HubError> {
    let wrong = |reason: String| HubError::Index { page: page.to_owned(), reason };
    let bytes = read_bounded(index, MAX_INDEX_BYTES).map_err(|error| wrong(error.to_string()))?;
    let index: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| wrong(format!("no JSON: {error}")))?;
    let Some(map) = index["weight_map"].as_object() else {
        return Err(wrong("no `weight_map` object in it".into()));
    };
    let plain = |(tensor, shard): (&String, &serde_json::Value)| match shard.as_str() {
        Some(name) if is_plain_name(name) && name.ends_with(".safetensors") => Ok(name.to_owned()),
        _ => Err(wrong(format!("`weight_map.{tensor}` is {shard}, expected the plain name of a .safetensors file"))),
    };
    map.iter().map(plain).collect()
}
