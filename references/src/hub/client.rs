//! Talking to the Hub: redirects followed by hand, so that the token stays with its host and the headers of each hop are seen.

use std::{fs, io::Read, sync::Arc, time::Duration};

use ureq::{
    Agent, Body, Proxy,
    http::{Method, Request, Response, StatusCode, Uri, header::HeaderMap},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{HubError, HubSettings, refusal};

const MAX_REDIRECTS: usize = 8;
/// An answer about a revision above this is refused; the Hub's longest listings are a few MB.
const MAX_ANSWER_BYTES: u64 = 32 << 20;
const CONNECT: Duration = Duration::from_secs(20);
/// A server that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Whether a commit has a file.
pub(super) enum Found {
    There(Remote),
    /// `for_sure` when the Hub said so itself: a proxy's bare 404 is not to be remembered.
    Absent {
        for_sure: bool,
    },
}

/// What the Hub says of a file before it is fetched.
pub(super) struct Remote {
    /// Names the content: the SHA-256 of a large file, a git hash of a small one.
    pub(super) etag: String,
    pub(super) size: Option<u64>,
}

impl Remote {
    /// The content's SHA-256, where the Hub gives one.
    pub(super) fn sha256(&self) -> Option<&str> {
        (self.etag.len() == 64 && self.etag.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(&self.etag)
    }
}

pub(super) struct Client<'a> {
    agent: Agent,
    settings: &'a HubSettings,
    repository: &'a str,
}

impl<'a> Client<'a> {
    pub(super) fn new(repository: &'a str, settings: &'a HubSettings) -> Result<Self, HubError> {
        let wrong = |setting, reason: &str| HubError::Setting { setting, reason: reason.into() };
        let endpoint: Option<Uri> = settings.endpoint.parse().ok();
        let Some(host) = endpoint.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https"))) else {
            let reason = format!("is `{}`, expected an address such as https://huggingface.co", settings.endpoint);
            return Err(wrong("HF_ENDPOINT", &reason));
        };
        if settings.token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(wrong("HF_TOKEN", "holds characters that no token has; copy it again"));
        }
        let loopback = matches!(host.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("fidelity/", env!("CARGO_PKG_VERSION")))
            .proxy(if loopback { None } else { Proxy::try_from_env() })
            .tls_config(TlsConfig::builder().root_certs(roots(settings)?).build())
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Ok(Self { agent: config.into(), settings, repository })
    }

    /// The repository's page, for people.
    pub(super) fn page(&self) -> String {
        format!("{}/{}", self.settings.endpoint, self.repository)
    }

    /// What the Hub says of a revision: its commit, and the repository's name of today.
    pub(super) fn revision(&self, revision: &str) -> Result<(String, Option<String>), HubError> {
        let path = format!("/api/models/{}/revision/{}", self.repository, escaped(revision));
        let url = format!("{}{path}", self.settings.endpoint);
        let answer = self.send(&Method::GET, &url, 0, true)?;
        if answer.response.status() != StatusCode::OK {
            return Err(self.refused(&answer, &refusal::Subject::Revision(revision)));
        }
        let wrong = |reason: String| HubError::NotTheHub { url: url.clone(), reason };
        let mut text = Vec::new();
        let reader = answer.response.into_body().into_reader();
        reader.take(MAX_ANSWER_BYTES).read_to_end(&mut text).map_err(|error| HubError::Unreachable {
            host: self.settings.endpoint.clone(),
            reason: error.to_string(),
        })?;
        let answer: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| wrong(format!("answered no JSON ({error})")))?;
        let commit = answer["sha"].as_str().unwrap_or_default();
        if !super::cache::is_commit(commit) {
            return Err(wrong(format!("answered `sha` = {}, expected a commit of 40 hex digits", answer["sha"])));
        }
        Ok((commit.to_owned(), answer["id"].as_str().map(str::to_owned)))
    }

    /// What the Hub says of a file.
    pub(super) fn remote(&self, commit: &str, file: &str) -> Result<Found, HubError> {
        let answer = self.send(&Method::HEAD, &self.file_url(commit, file), 0, false)?;
        let status = answer.response.status();
        if !status.is_success() && !status.is_redirection() {
            return match self.refused(&answer, &refusal::Subject::File { commit, file }) {
                HubError::NoFile { .. } => {
                    let said = text(answer.response.headers(), "x-error-code");
                    Ok(Found::Absent { for_sure: said.as_deref() == Some("EntryNotFound") })
                }
                error => Err(error),
            };
        }
        let headers = answer.response.headers();
        let etag = answer.linked_etag.or_else(|| text(headers, "etag")).map(|etag| plain_etag(&etag));
        let length = if status.is_redirection() { None } else { text(headers, "content-length") };
        let size = answer.linked_size.or(length).and_then(|size| size.parse().ok());
        match etag.filter(|etag| super::cache::is_plain_name(etag)) {
            Some(etag) => Ok(Found::There(Remote { etag, size })),
            None => Err(HubError::NotTheHub {
                url: self.file_url(commit, file),
                reason: "came without a usable etag, which names the content in the cache".into(),
            }),
        }
    }

    /// The file's bytes from `start` on, with any status.
    pub(super) fn bytes(&self, commit: &str, file: &str, start: u64) -> Result<Response<Body>, HubError> {
        let answer = self.send(&Method::GET, &self.file_url(commit, file), start, true)?;
        match answer.response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => Ok(answer.response),
            _ => Err(self.refused(&answer, &refusal::Subject::File { commit, file })),
        }
    }

    pub(super) fn file_url(&self, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{file}", self.settings.endpoint, self.repository)
    }

    fn refused(&self, hop: &Hop, subject: &refusal::Subject<'_>) -> HubError {
        let headers = hop.response.headers();
        let status = hop.response.status().as_u16();
        if status != 429 && origin(&hop.url) != origin(&self.settings.endpoint) {
            // The host that files come from knows nothing of tokens and repositories.
            return HubError::Server { endpoint: host(&hop.url), status };
        }
        let answer = refusal::Answer {
            status,
            code: text(headers, "x-error-code"),
            message: text(headers, "x-error-message"),
            wait: text(headers, "retry-after"),
            with_token: self.settings.token.is_some(),
        };
        refusal::meaning(answer, subject, &self.page(), &self.settings.endpoint)
    }

    /// Follows redirects: to any host with `leave`, else only within the endpoint's own host.
    fn send(&self, method: &Method, url: &str, start: u64, leave: bool) -> Result<Hop, HubError> {
        let mut url = url.to_owned();
        let (mut linked_etag, mut linked_size) = (None, None);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.once(method, &url, start)?;
            let headers = response.headers();
            linked_etag = linked_etag.or_else(|| text(headers, "x-linked-etag"));
            linked_size = linked_size.or_else(|| text(headers, "x-linked-size"));
            let location = text(headers, "location").filter(|_| response.status().is_redirection());
            let next = location.map(|location| joined(&url, &location)).transpose()?;
            match next {
                Some(next) if leave || origin(&next) == origin(&self.settings.endpoint) => url = next,
                _ => return Ok(Hop { url, response, linked_etag, linked_size }),
            }
        }
        Err(HubError::NotTheHub { url, reason: format!("more than {MAX_REDIRECTS} redirects") })
    }

    fn once(&self, method: &Method, url: &str, start: u64) -> Result<Response<Body>, HubError> {
        let mut request = Request::builder().method(method).uri(url).header("accept-encoding", "identity");
        if let Some(token) = self.settings.token.as_ref().filter(|_| origin(url) == origin(&self.settings.endpoint)) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if start > 0 {
            request = request.header("range", format!("bytes={start}-"));
        }
        let wrong = |error: ureq::http::Error| HubError::NotTheHub { url: url.to_owned(), reason: error.to_string() };
        let request = request.body(()).map_err(wrong)?;
        self.agent.run(request).map_err(|error| HubError::Unreachable { host: host(url), reason: error.to_string() })
    }
}

