//! The folder `models--OWNER--NAME` of the cache, as `huggingface_hub` lays it out:
//! `refs/REVISION` holds a commit, `snapshots/COMMIT/FILE` links to `blobs/ETAG`, `.no_exist/COMMIT/FILE` marks what a commit lacks.
//!
//! Invariant: whatever has a name in `blobs` without the ending `.incomplete` is whole.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use super::HubError;

/// What the cache knows of a file of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    There,
    /// The commit has no such file.
    Absent,
    Nothing,
}

pub(super) struct RepositoryCache {
    root: PathBuf,
    folder: String,
}

impl RepositoryCache {
    pub(super) fn new(root: &Path, repository: &str) -> Result<Self, HubError> {
        let root = std::path::absolute(root).map_err(HubError::io("find", root))?;
        Ok(Self { root, folder: format!("models--{}", repository.replace('/', "--")) })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn home(&self) -> PathBuf {
        self.root.join(&self.folder)
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.home().join("snapshots").join(commit)
    }

    /// The commit that a branch or tag stood at when it was last fetched, or what is missing to know it.
    pub(super) fn commit(&self, revision: &str) -> Result<String, String> {
        if is_commit(revision) {
            return Ok(revision.to_owned());
        }
        if !self.home().is_dir() {
            return Err(format!("there is no {}", self.folder));
        }
        let name = format!("{}/refs/{revision}", self.folder);
        match fs::read_to_string(self.home().join("refs").join(revision)) {
            Ok(text) if is_commit(text.trim()) => Ok(text.trim().to_owned()),
            Ok(text) => Err(format!("{name} holds `{}`, which is no commit,", text.trim())),
            Err(_) => Err(format!("{name}, which says the commit, is absent{}", self.other_commits())),
        }
    }

    /// Which commits could be asked for by their own name.
    fn other_commits(&self) -> String {
        let entries = fs::read_dir(self.home().join("snapshots")).into_iter().flatten().flatten();
        let mut commits: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        commits.retain(|name| is_commit(name));
        commits.sort_unstable();
        match commits.is_empty() {
            true => String::new(),
            false => format!(" (set `revision` to a commit to use one that is there: {})", commits.join(", ")),
        }
    }

    pub(super) fn known(&self, commit: &str, file: &str) -> Known {
        // A link whose blob is gone counts as nothing.
        if self.snapshot(commit).join(file).is_file() {
            Known::There
        } else if self.no_exist(commit, file).exists() {
            Known::Absent
        } else {
            Known::Nothing
        }
    }

    /// Says of a file that is not there whether a link to it is.
    pub(super) fn describe_missing(&self, commit: &str, file: &str) -> String {
        let link = self.snapshot(commit).join(file);
        match fs::read_link(&link) {
            Ok(blob) => format!(
                "{file} of {commit} links to {}, which is not",
                blob.file_name().unwrap_or_default().to_string_lossy()
            ),
            Err(_) => format!("{file} of {commit} is not"),
        }
    }

    fn no_exist(&self, commit: &str, file: &str) -> PathBuf {
        self.home().join(".no_exist").join(commit).join(file)
    }

    /// Remembers that a commit lacks a file. Only saves a question next time, so a cache that cannot be written is no error.
    pub(super) fn mark_absent(&self, commit: &str, file: &str) {
        let path = self.no_exist(commit, file);
        let _ = path.parent().map(fs::create_dir_all);
        let _ = File::create(path);
    }

    /// Remembers what a branch or tag stands at.
    pub(super) fn write_ref(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        if is_commit(revision) || self.commit(revision).as_deref() == Ok(commit) {
            return Ok(());
        }
        let path = self.home().join("refs").join(revision);
        create_parent(&path)?;
        let temporary = temporary(&path);
        fs::write(&temporary, commit).map_err(HubError::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(HubError::io("write", &path))
    }

    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.home().join("blobs").join(etag)
    }

    /// Waits until no other process fetches this content. The lock ends with the file.
    pub(super) fn lock(&self, etag: &str, waiting: &dyn Fn()) -> Result<File, HubError> {
        let path = self.root.join(".locks").join(&self.folder).join(format!("{etag}.lock"));
        create_parent(&path)?;
        let file = File::create(&path).map_err(HubError::io("write", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock().map_err(HubError::io("lock", &path))?;
            }
            // Some network file systems have no locks; the rename at the end is whole all the same.
            Err(TryLockError::Error(_)) => {}
        }
        Ok(file)
    }

    /// Gives a blob its name in a snapshot.
    pub(super) fn link(&self, commit: &str, file: &str, etag: &str) -> Result<(), HubError> {
        let name = self.snapshot(commit).join(file);
        create_parent(&name)?;
        let temporary = temporary(&name);
        let up = "../".repeat(1 + Path::new(file).components().count());
        let target = Path::new(&up).join("blobs").join(etag);
        // Without symbolic links the blob itself takes the name, as `huggingface_hub` does.
        if symlink(&target, &temporary).is_err() {
            fs::rename(self.blob(etag), &temporary).map_err(HubError::io("link", &name))?;
        }
        fs::rename(&temporary, &name).map_err(HubError::io("link", &name))
    }
}

pub(super) fn create_parent(path: &Path) -> Result<(), HubError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(HubError::io("create", parent))
}

/// A name beside `path` that no other thread or process uses.
fn temporary(path: &Path) -> PathBuf {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = TAKEN.fetch_add(1, Ordering::Relaxed);
    let path = path.with_file_name(format!(".{name}.{}.{number}.tmp", process::id()));
    // A process of this id may have been killed with it.
    let _ = fs::remove_file(&path);
    path
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A full commit: 40 hex digits.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name that cannot leave its folder, on any file system, nor mean something in a URL.
pub(super) fn is_plain_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.len() <= 128 && !text.starts_with('.') && text.bytes().all(plain)
}
