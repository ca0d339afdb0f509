//! Connections that break, ranges that are refused, bytes that are wrong: no blob gets its name before it is whole.

use std::fs;

use fidelity_references::HubError;

use crate::{
    hub_server::{Asked, Host, Reply},
    support::{Bench, weights, write},
};

fn ranges(log: &[Asked]) -> Vec<Option<String>> {
    log.iter().filter(|asked| asked.host == Host::Cdn).map(|asked| asked.range.clone()).collect()
}

/// Cuts what comes from the other host after so many bytes, for the first `times` requests.
fn cut(bench: &Bench, after: usize, mut times: usize) {
    bench.hub.misbehave(move |asked, reply| {
        let cut = asked.host == Host::Cdn && times > 0;
        times -= usize::from(cut);
        Reply { cut_after: cut.then_some(after), ..reply }
    });
}

#[test]
fn a_cut_connection_goes_on_where_it_stopped() {
    let bench = Bench::new();
    cut(&bench, 60_000, 2);
    bench.fetch().expect("in the end");
    assert_eq!(ranges(&bench.hub.take_log()), [None, Some("bytes=60000-".into()), Some("bytes=120000-".into())]);
    assert_eq!(fs::read(bench.snapshot_file("model.safetensors")).expect("there"), weights());
    assert!(bench.said.borrow().iter().any(|line| line.contains("connection cut after 60000 bytes")));
}

#[test]
fn a_connection_that_stays_cut_is_said_and_the_next_run_goes_on() {
    let bench = Bench::new();
    let mut first = true;
    bench.hub.misbehave(move |asked, reply| {
        let after = if first { 70_000 } else { 0 };
        first &= asked.host == Host::Hub;
        Reply { cut_after: (asked.host == Host::Cdn).then_some(after), ..reply }
    });
    let error = bench.refusal();
    assert!(error.contains("cut after 70000 bytes of 200000 of model.safetensors"), "{error}");
    assert!(error.ends_with("the next run goes on from there"), "{error}");
    assert!(!bench.blob().exists() && !bench.snapshot_file("model.safetensors").exists());
    assert_eq!(fs::read(bench.incomplete()).expect("kept"), weights()[..70_000]);
    assert!(!bench.home().join("refs/main").exists(), "a ref says that its commit was had");

    bench.hub.take_log();
    bench.hub.behave();
    bench.fetch().expect("served");
    assert_eq!(ranges(&bench.hub.take_log()), [Some("bytes=70000-".into())]);
    assert_eq!(fs::read(bench.blob()).expect("there"), weights());
}

#[test]
fn small_files_start_anew_after_a_cut() {
    let bench = Bench::new();
    let mut times = 1;
    bench.hub.misbehave(move |asked, reply| {
        // The request that follows the redirect.
        let cut = asked.method == "GET" && asked.is_for("tokenizer.json") && !reply.body.is_empty() && times > 0;
        times -= usize::from(cut);
        Reply { cut_after: cut.then_some(3), ..reply }
    });
    bench.fetch().expect("in the end");
    let tokenizer = bench.hub.take_log();
    assert!(tokenizer.iter().filter(|asked| asked.is_for("tokenizer.json")).all(|asked| asked.range.is_none()));
    assert_eq!(fs::read(bench.snapshot_file("tokenizer.json")).expect("there"), b"{\"t\":1}");
}

#[test]
fn a_server_without_ranges_sends_the_file_from_its_start() {
    let bench = Bench::new();
    write(&bench.incomplete(), &weights()[..50_000]);
    bench.hub.misbehave(|asked, reply| match asked.host {
        Host::Cdn => Reply { status: 200, ..reply.without("content-range") }.holding(&weights()),
        Host::Hub => reply,
    });
    bench.fetch().expect("served");
    assert_eq!(fs::read(bench.blob()).expect("there"), weights());
}

