//! One process, one file.

use std::{fs, path::PathBuf};

use fidelity_history::{History, HistoryError};
use fidelity_verdict::PastRun;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::sample::run;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("runs/history.db");
    (folder, path)
}

#[test]
fn what_was_appended_is_read_again_with_all_its_parts() {
    let (_folder, path) = place();
    History::open(&path).expect("opens").append(&run("a")).expect("appends");
    assert_eq!(History::existing(&path).expect("opens").runs(None).expect("reads"), [run("a")]);
}

#[test]
fn a_run_recorded_twice_is_one_run_as_it_was_last() {
    let (_folder, path) = place();
    let mut history = History::open(&path).expect("opens");
    history.append(&run("a")).expect("appends");
    history.append(&run("b")).expect("appends");
    let mut resumed = PastRun { wall_seconds: 3.5, exit_code: 0, ..run("a") };
    resumed.scopes.pop_first();
    resumed.versions.remove("recipe");
    history.append(&resumed).expect("appends");
    let runs = history.runs(None).expect("reads");
    assert_eq!(runs.len(), 2);
    assert!(runs.contains(&resumed) && runs.contains(&run("b")));
}

#[test]
fn runs_come_in_the_order_they_began_and_by_checkpoint() {
    let (_folder, path) = place();
    let mut history = History::open(&path).expect("opens");
    for (id, begun, checkpoint) in [
        ("late", "2026-11-30T22:41:07Z", "demo"),
        ("early", "2026-11-29T22:41:07Z", "demo"),
        ("other", "2026-11-28T22:41:07Z", "demo'; --"),
    ] {
        let appended = PastRun { begun: begun.into(), checkpoint: checkpoint.into(), ..run(id) };
        history.append(&appended).expect("appends");
    }
    let ids = |checkpoint| -> Vec<String> {
        history.runs(checkpoint).expect("reads").into_iter().map(|run| run.id).collect()
    };
    assert_eq!(ids(None), ["other", "early", "late"]);
    assert_eq!(ids(Some("demo")), ["early", "late"]);
    assert_eq!(ids(Some("demo'; --")), ["other"]);
    assert!(ids(Some("")).is_empty());
}

#[test]
fn what_was_written_and_not_committed_is_not_there() {
    let (_folder, path) = place();
    let mut history = History::open(&path).expect("opens");
    history.append(&run("a")).expect("appends");
    drop(history.write(&run("b")).expect("writes"));
    drop(history.write(&PastRun { exit_code: 4, ..run("a") }).expect("writes"));
    assert_eq!(history.runs(None).expect("reads"), [run("a")]);
}

#[test]
fn a_history_of_a_later_schema_is_refused_and_left_as_it_is() {
    let (_folder, path) = place();
    History::open(&path).expect("opens").append(&run("a")).expect("appends");
    let set = |version: i64| {
        let connection = Connection::open(&path).expect("opens");
        connection.pragma_update(None, "user_version", version).expect("writes");
    };
    set(2);
    for refused in [History::open(&path), History::existing(&path)] {
        let error = refused.expect_err("refused");
        assert!(matches!(error, HistoryError::Newer { found: 2, known: 1, .. }), "{error}");
        assert!(error.to_string().contains("has schema 2, and this version knows up to 1"), "{error}");
    }
    set(1);
    assert_eq!(History::existing(&path).expect("opens").runs(None).expect("reads").len(), 1);
}

#[test]
fn a_database_of_something_else_is_refused_and_left_as_it_is() {
    let (_folder, path) = place();
    fs::create_dir_all(path.parent().expect("inside")).expect("creates");
    for statement in ["CREATE TABLE theirs (x)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"] {
        Connection::open(&path).expect("opens").execute_batch(statement).expect("writes");
        let error = History::open(&path).expect_err("refused");
        assert!(matches!(error, HistoryError::Foreign { .. }), "{statement}: {error}");
        fs::remove_file(&path).expect("there");
    }
}

#[test]
fn a_damaged_file_is_said_to_be_damaged() {
    let (_folder, path) = place();
    let mut history = History::open(&path).expect("opens");
    for index in 0..200 {
        history.append(&run(&index.to_string())).expect("appends");
    }
    drop(history);
    let whole = fs::read(&path).expect("there");
    type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);
    let damage: [Damage<'_>; 4] = [
        &|bytes| bytes[..16].copy_from_slice(b"this is no data\0"),
        &|bytes| bytes.truncate(bytes.len() / 2),
        &|bytes| bytes[4096..].iter_mut().step_by(7).for_each(|byte| *byte ^= 0x5a),
        &|bytes| *bytes = b"hello".to_vec(),
    ];
    for (index, change) in damage.iter().enumerate() {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&path, bytes).expect("writes");
        let error = History::existing(&path).err();
        let error = error.unwrap_or_else(|| panic!("damage {index} was not seen"));
        assert!(matches!(error, HistoryError::Damaged { .. }), "damage {index}: {error}");
        assert!(error.to_string().contains("move it away"), "{error}");
    }
}

#[test]
fn a_value_that_means_nothing_is_damage() {
    let (_folder, path) = place();
    History::open(&path).expect("opens").append(&run("a")).expect("appends");
    Connection::open(&path)
        .expect("opens")
        .execute_batch("UPDATE scopes SET scope = 'sideways\u{1b}' WHERE scope = 'tbt'")
        .expect("writes");
    let error = History::existing(&path).expect("opens").runs(None).expect_err("no such scope");
    assert!(matches!(error, HistoryError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("`sideways\\u{1b}` is no scope"), "{error}");
}

#[test]
fn what_is_not_there_is_not_made_by_reading() {
    let (_folder, path) = place();
    assert!(matches!(History::existing(&path).err(), Some(HistoryError::Absent { .. })));
    assert!(!path.exists() && !path.parent().expect("inside").exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_named_with_the_remedy() {
    let (folder, _) = place();
    fs::write(folder.path().join("runs"), "a file").expect("writes");
    let error = History::open(&folder.path().join("runs/history.db")).expect_err("refused");
    assert!(matches!(error, HistoryError::Folder { .. }) && error.to_string().contains("--history"), "{error}");
}
