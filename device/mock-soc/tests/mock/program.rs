//! The program: a file is written, a chip is served, mistakes are named.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use assert_cmd::cargo::cargo_bin;
use fidelity_mock_soc::{HefOptions, unused_loopback};

use crate::support::{Host, Pace, demo_folder, hef};

fn program() -> Command {
    Command::new(cargo_bin("mock-soc"))
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves at an address of its own.
fn serve(more: &[&str]) -> (Serving, std::net::SocketAddrV4) {
    let address = unused_loopback().to_string();
    let mut child =
        program().args(["serve", "--address", &address]).args(more).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let at = line.trim().strip_prefix("listening on ").expect("where it listens").parse().expect("an address");
    (Serving(child), at)
}

#[test]
fn writes_the_file_that_the_library_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("demo.hef");
    let arguments = ["write-hef", "--rows", "4", "--cache", "16", "--checkpoint"];
    let output = program().args(arguments).arg(demo_folder()).arg("--out").arg(&out).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read(&out).expect("the file"), hef(&HefOptions::precise(4, 16)));
}

#[test]
fn serves_logs_and_crashes() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl");
    let log_text = log.to_str().expect("a path");
    let (mut serving, at) = serve(&["--log", log_text, "--misbehave", "crash@run:2", "--fault", "theta-sign"]);
    let mut host = Host::open(at, &hef(&HefOptions::precise(4, 16))).expect("it opens");
    host.feed(&[1, 2], Pace::Prefill).expect("it runs");
    host.client.link.send(18, &[0x0A, 2, 8, 99], &[]).expect("sent");
    assert_eq!(host.client.link.answer().expect("an answer").status, 61, "no such group: no run of its own");
    let mut host = Host::open(at, &hef(&HefOptions::precise(4, 16))).expect("it opens");
    let [Some((described, group)), _] = host.groups() else { panic!("prefill") };
    host.note(&[1]);
    host.client.update_offset(group, 1).expect("done");
    let inputs = host.inputs(&described);
    let sizes: Vec<_> = inputs.iter().map(Vec::len).collect();
    let body = crate::support::Client::run_body(group, &sizes).into_bytes();
    host.client.link.send(18, &body, &inputs.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("sent");
    assert!(host.client.link.answer().is_err());
    assert_eq!(serving.0.wait().expect("it ends").code(), Some(70));
    let lines = fs::read_to_string(&log).expect("the log");
    let events: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let run = events.iter().find(|event| event["event"] == "run").expect("a run");
    assert_eq!((&run["group"], &run["offset"]), (&"base_model__prefill".into(), &2.into()));
    let crash = events.iter().find(|event| event["event"] == "misbehaved").expect("a misbehaviour");
    assert_eq!((&crash["action"], &crash["number"]), (&"run".into(), &2.into()));
}

/// Exit code 2, nothing on standard output, and this on standard error.
#[track_caller]
fn refused(arguments: &[&str], said: &str) {
    let output = program().args(arguments).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{error}");
    assert!(error.contains(said), "{error}");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, empty) = (folder.path().join("out.hef"), folder.path());
    let (out, empty) = (out.to_str().expect("a path"), empty.to_str().expect("a path"));
    let demo = demo_folder();
    let demo = demo.to_str().expect("a path");
    refused(&["write-hef", "--checkpoint", empty, "--out", out], "config.json");
    refused(&["write-hef", "--checkpoint", demo, "--out", out, "--shards", "5"], "512 is not 5 equal shards");
    refused(&["serve", "--address", "0.0.0.0"], "only loopback");
    refused(&["serve", "--misbehave", "sulk@run"], "`sulk` is no conduct");
    refused(&["serve", "--firmware", "5.2"], "three numbers");
    let config = folder.path().join("config.json");
    fs::write(config, r#"{"model_type": "gpt2"}"#).expect("written");
    refused(&["write-hef", "--checkpoint", empty, "--out", out], "model_type is \"gpt2\", expected llama");
}
