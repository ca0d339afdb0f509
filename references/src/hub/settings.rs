//! Where the Hub and its cache are, read from the environment as Python's `huggingface_hub` reads it.

use std::{
    fs,
    path::{Path, PathBuf},
};

const PUBLIC_ENDPOINT: &str = "https://huggingface.co";

/// Where the Hub is, who asks, and where its files are kept.
pub struct HubSettings {
    /// The folder of `models--OWNER--NAME` folders, shared with `huggingface_hub`.
    pub cache: PathBuf,
    /// Scheme and host of the Hub or of a mirror, without a slash at the end.
    pub endpoint: String,
    /// The access token. It is sent to the endpoint's own host and to no other.
    pub token: Option<String>,
    /// Never use the network.
    pub offline: bool,
    /// A PEM file of certificate authorities to trust instead of the compiled-in ones.
    pub certificates: Option<PathBuf>,
}

impl HubSettings {
    /// What HF_HOME, HF_HUB_CACHE, HF_TOKEN (else the file HF_HOME/token), HF_ENDPOINT, HF_HUB_OFFLINE, XDG_CACHE_HOME and
    /// SSL_CERT_FILE say; `offline` is the flag of the command line.
    #[must_use]
    pub fn from_environment(offline: bool) -> Self {
        Self::from_variables(offline, |name| std::env::var(name).ok())
    }

    /// The same, from any source of variables. An empty value counts as unset.
    #[must_use]
    pub fn from_variables(offline: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let user = value("HOME").or_else(|| value("USERPROFILE")).map(PathBuf::from);
        let path = |name| value(name).map(|text| expanded(&text, user.as_deref()));
        let caches = || path("XDG_CACHE_HOME").unwrap_or_else(|| user.clone().unwrap_or_default().join(".cache"));
        let home = path("HF_HOME").unwrap_or_else(|| caches().join("huggingface"));
        let endpoint = value("HF_ENDPOINT").unwrap_or_else(|| PUBLIC_ENDPOINT.into());
        Self {
            cache: path("HF_HUB_CACHE").unwrap_or_else(|| home.join("hub")),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: value("HF_TOKEN").or_else(|| token_file(&home)),
            offline: offline || value("HF_HUB_OFFLINE").is_some_and(|value| means_yes(&value)),
            certificates: path("SSL_CERT_FILE"),
        }
    }
}

/// `~/` at the start means the user's folder, as in a shell.
fn expanded(text: &str, user: Option<&Path>) -> PathBuf {
    match (text.strip_prefix('~'), user) {
        (Some(rest), Some(user)) if rest.is_empty() || rest.starts_with('/') => user.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(text),
    }
}

fn token_file(home: &Path) -> Option<String> {
    let text = fs::read_to_string(home.join("token")).ok()?;
    Some(text.trim().to_owned()).filter(|token| !token.is_empty())
}

fn means_yes(value: &str) -> bool {
    ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str())
}
