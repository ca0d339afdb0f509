//! Workers and files that cannot be opened.

use std::{fs, time::Duration};

use fidelity_device::supervisor::{Failure, Patience, Settings};
use fidelity_hef_writer::hef_writer::Hef;
use fidelity_trace::Scope;

use crate::{
    bench::{Bench, tests},
    small_llm::{small, whole, with_codes},
};

tests!(
    commands_that_start_nothing,
    a_greeting_is_no_frame,
    another_version_is_named,
    a_silent_worker_is_killed,
    a_closed_pipe_is_an_end,
    a_worker_without_the_library_says_so,
    files_that_cannot_be_used,
    a_failed_audit_stops_unless_accepted,
    a_file_without_caches_is_fed_whole_sequences,
    a_busy_device_is_waited_for,
    what_our_own_worker_still_has_is_waited_for,
    the_first_device_that_can_be_had_is_taken,
    what_may_help_is_tried_and_what_may_not_is_not,
);

#[track_caller]
fn refused(bench: &Bench, settings: Settings) -> Failure {
    match bench.open(settings) {
        Ok(_) => panic!("it must not open"),
        Err(failure) => failure,
    }
}

#[track_caller]
fn says(failure: &Failure, said: &str) {
    assert!(failure.to_string().contains(said), "{failure} does not say {said:?}");
}

fn commands_that_start_nothing() {
    let bench = Bench::new();
    for (command, said) in [
        ("", "it names no program"),
        ("ssh 'pi5", "a quote is not closed"),
        ("/nonexistent/fidelity-worker --flag", "cannot start /nonexistent/fidelity-worker: No such file"),
    ] {
        let failure = refused(&bench, Settings { command: command.into(), ..bench.settings("chip") });
        assert!(matches!(failure, Failure::Command { .. }));
        says(&failure, said);
    }
    let failure =
        refused(&bench, Settings { command: "sh -c 'echo broken >&2; exit 3'".into(), ..bench.settings("chip") });
    says(&failure, "the worker ended (exit status: 3) while starting; it said: broken");
    assert_eq!(bench.retries().len(), 2, "an end may be a mishap");
}

fn a_greeting_is_no_frame() {
    let bench = Bench::new();
    let failure = refused(&bench, bench.settings("greets"));
    assert!(matches!(failure, Failure::Garbled { .. }), "{failure}");
    says(&failure, "no frame begins with `Welcome to this machine!");
    assert!(bench.retries().is_empty());
}

fn another_version_is_named() {
    let bench = Bench::new();
    let failure = refused(&bench, bench.settings("old"));
    says(&failure, "the worker (9.9.9) speaks protocol 2, this program 1");
    assert!(bench.retries().is_empty());
}

fn a_silent_worker_is_killed() {
    let bench = Bench::new();
    let start = Duration::from_millis(200);
    let settings = bench.settings("silent");
    let failure = refused(&bench, Settings { patience: Patience { start, ..settings.patience }, ..settings });
    says(&failure, "no sign of life for 0.2 s while starting and was killed");
    assert_eq!(bench.retries().len(), 2);
}

fn a_closed_pipe_is_an_end() {
    let bench = Bench::new();
    let settings = Settings { attempts: fidelity_device::supervisor::Attempts::none(), ..bench.settings("closes") };
    says(&refused(&bench, settings), "while opening the HEF");
}

fn a_worker_without_the_library_says_so() {
    let bench = Bench::new();
    let failure = refused(&bench, bench.settings("no-library"));
    says(&failure, "built without HailoRT; build it with --features hailo");
}

fn files_that_cannot_be_used() {
    let bench = Bench::new();
    let mut settings = bench.settings("chip");
    settings.hef = bench.path("none.hef").display().to_string();
    says(&refused(&bench, settings), "none.hef: cannot read it: No such file");
    let mut settings = bench.settings("chip");
    settings.sha256 = Some("00".repeat(32));
    says(&refused(&bench, settings), "expected 000000");
    fs::write(bench.hef(), "version https://git-lfs.github.com/spec/v1\n").expect("writes");
    says(&refused(&bench, bench.settings("chip")), "not a HEF");
    assert!(bench.retries().is_empty(), "no repetition helps");
}

