//! Whatever happens to a run, no half file has a final name, and `--resume` ends in the same verdict.json.
#![cfg(unix)]

use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::support::{Desk, json};

/// How often a run is killed here; `FIDELITY_KILLS=100` for as often as the project's goal says.
const KILLS: u64 = 25;

/// Prompts enough for three groups, so that a kill may come between any two.
pub(crate) fn prompts(count: usize) -> String {
    let line = |index: usize| {
        let ids: Vec<usize> = (0..6 + index % 3).map(|position| 1 + (position * 37 + index * 11) % 500).collect();
        format!("{{\"id\":\"n{index}\",\"token_ids\":{ids:?}}}\n")
    };
    (0..count).map(line).collect()
}

/// A desk and a run that is worth interrupting.
struct Bench {
    desk: Desk,
    /// What it looks for, which takes a while: broken by a fault, so that it is diagnosed as well.
    more: &'static [&'static str],
}

impl Bench {
    fn new(more: &'static [&'static str]) -> Self {
        let desk = Desk::new();
        desk.write("p.jsonl", &prompts(40));
        Self { desk, more }
    }

    /// With so many prompts that a signal comes before the last of them, however busy the machine is.
    fn long(more: &'static [&'static str]) -> Self {
        let bench = Self::new(more);
        bench.desk.write("p.jsonl", &prompts(640));
        bench
    }

    fn command(&self, out: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fidelity"));
        command
            .current_dir(self.desk.path("."))
            // Without a cache of references, so that every run has all steps.
            .env("FIDELITY_CACHE", self.desk.path("cache"))
            .env_remove("FIDELITY_DEVICE")
            .env_remove("FIDELITY_HISTORY")
            .args(["run", "--prompts", "p.jsonl", "--new-tokens", "6", "--scopes", "base,tbt", "--no-cache", "--quiet"])
            .args(["--out", out])
            .args(self.more)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn start(&self, out: &str, more: &[&str]) -> Child {
        self.command(out, more).spawn().expect("starts")
    }

    fn finish(&self, out: &str, more: &[&str]) -> Option<i32> {
        self.command(out, more).status().expect("starts").code()
    }

    fn verdict(&self, out: &str) -> Vec<u8> {
        fs::read(self.desk.path(out).join("verdict.json")).expect("written")
    }
}

/// Every file under its final name is whole.
pub(crate) fn whole(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("listed").path();
        let name = path.file_name().expect("named").to_string_lossy().into_owned();
        let read = || fs::read(&path).expect("read");
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            _ if name.starts_with(".writing-") => {}
            None if path.is_dir() => whole(&path),
            Some("json") => {
                serde_json::from_slice::<Value>(&read()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
            Some("safetensors") => {
                let bytes = read();
                safetensors::SafeTensors::deserialize(&bytes)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
            Some("html") => {
                assert!(read().ends_with(b"</html>\n") || read().ends_with(b"</html>"), "{}", path.display())
            }
            Some("xml") => assert!(read().ends_with(b"</testsuites>\n"), "{}", path.display()),
            _ => {}
        }
    }
}

/// Pseudo-random numbers that are the same each time.
pub(crate) fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn a_run_killed_anywhere_resumes_to_the_same_verdict() {
    let kills = env::var("FIDELITY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let bench = Bench::new(&["--fault", "gqa_tile@1"]);
    let begun = Instant::now();
    let code = bench.finish("unbroken", &[]);
    let mut takes = begun.elapsed().as_micros() as u64;
    assert_eq!(code, Some(1));
    let unbroken = bench.verdict("unbroken");
    let mut random = random(9);
    let mut early = 0;
    for round in 0..kills {
        let out = format!("out{round}");
        let mut child = bench.start(&out, &[]);
        // A little longer than a run takes, so that its last moments are met too.
        thread::sleep(Duration::from_micros(random(takes * 11 / 10)));
        child.kill().expect("runs or was not waited for");
        child.wait().expect("ended");
        whole(&bench.desk.path(&out));
        let late = bench.desk.path(&out).join("verdict.json").exists();
        early += u64::from(!late);
        // The machine may have been busier before.
        takes = if late { takes * 4 / 5 } else { takes };
        assert_eq!(bench.finish(&out, &["--resume"]), code, "round {round}");
        assert!(bench.verdict(&out) == unbroken, "round {round}: another verdict");
        whole(&bench.desk.path(&out));
        assert!(left_over(&bench.desk.path(&out)).is_empty(), "{:?}", left_over(&bench.desk.path(&out)));
        fs::remove_dir_all(bench.desk.path(&out)).expect("there");
    }
    assert!(early * 3 > kills, "only {early} of {kills} kills came before the end");
    // Each is one run, however often it was begun.
    let remembered = bench.desk.fidelity(&["history", "--csv", "-"]);
    let runs = remembered.stdout.lines().filter(|line| line.contains(",base,") && line.contains(",pearson,")).count();
    assert_eq!(runs as u64, kills + 1);
}

/// Files that were being written.
fn left_over(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("listed").path());
    let found = entries.flat_map(|path| {
        let own = path.display().to_string();
        let below = if path.is_dir() { left_over(&path) } else { Vec::new() };
        below.into_iter().chain(own.contains("/.writing-").then_some(own))
    });
    found.collect()
}

/// Starts a run and waits until `file` is there.
fn until(bench: &Bench, out: &str, file: &str) -> Child {
    let child = bench.start(out, &[]);
    let begun = Instant::now();
    while !bench.desk.path(out).join(file).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {file}");
        thread::sleep(Duration::from_millis(1));
    }
    child
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id().try_into().expect("a pid")), Signal::SIGINT).expect("runs");
}

