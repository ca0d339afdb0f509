//! The environment, read as `huggingface_hub` reads it.

use std::{fs, path::Path};

use fidelity_references::{HubError, HubSettings};

use crate::{hub_server::REPOSITORY, support::Bench};

fn settings(variables: &[(&str, &str)]) -> HubSettings {
    HubSettings::from_variables(false, |name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn the_cache_is_where_huggingface_hub_keeps_it() {
    for (variables, expected) in [
        (&[("HOME", "/home/a")][..], "/home/a/.cache/huggingface/hub"),
        (&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/c")], "/c/huggingface/hub"),
        (&[("HOME", "/home/a"), ("HF_HOME", "/hf")], "/hf/hub"),
        (&[("HOME", "/home/a"), ("HF_HOME", "~/hf")], "/home/a/hf/hub"),
        (&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/elsewhere")], "/elsewhere"),
        (&[("HOME", "/home/a"), ("HF_HOME", "")], "/home/a/.cache/huggingface/hub"),
        (&[("HF_HOME", "relative")], "relative/hub"),
    ] {
        assert_eq!(settings(variables).cache, Path::new(expected), "{variables:?}");
    }
}

#[test]
fn the_token_is_the_variable_else_the_file() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().to_str().expect("UTF-8");
    assert_eq!(settings(&[("HF_HOME", path)]).token, None);
    fs::write(home.path().join("token"), "hf_file\n").expect("writes");
    assert_eq!(settings(&[("HF_HOME", path)]).token.as_deref(), Some("hf_file"));
    assert_eq!(settings(&[("HF_HOME", path), ("HF_TOKEN", " hf_variable ")]).token.as_deref(), Some("hf_variable"));
}

#[test]
fn endpoint_and_offline() {
    assert_eq!(settings(&[]).endpoint, "https://huggingface.co");
    assert_eq!(settings(&[("HF_ENDPOINT", "https://mirror.example/")]).endpoint, "https://mirror.example");
    for (value, expected) in [("1", true), ("TRUE", true), ("yes", true), ("on", true), ("0", false), ("", false)] {
        assert_eq!(settings(&[("HF_HUB_OFFLINE", value)]).offline, expected, "{value}");
    }
    assert!(HubSettings::from_variables(true, |_| None).offline);
}

#[test]
fn settings_and_names_that_cannot_be_used_are_refused_before_anything_is_asked() {
    let bench = Bench::new();
    let with = |change: &dyn Fn(&mut HubSettings)| {
        let mut settings = bench.settings();
        change(&mut settings);
        bench.fetch_with("main", &settings).expect_err("refused").to_string()
    };
    let endpoint = with(&|settings| settings.endpoint = "mirror.example".into());
    assert!(endpoint.starts_with("HF_ENDPOINT is `mirror.example`, expected an address"), "{endpoint}");
    assert!(with(&|settings| settings.token = Some("a\nb".into())).starts_with("HF_TOKEN holds characters"));
    let absent = with(&|settings| settings.certificates = Some("/nowhere/ca.pem".into()));
    assert!(absent.contains("/nowhere/ca.pem"), "{absent}");
    for name in ["../x", "a/b/c", "/x", "a/..", "", "a b", "a/b?x"] {
        let error = fidelity_references::fetch(name, "main", &bench.settings(), &|_| {});
        assert!(matches!(error, Err(HubError::Name { what: "repository", .. })), "{name}");
    }
    for revision in ["../main", "", "/main", "a//b", "a\\b", "refs/..", "a\nb"] {
        let error = fidelity_references::fetch(REPOSITORY, revision, &bench.settings(), &|_| {});
        assert!(matches!(error, Err(HubError::Name { what: "revision", .. })), "{revision}");
    }
    assert!(bench.hub.take_log().is_empty());
}