struct Hop {
    url: String,
    response: Response<Body>,
    linked_etag: Option<String>,
    linked_size: Option<String>,
}

fn roots(settings: &HubSettings) -> Result<RootCerts, HubError> {
    let Some(path) = &settings.certificates else { return Ok(RootCerts::WebPki) };
    let pem = fs::read(path).map_err(HubError::io("read the certificates in", path))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(RootCerts::Specific(Arc::new(certificates.collect())))
}

pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn host(url: &str) -> String {
    let (scheme, host) = origin(url).unwrap_or_default();
    format!("{scheme}://{host}")
}

fn origin(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    Some((uri.scheme_str()?.to_ascii_lowercase(), uri.authority()?.as_str().to_ascii_lowercase()))
}

/// Where a redirect leads. From https it leads to https only.
fn joined(from: &str, location: &str) -> Result<String, HubError> {
    let wrong = || HubError::NotTheHub { url: from.to_owned(), reason: format!("redirects to `{location}`") };
    let (scheme, host) = origin(from).ok_or_else(wrong)?;
    let next = match location {
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{host}{location}"),
        _ => location.to_owned(),
    };
    match origin(&next) {
        Some((to, _)) if to == "https" || to == "http" && scheme == "http" => Ok(next),
        _ => Err(wrong()),
    }
}

/// `W/"abc"` and `"abc"` name the same content.
fn plain_etag(etag: &str) -> String {
    etag.trim_start_matches("W/").trim_matches('"').to_owned()
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