#[test]
fn an_interrupted_run_ends_its_step_writes_it_and_goes_on_later() {
    let bench = Bench::long(&["--no-diagnosis"]);
    let code = bench.finish("unbroken", &[]);
    // The manifest is there before the first step is.
    let mut child = until(&bench, "out", "reference/prompts/0000.safetensors");
    interrupt(&child);
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    whole(&bench.desk.path("out"));
    assert!(!bench.desk.path("out/verdict.json").exists(), "interrupted too late to show anything");
    let manifest = json(&bench.desk.path("out/reference/trace.json"));
    let done = |status: &str| {
        manifest["prompts"].as_array().expect("a list").iter().filter(|it| it["status"] == status).count()
    };
    assert!(done("ok") > 0 && done("ok") % 16 == 0, "a whole step is kept: {}", done("ok"));
    assert!(done("skipped") > 0 && manifest["complete"] == false);
    assert_eq!(bench.finish("out", &["--resume"]), code);
    assert!(bench.verdict("out") == bench.verdict("unbroken"));
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let bench = Bench::long(&[]);
    let mut command = bench.command("out", &[]);
    let child = command.stderr(Stdio::piped()).spawn().expect("starts");
    while !bench.desk.path("out/reference/trace.json").exists() {
        thread::sleep(Duration::from_millis(1));
    }
    interrupt(&child);
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.ends_with("the same command with --out out --resume goes on\n"), "{said}");
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let bench = Bench::long(&[]);
    let mut child = until(&bench, "out", "reference/trace.json");
    interrupt(&child);
    // Signals that come together are one.
    thread::sleep(Duration::from_millis(20));
    let twice = child.try_wait().expect("known").is_none();
    if twice {
        interrupt(&child);
    }
    let status = child.wait().expect("ended");
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    whole(&bench.desk.path("out"));
}

/// The size of the largest file, in bytes.
fn largest(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("listed"));
    let size = |entry: fs::DirEntry| {
        let meta = entry.metadata().expect("there");
        if meta.is_dir() { largest(&entry.path()) } else { meta.len() }
    };
    entries.map(size).max().unwrap_or(0)
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing_half() {
    let bench = Bench::new(&["--no-diagnosis"]);
    let code = bench.finish("unbroken", &[]);
    // In blocks of 512 bytes: nothing at all, manifests alone, some prompts, everything but the largest file.
    let largest = largest(&bench.desk.path("unbroken")) / 512;
    for blocks in [0, 8, 64, largest - 1] {
        let out = format!("out{blocks}");
        let desk = bench.desk.path(".");
        let program = env!("CARGO_BIN_EXE_fidelity");
        let limited = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &limited,
            program,
            "run",
            "--prompts",
            "p.jsonl",
            "--new-tokens",
            "6",
            "--scopes",
            "base,tbt",
        ]);
        command.args(["--no-cache", "--quiet", "--no-diagnosis", "--out", &out]).current_dir(desk);
        let output = command.env("FIDELITY_CACHE", bench.desk.path("cache")).output().expect("starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), None, "{blocks}: it was not killed: {said}");
        assert_eq!(output.status.code(), Some(4), "{blocks}: {said}");
        assert!(said.contains("error: cannot write") && said.contains("File too large"), "{blocks}: {said}");
        whole(&bench.desk.path(&out));
        assert!(left_over(&bench.desk.path(&out)).is_empty(), "{blocks}: it tidied up");
        assert_eq!(bench.finish(&out, &["--resume"]), code, "{blocks}: with room again");
        assert!(bench.verdict(&out) == bench.verdict("unbroken"), "{blocks}");
    }
}

#[test]
fn a_verdict_that_cannot_be_told_is_no_pass() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("not run: there is no /dev/full here");
        return;
    };
    let bench = Bench::new(&["--no-diagnosis", "--recipe", "none"]);
    let status = bench.command("out", &["--json"]).stdout(full).status().expect("starts");
    assert_eq!(status.code(), Some(4));
    assert!(bench.desk.path("out/verdict.json").is_file());
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_that_names_it() {
    let bench = Bench::new(&["--no-diagnosis"]);
    bench.desk.write("file", "");
    // Root may write into a folder of mode 555, nobody below a file or into what the kernel keeps.
    let mut places = vec!["file/out", "/proc/fidelity-out"];
    let locked = bench.desk.path("locked");
    fs::create_dir(&locked).expect("creates");
    fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o555)).expect("its own");
    match fs::write(locked.join("probe"), "") {
        Err(_) => places.push("locked/out"),
        Ok(()) => eprintln!("not run on a folder of mode 555: its mode binds not whoever runs this"),
    }
    for place in places {
        let answer = bench.desk.fidelity(&["run", "--prompts", "p.jsonl", "--new-tokens", "1", "--out", place]);
        assert_eq!(answer.code, Some(4), "{place}: {answer:?}");
        assert!(answer.stderr.starts_with(&format!("error: cannot create {place}")), "{place}: {}", answer.stderr);
    }
}
