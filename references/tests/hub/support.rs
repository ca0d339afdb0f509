//! A Hub, a cache of its own, and a checkpoint in it.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
};

use fidelity_references::{HubError, HubSettings, Snapshot, fetch};
use tempfile::TempDir;

use crate::hub_server::{COMMIT, Hub, REPOSITORY, sha256};

/// Stands for weights: long enough to be cut. `fetch` does not look inside.
pub(crate) fn weights() -> Vec<u8> {
    (0..200_000_u32).map(|index| (index * 7 % 251) as u8).collect()
}

pub(crate) struct Bench {
    pub(crate) hub: Hub,
    pub(crate) cache: TempDir,
    pub(crate) said: RefCell<Vec<String>>,
}

impl Bench {
    /// A Hub with config.json, tokenizer.json and weights.
    pub(crate) fn new() -> Self {
        Self::serving(&[
            ("config.json", b"{}", false),
            ("tokenizer.json", b"{\"t\":1}", false),
            ("model.safetensors", &weights(), true),
        ])
    }

    pub(crate) fn serving(files: &[(&str, &[u8], bool)]) -> Self {
        let cache = tempfile::tempdir().expect("a temporary folder");
        Self { hub: Hub::serving(files), cache, said: RefCell::default() }
    }

    pub(crate) fn settings(&self) -> HubSettings {
        HubSettings {
            cache: self.cache.path().to_owned(),
            endpoint: self.hub.endpoint(),
            token: None,
            offline: false,
            certificates: None,
        }
    }

    pub(crate) fn fetch(&self) -> Result<Snapshot, HubError> {
        self.fetch_with("main", &self.settings())
    }

    pub(crate) fn fetch_with(&self, revision: &str, settings: &HubSettings) -> Result<Snapshot, HubError> {
        fetch(REPOSITORY, revision, settings, &|line| self.said.borrow_mut().push(line.to_owned()))
    }

    pub(crate) fn offline(&self, revision: &str) -> Result<Snapshot, HubError> {
        self.hub.take_log();
        let snapshot = self.fetch_with(revision, &HubSettings { offline: true, ..self.settings() });
        assert!(self.hub.take_log().is_empty(), "offline asks nobody");
        snapshot
    }

    /// The message of a fetch that fails, and nothing but whole blobs in the cache.
    pub(crate) fn refusal(&self) -> String {
        let error = self.fetch().expect_err("refused").to_string();
        self.assert_blobs_whole();
        error
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.cache.path().join("models--owner--tiny")
    }

    pub(crate) fn blob(&self) -> PathBuf {
        self.home().join("blobs").join(sha256(&weights()))
    }

    pub(crate) fn incomplete(&self) -> PathBuf {
        self.blob().with_extension("incomplete")
    }

    pub(crate) fn snapshot_file(&self, file: &str) -> PathBuf {
        self.home().join("snapshots").join(COMMIT).join(file)
    }

    /// No blob under its final name differs from what its name says.
    pub(crate) fn assert_blobs_whole(&self) {
        for entry in fs::read_dir(self.home().join("blobs")).into_iter().flatten().flatten() {
            let (path, bytes) = (entry.path(), fs::read(entry.path()).expect("readable"));
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(name.ends_with(".incomplete") || sha256(&bytes).starts_with(&name), "{name} is not whole");
        }
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("inside")).expect("creates");
    fs::write(path, bytes).expect("writes");
}
