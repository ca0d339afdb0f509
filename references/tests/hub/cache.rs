//! The cache alone: what can be had without a network, and what exactly is missing.

use std::fs;

use fidelity_references::{HubSettings, fetch};

use crate::{
    hub_server::{COMMIT, Host, REPOSITORY, Reply},
    support::{Bench, write},
};

const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

fn filled() -> Bench {
    let bench = Bench::new();
    bench.fetch().expect("served");
    bench.hub.take_log();
    bench
}

fn missing(bench: &Bench, revision: &str) -> String {
    let error = bench.offline(revision).expect_err("incomplete").to_string();
    assert!(error.contains(&format!("`hf download owner/tiny --revision {revision}`")), "{error}");
    assert!(error.contains("without --offline") && error.contains("--weights DIR"), "{error}");
    error
}

#[test]
fn a_full_cache_needs_no_network() {
    let bench = filled();
    let by_branch = bench.offline("main").expect("cached");
    assert_eq!(by_branch, bench.offline(COMMIT).expect("cached"));
    assert_eq!(by_branch.commit, COMMIT);
}

#[test]
fn what_is_missing_offline_is_named() {
    let empty = Bench::new();
    assert!(missing(&empty, "main").contains("there is no models--owner--tiny in the cache"));
    let bench = filled();
    assert!(missing(&bench, "v2").contains("models--owner--tiny/refs/v2, which says the commit, is absent"));
    assert!(missing(&bench, OTHER).contains(&format!("config.json of {OTHER} is not in the cache")));
    fs::remove_file(bench.snapshot_file("model.safetensors")).expect("there");
    assert!(missing(&bench, "main").contains(&format!("model.safetensors of {COMMIT} is not in the cache")));
}

#[test]
fn an_optional_file_that_the_cache_knows_nothing_of_is_said() {
    let bench = filled();
    assert_eq!(bench.offline("main").expect("cached").warning, None);
    fs::remove_dir_all(bench.home().join(".no_exist")).expect("there");
    fs::remove_file(bench.snapshot_file("tokenizer.json")).expect("there");
    let warning = bench.offline("main").expect("cached").warning.expect("not silent");
    let expected = "has generation_config.json, tokenizer.json, tokenizer_config.json; going on without";
    assert!(warning.contains(expected), "{warning}");
    bench.fetch_with(COMMIT, &bench.settings()).expect("served");
    assert!(!bench.hub.take_log().is_empty(), "the Hub is asked for what is not known");
    assert_eq!(bench.offline("main").expect("cached").warning, None);
}

#[test]
fn without_the_ref_the_commits_that_are_there_are_named() {
    let bench = filled();
    fs::remove_file(bench.home().join("refs/main")).expect("there");
    let error = missing(&bench, "main");
    assert!(error.contains(&format!("set `revision` to a commit to use one that is there: {COMMIT}")), "{error}");
    assert_eq!(bench.offline(COMMIT).expect("cached").commit, COMMIT);
    write(&bench.home().join("refs/main"), b"not a commit");
    assert!(missing(&bench, "main").contains("holds `not a commit`, which is no commit"));
}

#[test]
fn a_dangling_link_is_named_offline_and_mended_online() {
    let bench = filled();
    fs::remove_file(bench.blob()).expect("there");
    let error = missing(&bench, "main");
    let blob = bench.blob().file_name().expect("a name").to_string_lossy().into_owned();
    assert!(
        error.contains(&format!("model.safetensors of {COMMIT} links to {blob}, which is not in the cache")),
        "{error}"
    );
    bench.fetch().expect("served");
    bench.offline("main").expect("cached again");
}

#[test]
fn files_in_place_of_links_are_read() {
    let bench = filled();
    // As huggingface_hub leaves them where links cannot be made.
    for name in ["config.json", "model.safetensors"] {
        let file = bench.snapshot_file(name);
        let bytes = fs::read(&file).expect("there");
        fs::remove_file(&file).expect("there");
        fs::write(&file, bytes).expect("writes");
    }
    fs::remove_file(bench.blob()).expect("there");
    bench.offline("main").expect("cached");
    bench.hub.take_log();
    bench.fetch().expect("served");
    assert!(bench.hub.take_log().iter().all(|asked| asked.host == Host::Hub), "no weights are asked for again");
}

