//! Each thing the Hub can refuse has a sentence of its own, with what to do.

use fidelity_references::HubSettings;

use crate::{
    hub_server::{Asked, Hub, Reply},
    support::Bench,
};

/// Answers a status where the path ends so.
fn answer(hub: &Hub, end: &'static str, status: u16, headers: &'static [(&str, &str)]) {
    hub.misbehave(move |asked, reply| {
        if !asked.path.ends_with(end) {
            return reply;
        }
        headers.iter().fold(Reply::status(status), |reply, (name, value)| reply.with(name, value))
    });
}

/// The sentence for a status at that path, without and with a token.
fn sentences(end: &'static str, status: u16, headers: &'static [(&str, &str)]) -> [String; 2] {
    let bench = Bench::new();
    answer(&bench.hub, end, status, headers);
    let with_token = HubSettings { token: Some("hf_x".into()), ..bench.settings() };
    let with_token = bench.fetch_with("main", &with_token).expect_err("refused").to_string();
    [bench.refusal(), with_token]
}

#[test]
fn refusals_are_told_apart() {
    let gated = &[("x-error-code", "GatedRepo")];
    let [gated_alone, _] = sentences("config.json", 401, gated);
    let [_, not_granted] = sentences("config.json", 403, gated);
    let [hidden, _] = sentences("revision/main", 401, &[("x-error-code", "RepoNotFound")]);
    let [_, bad_token] = sentences("revision/main", 401, &[("x-error-message", "Invalid credentials")]);
    let [_, scope] = sentences("config.json", 403, &[("x-error-message", "token lacks the permission")]);
    let [gone, _] = sentences("revision/main", 404, &[("x-error-code", "RepoNotFound")]);
    let [revision, _] = sentences("revision/main", 404, &[("x-error-code", "RevisionNotFound")]);
    let [file, _] = sentences("config.json", 404, &[("x-error-code", "EntryNotFound")]);
    let [limited, _] = sentences("revision/main", 429, &[("retry-after", "37")]);
    let [limited_later, _] = sentences("model.safetensors", 429, &[]);
    let [server, _] = sentences("revision/main", 503, &[]);
    let [odd, _] = sentences("revision/main", 418, &[("x-error-message", "a teapot")]);
    let without_port = |sentence: &str| sentence.replace(|letter: char| letter.is_ascii_digit(), "");
    assert_eq!(without_port(&hidden), without_port(&gone), "the Hub hides what an anonymous visitor may not see");
    let all = [
        (&gated_alone, "/owner/tiny is gated: accept its terms on that page, then set HF_TOKEN"),
        (&not_granted, "is gated and the account of this token has no access yet: ask for it on that page"),
        (&bad_token, "does not accept the token that came with the request"),
        (&scope, "the token may not read"),
        (&gone, "there is no "),
        (&revision, "has no revision `main`; check `revision` in checkpoints.toml"),
        (&file, "at 0123456789abcdef0123456789abcdef01234567 has no config.json"),
        (&limited, "(HTTP 429, wait 37 s); try again later, or set HF_TOKEN"),
        (&limited_later, "(HTTP 429); try again later"),
        (&server, "answered HTTP 503, a failure of its own; try again later"),
        (&odd, "answered HTTP 418 (a teapot)"),
    ];
    for (index, (sentence, expected)) in all.iter().enumerate() {
        assert!(sentence.contains(expected), "{sentence}");
        assert!(all[..index].iter().all(|(other, _)| other != sentence), "said twice: {sentence}");
    }
}

#[test]
fn weights_that_are_in_neither_form_are_named() {
    let bench = Bench::serving(&[("config.json", b"{}", false), ("pytorch_model.bin", b"x", true)]);
    assert!(bench.refusal().contains("has no model.safetensors, so it is no checkpoint this program can read"));
}

#[test]
fn answers_that_no_hub_gives_are_refused() {
    type Case = (&'static str, fn(&Asked, Reply) -> Reply, &'static str);
    let cases: [Case; 8] = [
        ("revision/main", |_, reply| reply.holding(b"<html>"), "answered no JSON"),
        ("revision/main", |_, reply| reply.holding(b"{\"sha\":\"../../x\"}"), "expected a commit of 40 hex digits"),
        ("revision/main", |asked, _| Reply::status(302).with("location", &asked.path), "more than 8 redirects"),
        ("revision/main", |_, _| Reply::status(302).with("location", "file:///etc/passwd"), "redirects to `file:"),
        ("revision/main", |_, _| Reply::status(302), "answered HTTP 302"),
        ("config.json", |_, reply| reply.without("etag"), "came without a usable etag"),
        ("config.json", |_, reply| reply.without("etag").with("etag", "\"../../x\""), "came without a usable etag"),
        (
            "config.json",
            |_, reply| reply.with("transfer-encoding", "identity"),
            "announces no size, so that a cut could not be told from the end",
        ),
    ];
    for (end, change, expected) in cases {
        let bench = Bench::new();
        bench.hub.misbehave(move |asked, reply| if asked.path.ends_with(end) { change(asked, reply) } else { reply });
        let error = bench.refusal();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_host_that_does_not_answer_is_named() {
    let bench = Bench::new();
    let endpoint = {
        let gone = Bench::new();
        gone.hub.endpoint()
    };
    let error = bench.fetch_with("main", &HubSettings { endpoint: endpoint.clone(), ..bench.settings() });
    let error = error.expect_err("nobody listens").to_string();
    assert!(error.contains(&format!("cannot reach {endpoint}: ")) && error.contains("--offline"), "{error}");
}
