//! Several processes, some of them killed. The test program starts itself again as a writer.

use std::{
    env,
    io::{BufRead, BufReader, Write, stdout},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use fidelity_history::History;

use crate::sample::run;

const FILE: &str = "FIDELITY_TEST_HISTORY";
const NAME: &str = "FIDELITY_TEST_WRITER";
const RUNS: &str = "FIDELITY_TEST_RUNS";

/// Starts a writer that appends `runs` runs, says the id of each that was acknowledged, then writes one more without a commit.
fn start(path: &Path, name: &str, runs: usize) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "writers::a_writer", "--ignored", "--nocapture"]);
    command.env(FILE, path).env(NAME, name).env(RUNS, runs.to_string()).stdout(Stdio::piped());
    command.spawn().expect("starts")
}

#[test]
#[ignore = "a process of the other tests"]
fn a_writer() {
    let asked = |variable| env::var(variable).expect("started by the other tests");
    let (name, runs): (_, usize) = (asked(NAME), asked(RUNS).parse().expect("a number"));
    let path = asked(FILE);
    let say = |text: &str| {
        let mut output = stdout().lock();
        writeln!(output, "\n{text}").and_then(|()| output.flush()).expect("somebody listens");
    };
    for index in 0..runs {
        // Each as a process of its own would.
        let mut history = History::open(Path::new(&path)).expect("opens");
        let id = format!("{name}-{index}");
        history.append(&run(&id)).expect("appends");
        say(&format!("kept {id}"));
    }
    let mut history = History::open(Path::new(&path)).expect("opens");
    let pending = history.write(&run(&format!("{name}-pending"))).expect("writes");
    say("written");
    // Until it is killed.
    thread::sleep(Duration::from_secs(600));
    drop(pending);
}

/// What a writer acknowledged until `enough` says so, or it ended.
fn acknowledged(child: &mut Child, mut enough: impl FnMut(&str) -> bool) -> Vec<String> {
    let mut kept = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        kept.extend(line.strip_prefix("kept ").map(str::to_owned));
        if enough(&line) {
            break;
        }
    }
    kept
}

fn stored(path: &Path) -> Vec<String> {
    let runs = History::existing(path).expect("opens").runs(None).expect("reads");
    let mut ids: Vec<String> = runs.into_iter().map(|run| run.id).collect();
    ids.sort();
    ids
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("history.db");
    let names = ["a", "b", "c", "d"];
    let readers: Vec<_> = names
        .into_iter()
        .map(|name| {
            let mut child = start(&path, name, 15);
            thread::spawn(move || {
                let kept = acknowledged(&mut child, |line| line == "kept a-14" || line.ends_with("-14"));
                child.kill().expect("runs");
                child.wait().expect("ended");
                kept
            })
        })
        .collect();
    let mut kept: Vec<String> = readers.into_iter().flat_map(|reader| reader.join().expect("ends")).collect();
    kept.sort();
    assert_eq!(kept.len(), names.len() * 15);
    assert_eq!(stored(&path), kept);
}

#[test]
fn a_writer_killed_between_write_and_commit_loses_nothing_acknowledged_and_stops_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("history.db");
    let mut child = start(&path, "killed", 3);
    let kept = acknowledged(&mut child, |line| line == "written");
    child.kill().expect("runs");
    child.wait().expect("ended");
    assert_eq!(kept, ["killed-0", "killed-1", "killed-2"]);
    assert_eq!(stored(&path), kept, "and what was not committed is not there");
    History::open(&path).expect("opens").append(&run("next")).expect("its lock went with it");
    assert_eq!(stored(&path).len(), 4);
}

#[test]
fn writers_killed_anywhere_lose_nothing_acknowledged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("history.db");
    let mut all = Vec::new();
    for round in 0..20_u64 {
        let mut child = start(&path, &format!("round{round}"), 1000);
        let process = child.id();
        let mut seen = 0;
        // From the first moments, where the file is made, to the middle of a long series.
        thread::sleep(Duration::from_millis(round * 2));
        if round >= 4 {
            all.extend(acknowledged(&mut child, |line| {
                seen += usize::from(line.starts_with("kept"));
                seen as u64 == round
            }));
        }
        child.kill().unwrap_or_else(|error| panic!("{process}: {error}"));
        child.wait().expect("ended");
    }
    let stored = stored(&path);
    let lost: Vec<_> = all.iter().filter(|id| !stored.contains(id)).collect();
    assert!(lost.is_empty() && all.len() > 100, "lost {lost:?} of {}", all.len());
    assert!(stored.iter().all(|id| !id.ends_with("pending")));
}