#[test]
fn an_unfinished_download_does_not_count() {
    let bench = filled();
    fs::rename(bench.blob(), bench.incomplete()).expect("moves");
    fs::remove_file(bench.snapshot_file("model.safetensors")).expect("there");
    assert!(missing(&bench, "main").contains("model.safetensors of"));
}

#[test]
fn a_blob_that_another_program_left_short_is_fetched_again() {
    let bench = filled();
    fs::remove_file(bench.snapshot_file("model.safetensors")).expect("there");
    fs::write(bench.blob(), b"short").expect("writes");
    bench.fetch().expect("served");
    bench.assert_blobs_whole();
}

#[test]
fn two_revisions_lie_side_by_side() {
    let bench = filled();
    bench.hub.misbehave(|asked, reply| match asked.path.as_str() {
        path if path.ends_with("revision/main") => reply.holding(format!("{{\"sha\":\"{OTHER}\"}}").as_bytes()),
        path if path.ends_with(&format!("{OTHER}/config.json")) => {
            Reply::status(200).with("etag", "\"0000000000000000000000000000000000000000\"").holding(b"{\"new\":1}")
        }
        path if path.contains(OTHER) && path.ends_with("model.safetensors") => {
            Reply::status(302).with("location", &path.replace(OTHER, COMMIT))
        }
        path if path.contains(OTHER) => Reply::status(404).with("x-error-code", "EntryNotFound"),
        _ => reply,
    });
    assert_eq!(bench.fetch().expect("served").commit, OTHER);
    assert_eq!(bench.offline("main").expect("cached").commit, OTHER);
    let old = bench.offline(COMMIT).expect("cached");
    assert_eq!(fs::read(old.folder.join("config.json")).expect("there"), b"{}");
    let blobs = fs::read_dir(bench.home().join("blobs")).expect("there").count();
    assert_eq!(blobs, 4, "two configurations, one tokenizer, one file of weights");
}

#[test]
fn when_the_hub_fails_the_cache_answers_and_says_so() {
    for (status, expected) in [(503, "answered HTTP 503"), (429, "HTTP 429")] {
        let bench = filled();
        bench.hub.misbehave(move |_, _| Reply::status(status));
        let snapshot = bench.fetch().expect("cached");
        let warning = snapshot.warning.expect("not silent");
        assert!(warning.contains(expected) && warning.contains(&format!("at {COMMIT} from the cache")), "{warning}");
    }
    let gone = filled();
    let endpoint = Bench::new().hub.endpoint();
    let snapshot = gone.fetch_with("main", &HubSettings { endpoint, ..gone.settings() }).expect("cached");
    assert!(snapshot.warning.is_some_and(|warning| warning.contains("cannot reach http://127.0.0.1")));

    let refused = filled();
    refused.hub.misbehave(|_, _| Reply::status(404).with("x-error-code", "RepoNotFound"));
    assert!(refused.refusal().contains("there is no "), "a refusal is an answer, the cache does not replace it");
}

#[test]
fn a_full_cache_is_only_read() {
    let bench = filled();
    let everything = || {
        let mut folders = vec![bench.cache.path().to_owned()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("there").flatten() {
                let metadata = entry.metadata().expect("there");
                found.push((entry.path(), metadata.modified().expect("known")));
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        found.sort();
        found
    };
    let before = everything();
    bench.fetch().expect("served");
    bench.offline("main").expect("cached");
    assert!(everything() == before, "a cache that cannot be written serves as well");
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let bench = Bench::new();
    write(&bench.home(), b"a file where the folder should be");
    let error = bench.refusal();
    assert!(error.starts_with("cannot create ") && error.ends_with("or set HF_HUB_CACHE to another folder"), "{error}");
}

#[test]
fn a_relative_cache_gives_an_absolute_folder() {
    let bench = filled();
    let here = std::env::current_dir().expect("there is one");
    let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(bench.cache.path().strip_prefix("/").expect("absolute"));
    let settings = HubSettings { cache: relative, offline: true, ..bench.settings() };
    let snapshot = fetch(REPOSITORY, "main", &settings, &|_| {}).expect("cached");
    assert!(snapshot.folder.is_absolute() && snapshot.folder.join("config.json").is_file());
}
