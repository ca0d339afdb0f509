//! What a status and its headers mean. The Hub answers 401 for what is absent, private or gated alike, and tells them apart in
//! `x-error-code`; without that header the kindest reading that leads to the right remedy is taken.

use super::HubError;

/// What was asked for.
pub(super) enum Subject<'a> {
    /// A revision of the repository.
    Revision(&'a str),
    /// A file of a commit known to exist.
    File { commit: &'a str, file: &'a str },
}

/// The part of an answer that says why.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
    pub(super) wait: Option<String>,
    pub(super) with_token: bool,
}

pub(super) fn meaning(answer: Answer, subject: &Subject<'_>, page: &str, endpoint: &str) -> HubError {
    let page = page.to_owned();
    match (answer.status, answer.code.as_deref()) {
        (401, Some("GatedRepo")) => HubError::Gated { page },
        (403, Some("GatedRepo")) => HubError::GatedNotGranted { page },
        (401 | 404, Some("RepoNotFound")) => HubError::NoRepository { page },
        (404, Some("RevisionNotFound")) => HubError::NoRevision { page, revision: subject.revision().to_owned() },
        (401, _) if answer.with_token => HubError::BadToken { page },
        // What an anonymous visitor may not see is hidden rather than named.
        (401, _) => HubError::NoRepository { page },
        (403, _) => HubError::TokenScope { page },
        (404, _) => absent(subject, page),
        (429, _) => HubError::RateLimited { wait: answer.wait.map(|wait| in_words(&wait)) },
        (status @ 500..=599, _) => HubError::Server { endpoint: endpoint.to_owned(), status },
        (status, _) => {
            let message = answer.message.map_or_else(String::new, |message| format!(" ({message})"));
            HubError::NotTheHub { url: page, reason: format!("answered HTTP {status}{message}") }
        }
    }
}

fn absent(subject: &Subject<'_>, page: String) -> HubError {
    match subject {
        Subject::File { commit, file } => {
            HubError::NoFile { page, commit: (*commit).to_owned(), file: (*file).to_owned() }
        }
        Subject::Revision(_) => HubError::NoRepository { page },
    }
}

/// `Retry-After` is a number of seconds or a date.
fn in_words(wait: &str) -> String {
    if wait.bytes().all(|byte| byte.is_ascii_digit()) { format!("{wait} s") } else { format!("until {wait}") }
}

impl<'a> Subject<'a> {
    const fn revision(&self) -> &'a str {
        match self {
            Self::Revision(revision) => revision,
            Self::File { commit, .. } => commit,
        }
    }
}