fn a_failed_audit_stops_unless_accepted() {
    let mut hef: Hef = with_codes(small().hef());
    hef.resources[0].hash = Some(1);
    let bench = Bench::with(&hef);
    says(&refused(&bench, bench.settings("chip")), "1 checks of the audit fail, the first: resource");
    let arm = bench.open(Settings { accept_failed_audit: true, ..bench.settings("chip") }).expect("opens");
    assert_eq!(arm.opened().audit, "fail");
}

fn a_file_without_caches_is_fed_whole_sequences() {
    let bench = Bench::with(&whole(8, 1));
    let arm = bench.open(bench.settings("chip")).expect("opens");
    assert_eq!((arm.scopes(), arm.opened().audit.as_str()), (&[Scope::Base][..], "fail"));
    let mut broken = whole(8, 1);
    broken.resources[0].hash = Some(1);
    let bench = Bench::with(&broken);
    says(&refused(&bench, bench.settings("chip")), "1 checks of the audit fail, the first: resource");
}

fn a_busy_device_is_waited_for() {
    let bench = Bench::new();
    let once = |name: &str| format!("chip {} open:0:status:73", bench.path(name).display());
    let failure = refused(&bench, bench.settings(&once("first")));
    says(&failure, "device 0000:01:00.0 is in use by another program");
    bench.open(Settings { wait: Duration::from_secs(10), ..bench.settings(&once("second")) }).expect("opens");
}

fn what_our_own_worker_still_has_is_waited_for() {
    let bench = Bench::new();
    // Whoever comes after a failure finds the device in use once, though --wait was not given.
    let once = bench.path("once");
    let mode = format!("chip {} open:0:status:8 - open:0:status:73", once.display());
    bench.open(bench.settings(&mode)).expect("opens");
    assert_eq!(bench.retries().len(), 1);
}

fn the_first_device_that_can_be_had_is_taken() {
    let bench = Bench::new();
    let arm = bench.open(bench.settings("two-chips - open:0:status:75")).expect("opens the second");
    assert_eq!(arm.opened().device.id, "0000:02:00.0");
    drop(arm);
    let chosen = Settings { device: Some("0000:01:00.0".into()), ..bench.settings("two-chips - open:0:status:75") };
    says(&refused(&bench, chosen), "75");
    for (first, second) in [(75, 73), (73, 75)] {
        let mode = format!("two-chips - open:0:status:{first} - open:1:status:{second}");
        let failure = refused(&bench, bench.settings(&mode));
        assert!(matches!(failure, Failure::InUse { .. }), "{failure}");
    }
    let failure = refused(&bench, bench.settings("two-chips - open:0:status:75 - open:1:status:76"));
    assert!(matches!(failure, Failure::Device { .. }), "{failure}");
    says(&failure, "75");
}

fn what_may_help_is_tried_and_what_may_not_is_not() {
    // Status, and how often is tried again when it never goes away.
    for (call, status, expected) in [
        ("open", 64, 0),
        ("open", 76, 0),
        ("open", 89, 2),
        ("open", 74, 2),
        ("configure", 93, 0),
        ("configure", 8, 1),
        ("configure", 4, 1),
        ("configure", 88, 1),
        ("configure", 62, 2),
    ] {
        let bench = Bench::new();
        let failure = refused(&bench, bench.settings(&format!("chip - {call}:0:status:{status}")));
        assert!(matches!(failure, Failure::Device { .. }), "{failure}");
        assert!(failure.to_string().contains(&status.to_string()), "{failure}");
        assert_eq!(bench.retries().len(), expected, "{call} {status}: {:?}", bench.retries());
    }
}
