//! What is fetched, from where, and where it lies afterwards.

use std::{fs, path::Path};

use fidelity_references::{Checkpoint, HubSettings, Output, Pooling, PoolingMode, fetch};

use crate::{
    hub_server::{COMMIT, Host, REPOSITORY, Reply},
    support::{Bench, weights},
};

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/llama-gqa")
}

#[test]
fn a_checkpoint_from_the_hub_is_the_one_of_the_folder() {
    let file = |name: &str| fs::read(golden().join(name)).expect("there");
    let (config, model) = (file("config.json"), file("model.safetensors"));
    let bench = Bench::serving(&[("config.json", &config, false), ("model.safetensors", &model, true)]);
    let snapshot = bench.fetch().expect("served");
    let fetched = Checkpoint::open_snapshot(&snapshot, "tiny", REPOSITORY).expect("opens");
    let local = Checkpoint::open(&golden(), "tiny").expect("opens");
    assert_eq!(fetched.identity().weights_sha256, local.identity().weights_sha256);
    assert_eq!(fetched.identity().source, "hub:owner/tiny");
    assert_eq!(fetched.identity().revision.as_deref(), Some(COMMIT));
    assert!(fetched.decoder(&|_, tensor| Ok(tensor)).is_ok());
}

#[test]
fn an_encoder_comes_with_the_files_that_say_how_it_pools() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/bert");
    let file = |name: &str| fs::read(folder.join(name)).expect("there");
    let modules = br#"[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
        {"path": "2_Normalize", "type": "x.Normalize"}]"#;
    let (config, model) = (file("config.json"), file("model.safetensors"));
    let bench = Bench::serving(&[
        ("config.json", &config, false),
        ("model.safetensors", &model, true),
        ("modules.json", modules, false),
        ("1_Pooling/config.json", br#"{"pooling_mode": "cls"}"#, false),
    ]);
    let snapshot = bench.fetch().expect("served");
    let checkpoint = Checkpoint::open_snapshot(&snapshot, "tiny", REPOSITORY).expect("opens");
    let expected = Output::Hidden(Pooling { mode: PoolingMode::Cls, normalised: true, stated: true });
    assert_eq!(checkpoint.architecture().output, expected);
    let link = fs::read_link(bench.snapshot_file("1_Pooling/config.json")).expect("a link");
    assert!(link.starts_with("../../../blobs"), "{link:?}");
    assert!(bench.home().join(".no_exist").join(COMMIT).join("2_Normalize/config.json").is_file());
    bench.hub.take_log();
    bench.fetch_with(COMMIT, &bench.settings()).expect("cached");
    assert!(bench.hub.take_log().is_empty(), "everything is known");
    fs::remove_file(bench.snapshot_file("modules.json")).expect("there");
    let warning = bench.offline("main").expect("cached").warning.expect("something is unknown");
    assert!(warning.contains("modules.json"), "{warning}");
}

#[test]
fn the_cache_is_laid_out_as_huggingface_hub_does() {
    let bench = Bench::new();
    let snapshot = bench.fetch().expect("served");
    assert_eq!((snapshot.commit.as_str(), snapshot.warning), (COMMIT, None));
    assert_eq!(snapshot.folder, bench.home().join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(bench.home().join("refs/main")).expect("there"), COMMIT);
    assert_eq!(fs::read(bench.snapshot_file("model.safetensors")).expect("there"), weights());
    let link = fs::read_link(bench.snapshot_file("model.safetensors")).expect("a link");
    assert_eq!(link, Path::new("../../blobs").join(bench.blob().file_name().expect("a name")));
    assert!(bench.home().join(".no_exist").join(COMMIT).join("generation_config.json").is_file());
    assert!(!bench.incomplete().exists());
    bench.assert_blobs_whole();
}

#[test]
fn what_is_in_the_cache_is_not_fetched_again() {
    let bench = Bench::new();
    bench.fetch().expect("served");
    bench.hub.take_log();
    bench.fetch().expect("served");
    assert_eq!(bench.hub.take_log().len(), 1, "a branch is resolved anew, and nothing else is asked");
    bench.fetch_with(COMMIT, &bench.settings()).expect("cached");
    assert!(bench.hub.take_log().is_empty(), "a commit cannot change");
    let slash = bench.fetch_with("refs/pr/1", &bench.settings()).expect("served");
    assert_eq!(slash.commit, COMMIT);
    assert!(bench.home().join("refs/refs/pr/1").is_file());
}

#[test]
fn the_token_goes_to_the_hub_and_to_no_other_host() {
    let bench = Bench::new();
    let settings = HubSettings { token: Some("hf_secret".into()), ..bench.settings() };
    bench.fetch_with("main", &settings).expect("served");
    let log = bench.hub.take_log();
    assert!(log.iter().any(|asked| asked.host == Host::Cdn));
    for asked in log {
        assert_eq!(asked.token.as_deref(), (asked.host == Host::Hub).then_some("Bearer hf_secret"), "{asked:?}");
    }
}

#[test]
fn shards_are_those_the_index_names() {
    let index = br#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;
    let mut files = vec![
        ("config.json", &b"{}"[..], false),
        ("model.safetensors.index.json", index, false),
        ("model-00001-of-00002.safetensors", b"one", true),
        ("model-00002-of-00002.safetensors", b"two", true),
    ];
    let bench = Bench::serving(&files);
    bench.fetch().expect("served");
    assert_eq!(fs::read(bench.snapshot_file("model-00002-of-00002.safetensors")).expect("there"), b"two");
    bench.offline("main").expect("cached");
    files.pop();
    let error = Bench::serving(&files).refusal();
    assert!(error.contains("has no model-00002-of-00002.safetensors"), "{error}");
}

#[test]
fn an_index_cannot_name_files_outside_the_snapshot() {
    for shard in [
        "../../../x.safetensors",
        "/etc/x.safetensors",
        "a\\\\b.safetensors",
        "..",
        "",
        ".x.safetensors",
        "a?b.safetensors",
    ] {
        let index = format!("{{\"weight_map\":{{\"a\":\"{shard}\"}}}}");
        let files = [("config.json", &b"{}"[..], false), ("model.safetensors.index.json", index.as_bytes(), false)];
        let bench = Bench::serving(&files);
        let error = bench.refusal();
        assert!(error.contains("`weight_map.a` is \"") && error.contains("expected the plain name"), "{error}");
        assert!(bench.hub.take_log().iter().all(|asked| !asked.path.contains("x.safetensors")));
    }
}

#[test]
fn a_renamed_repository_is_followed_and_said() {
    let bench = Bench::new();
    bench.hub.misbehave(|asked, reply| {
        match asked.path.contains("/owner/old/") || asked.path.starts_with("/owner/old/") {
            true => Reply::status(307).with("location", &asked.path.replace("owner/old", "owner/tiny")),
            false => reply,
        }
    });
    let said = std::cell::RefCell::new(Vec::new());
    let snapshot = fetch("owner/old", "main", &bench.settings(), &|line| said.borrow_mut().push(line.to_owned()));
    let snapshot = snapshot.expect("followed");
    assert!(snapshot.folder.ends_with(Path::new("models--owner--old/snapshots").join(COMMIT)));
    assert_eq!(fs::read(snapshot.folder.join("model.safetensors")).expect("there"), weights());
    assert!(said.borrow().iter().any(|line| line == "owner/old is called owner/tiny today"), "{said:?}");
}
