//! A checkpoint of the Hub, as a person runs it.

use std::fs;

use crate::{
    hub_server::{COMMIT, Hub, REPOSITORY, Reply},
    support::{Answer, Desk, PROMPTS, golden_checkpoint, json},
};

/// A desk whose checkpoints.toml knows the served checkpoint.
fn desk() -> (Hub, Desk) {
    let file = |name: &str| fs::read(golden_checkpoint().join(name)).expect("there");
    let (config, model) = (file("config.json"), file("model.safetensors"));
    let hub = Hub::serving(&[("config.json", &config, false), ("model.safetensors", &model, true)]);
    let desk = Desk::new();
    desk.write("checkpoints.toml", &format!("[tiny]\nsource = 'hub:{REPOSITORY}'\n"));
    desk.write("p.jsonl", PROMPTS);
    (hub, desk)
}

fn reference(desk: &Desk, endpoint: &str, more: &[&str]) -> Answer {
    let arguments = ["reference", "--checkpoint", "tiny", "--prompts", "p.jsonl", "--new-tokens", "4", "--no-noise"];
    desk.fidelity_with(endpoint, &[&arguments[..], more].concat())
}

#[test]
fn a_checkpoint_is_fetched_once_and_its_commit_recorded() {
    let (hub, desk) = desk();
    let online = reference(&desk, &hub.endpoint(), &["--out", "online"]);
    assert_eq!(online.code, Some(0), "{online:?}");
    assert_eq!(online.stderr, "", "no progress where there is no terminal");
    let checkpoint = json(&desk.path("online/trace.json"))["checkpoint"].clone();
    assert_eq!(checkpoint["source"], "hub:owner/tiny");
    assert_eq!(checkpoint["revision"], COMMIT);
    assert!(desk.path("hf/hub/models--owner--tiny/refs/main").is_file());

    hub.take_log();
    let offline = reference(&desk, &hub.endpoint(), &["--out", "offline", "--offline"]);
    assert_eq!(offline.code, Some(0), "{offline:?}");
    assert!(hub.take_log().is_empty());
    assert_eq!(json(&desk.path("offline/trace.json"))["checkpoint"], checkpoint);
}

#[test]
fn an_uncached_checkpoint_offline_is_wrong_usage_and_says_how_to_get_it() {
    let (hub, desk) = desk();
    let answer = reference(&desk, &hub.endpoint(), &["--offline"]);
    assert_eq!(answer.code, Some(2));
    for part in
        ["owner/tiny at `main` cannot be had offline", "`hf download owner/tiny", "without --offline", "--weights DIR"]
    {
        assert!(answer.stderr.contains(part), "{}", answer.stderr);
    }
    assert!(hub.take_log().is_empty());
    assert!(!desk.path("runs").exists());
}

#[test]
fn a_hub_that_is_out_of_reach_is_a_failure_of_the_environment_and_a_refusal_is_not() {
    let (hub, desk) = desk();
    let nobody = reference(&desk, "http://127.0.0.1:9", &[]);
    assert_eq!(nobody.code, Some(4), "{nobody:?}");
    assert!(nobody.stderr.contains("cannot reach http://127.0.0.1:9"), "{}", nobody.stderr);
    hub.misbehave(|_, _| Reply::status(401).with("x-error-code", "GatedRepo"));
    let gated = reference(&desk, &hub.endpoint(), &[]);
    assert_eq!(gated.code, Some(2), "{gated:?}");
    assert!(gated.stderr.contains("is gated: accept its terms"), "{}", gated.stderr);
}

#[test]
fn a_cached_checkpoint_outlives_its_hub_with_a_warning() {
    let (hub, desk) = desk();
    assert_eq!(reference(&desk, &hub.endpoint(), &["--out", "first"]).code, Some(0));
    hub.misbehave(|_, _| Reply::status(503));
    let later = reference(&desk, &hub.endpoint(), &["--out", "second"]);
    assert_eq!(later.code, Some(0), "{later:?}");
    assert!(later.stderr.starts_with("warning: ") && later.stderr.contains("answered HTTP 503"), "{}", later.stderr);
}