#[test]
fn a_refused_range_starts_anew() {
    let bench = Bench::new();
    write(&bench.incomplete(), &weights()[..50_000]);
    bench.hub.misbehave(|asked, reply| if asked.range.is_some() { Reply::status(416) } else { reply });
    bench.fetch().expect("served");
    assert_eq!(fs::read(bench.blob()).expect("there"), weights());

    let stubborn = Bench::new();
    stubborn.hub.misbehave(|asked, reply| if asked.host == Host::Cdn { Reply::status(416) } else { reply });
    assert!(stubborn.refusal().contains("does not send the file from its start"));
}

#[test]
fn a_range_other_than_the_one_asked_for_is_not_appended() {
    let bench = Bench::new();
    write(&bench.incomplete(), &weights()[..50_000]);
    bench.hub.misbehave(|asked, reply| match asked.range {
        Some(_) if asked.host == Host::Cdn => {
            Reply::status(206).with("content-range", "bytes 40000-199999/200000").holding(&weights()[40_000..])
        }
        _ => reply,
    });
    bench.fetch().expect("served");
    assert_eq!(fs::read(bench.blob()).expect("there"), weights());
}

#[test]
fn an_old_incomplete_file_is_continued_only_if_the_whole_is_right() {
    for stale in [vec![0; 50_000], vec![0; 200_000], vec![0; 300_000]] {
        let bench = Bench::new();
        write(&bench.incomplete(), &stale);
        bench.fetch().expect("served");
        assert_eq!(fs::read(bench.blob()).expect("there"), weights(), "{} stale bytes", stale.len());
    }
    let whole = Bench::new();
    write(&whole.incomplete(), &weights());
    whole.fetch().expect("served");
    assert_eq!(ranges(&whole.hub.take_log()), [], "what is whole is not asked for");
}

#[test]
fn damaged_bytes_never_get_a_name() {
    let wrong = Bench::new();
    wrong.hub.misbehave(|asked, reply| if asked.host == Host::Cdn { reply.holding(&vec![1; 200_000]) } else { reply });
    assert!(wrong.refusal().contains("model.safetensors arrived damaged: SHA-256 is"));
    let longer = Bench::new();
    longer.hub.misbehave(|asked, reply| if asked.host == Host::Cdn { reply.holding(&vec![1; 200_001]) } else { reply });
    assert!(longer.refusal().contains("size in bytes is more than 200000, announced was 200000"));
    let shorter = Bench::new();
    shorter.hub.misbehave(|asked, reply| match asked.host {
        Host::Cdn => Reply::status(200).holding(&[1; 199_999]),
        Host::Hub => reply,
    });
    let error = shorter.fetch().expect_err("short");
    assert!(matches!(error, HubError::Cut { received: 199_999, expected: Some(200_000), .. }), "{error}");
    for bench in [wrong, longer, shorter] {
        assert!(!bench.blob().exists());
        bench.assert_blobs_whole();
    }
}

#[test]
fn a_refusal_of_the_other_host_is_not_taken_for_one_of_the_hub() {
    for status in [401, 403, 404, 500] {
        let bench = Bench::new();
        bench.hub.misbehave(move |asked, reply| if asked.host == Host::Cdn { Reply::status(status) } else { reply });
        let error = bench.fetch().expect_err("refused");
        let expected = (bench.hub.endpoint(), status);
        let HubError::Server { endpoint, status } = error else { panic!("{error}") };
        assert!(endpoint != expected.0 && status == expected.1, "{endpoint} {status}");
    }
}

#[test]
fn two_fetches_at_once_fetch_once() {
    let bench = Bench::new();
    let settings = [bench.settings(), bench.settings()];
    std::thread::scope(|scope| {
        for settings in &settings {
            scope.spawn(|| fidelity_references::fetch("owner/tiny", "main", settings, &|_| {}).expect("served"));
        }
    });
    assert_eq!(ranges(&bench.hub.take_log()), [None]);
    assert_eq!(fs::read(bench.blob()).expect("there"), weights());
}
