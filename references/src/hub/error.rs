//! Why a checkpoint did not come from the Hub: one variant for each thing a person does next.

use std::{io, path::PathBuf};

/// A checkpoint that could not be had from the Hub or its cache.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A repository or revision that cannot be one.
    #[error("`{found}` is not a Hub {what}; expected {expected}")]
    Name {
        /// `repository` or `revision`.
        what: &'static str,
        /// What was asked for.
        found: String,
        /// What it should look like.
        expected: &'static str,
    },
    /// A setting that cannot be used.
    #[error("{setting} {reason}")]
    Setting {
        /// The variable.
        setting: &'static str,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// No network is allowed, and the cache does not hold everything.
    #[error(
        "{repository} at `{revision}` cannot be had offline: {missing} in the cache {cache}; run once without --offline (and HF_HUB_OFFLINE), \
         or `hf download {repository} --revision {revision}` where there is a network, or give a folder with --weights DIR"
    )]
    Offline {
        /// The repository.
        repository: String,
        /// The revision asked for.
        revision: String,
        /// What is missing.
        missing: String,
        /// The cache.
        cache: PathBuf,
    },
    /// Gated, and nobody said who asks.
    #[error(
        "{page} is gated: accept its terms on that page, then set HF_TOKEN to a token of that account (or run `hf auth login`)"
    )]
    Gated {
        /// The repository's page.
        page: String,
    },
    /// Gated, and this account has no access.
    #[error(
        "{page} is gated and the account of this token has no access yet: ask for it on that page, or wait until it is granted"
    )]
    GatedNotGranted {
        /// The repository's page.
        page: String,
    },
    /// A valid token that may not read this.
    #[error(
        "the token may not read {page}; give it read access to this repository (a fine-grained token needs \"contents of public gated repos\" \
         or the repository by name) in the Hub's settings, or set HF_TOKEN to another one"
    )]
    TokenScope {
        /// The repository's page.
        page: String,
    },
    /// A token that the Hub does not know.
    #[error(
        "the Hub does not accept the token that came with the request for {page}: expired or mistyped; set HF_TOKEN to a valid one, or unset it"
    )]
    BadToken {
        /// The repository's page.
        page: String,
    },
    /// Nothing of that name that this account may see.
    #[error(
        "there is no {page}, or it is private; check the spelling of the source in checkpoints.toml, or set HF_TOKEN to a token that may see it"
    )]
    NoRepository {
        /// Where its page would be.
        page: String,
    },
    /// The repository has no such branch, tag or commit.
    #[error(
        "{page} has no revision `{revision}`; check `revision` in checkpoints.toml against the branches and tags on that page"
    )]
    NoRevision {
        /// The repository's page.
        page: String,
        /// The revision asked for.
        revision: String,
    },
    /// The repository lacks a file that a checkpoint needs.
    #[error(
        "{page} at {commit} has no {file}, so it is no checkpoint this program can read; it needs config.json and safetensors"
    )]
    NoFile {
        /// The repository's page.
        page: String,
        /// The commit.
        commit: String,
        /// The file.
        file: String,
    },
    /// Too many requests.
    #[error("the Hub limits how often it is asked (HTTP 429{}); try again later, or set HF_TOKEN, which raises the limit", .wait.as_deref().map_or_else(String::new, |wait| format!(", wait {wait}")))]
    RateLimited {
        /// How long the Hub says to wait.
        wait: Option<String>,
    },
    /// A failure of the Hub, or of the host that it sends large files from.
    #[error("{endpoint} answered HTTP {status}, a failure of its own; try again later")]
    Server {
        /// Scheme and host.
        endpoint: String,
        /// The status.
        status: u16,
    },
    /// No connection.
    #[error(
        "cannot reach {host}: {reason}; check the network, the proxy variables, SSL_CERT_FILE and HF_ENDPOINT, or work with what is cached with --offline"
    )]
    Unreachable {
        /// Scheme and host.
        host: String,
        /// What the network says.
        reason: String,
    },
    /// The connection was lost in the middle of a file, several times without getting further.
    #[error("the connection was cut after {received} bytes{} of {file} ({reason}); {next}", .expected.map_or_else(String::new, |expected| format!(" of {expected}")))]
    Cut {
        /// The file.
        file: String,
        /// Bytes on disk.
        received: u64,
        /// Bytes announced.
        expected: Option<u64>,
        /// What the network says.
        reason: String,
        /// What the next run does.
        next: &'static str,
    },
    /// What arrived is not what was announced. It is deleted.
    #[error(
        "{file} arrived damaged: {what} is {found}, announced was {expected}; it was deleted, run again, and check proxies and HF_ENDPOINT if it repeats"
    )]
    Damaged {
        /// The file.
        file: String,
        /// `size in bytes` or `SHA-256`.
        what: &'static str,
        /// What arrived.
        found: String,
        /// What was announced.
        expected: String,
    },
    /// An answer the Hub does not give.
    #[error("{url}: {reason}; is HF_ENDPOINT a Hub, and does a proxy change its answers?")]
    NotTheHub {
        /// What was asked.
        url: String,
        /// What came.
        reason: String,
    },
    /// An index that names what cannot be a shard.
    #[error("model.safetensors.index.json of {page}: {reason}")]
    Index {
        /// The repository's page.
        page: String,
        /// What is wrong.
        reason: String,
    },
    /// The cache cannot be read or written.
    #[error("cannot {action} {path}: {source}; check rights and free space, or set HF_HUB_CACHE to another folder")]
    Io {
        /// `read`, `write`…
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl HubError {
    pub(super) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the Hub said nothing about what was asked, so that the cache may answer in its place.
    pub(super) const fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Server { .. } | Self::RateLimited { .. })
    }
}
