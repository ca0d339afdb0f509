//! Workers that go wrong while they compute: the trace is the same as an unbroken one, or says what was lost.

use std::fs;

use fidelity_hef_writer::hef_writer::Hef;
use fidelity_trace::{Status, Trace};

use crate::{
    bench::{Bench, files, tests},
    small_llm::{small, with_codes},
};

tests!(
    one_mishap_leaves_no_mark,
    a_timeout_of_setting_the_offset_costs_no_process,
    what_cannot_be_saved_is_failed_and_the_others_go_on,
    a_failed_prompt_is_computed_on_resuming,
    a_crash_says_its_last_words,
    a_late_answer_in_time_is_an_answer,
    another_file_after_a_restart_is_not_taken,
    a_dead_device_costs_later_prompts_one_attempt,
);

#[track_caller]
fn same(bench: &Bench, folder: &str) {
    let (found, expected) = (files(&bench.path(folder)), files(&bench.path("unbroken")));
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found == expected, "{} differs", found.0);
    }
}

fn one_mishap_leaves_no_mark() {
    let bench = Bench::new();
    bench.unbroken();
    // The ninth run is in the middle of the first prompt, run 25 in the last.
    let mishaps = [
        "run:8:crash",
        "run:25:crash",
        "run:8:hang",
        "run:0:status:4",
        "run:12:status:8",
        "update:5:status:88",
        "run:9:status:62",
        "run:9:late:60000",
        "init:2:hang",
        "init:1:crash",
    ];
    for (index, mishap) in mishaps.into_iter().enumerate() {
        let (once, folder) = (bench.path(&format!("once{index}")), format!("trace{index}"));
        let before = bench.retries().len();
        bench.record(&format!("chip {} {mishap}", once.display()), &folder, false);
        same(&bench, &folder);
        assert_eq!(bench.retries().len(), before + 1, "{mishap}: {:?}", bench.retries());
    }
}

fn a_timeout_of_setting_the_offset_costs_no_process() {
    let bench = Bench::new();
    bench.unbroken();
    bench.record("chip - init:1:done:4 - init:4:status:4 - update:3:done:4", "trace", false);
    same(&bench, "trace");
    assert!(bench.retries().is_empty());
}

fn statuses(trace: &Trace) -> Vec<Status> {
    trace.manifest().prompts.iter().map(|prompt| prompt.status).collect()
}

fn error(trace: &Trace, index: usize) -> &str {
    trace.manifest().prompts[index].error.as_deref().expect("why")
}

fn what_cannot_be_saved_is_failed_and_the_others_go_on() {
    // The first prompt alone takes so many runs. The others share a process: the last is saved by a new one, where one helps.
    for (mishap, said, retries) in [
        ("- run:18:crash", "the worker ended (signal: 6 (SIGABRT)", 3),
        ("- run:18:status:8", "8", 2),
        ("- run:18:hang", "no sign of life for 2 s while computing scope", 3),
        ("ONCE run:18:status:2", "2", 0),
    ] {
        let bench = Bench::new();
        let mishap = mishap.replace("ONCE", &bench.path("once").display().to_string());
        let trace = bench.record(&format!("chip {mishap}"), "trace", false);
        assert_eq!(statuses(&trace), [Status::Failed, Status::Ok, Status::Ok], "{mishap}");
        assert!(error(&trace, 0).contains(said), "{mishap}: {}", error(&trace, 0));
        assert!(trace.manifest().complete, "every prompt was tried");
        assert_eq!(bench.retries().len(), retries, "{mishap}: {:?}", bench.retries());
    }
}

fn a_failed_prompt_is_computed_on_resuming() {
    let bench = Bench::new();
    bench.unbroken();
    let mode = format!("chip {} run:16:status:2", bench.path("once").display());
    let broken = bench.record(&mode, "trace", false);
    assert_eq!(statuses(&broken), [Status::Failed, Status::Ok, Status::Ok]);
    bench.record("chip", "trace", true);
    same(&bench, "trace");
}

fn a_crash_says_its_last_words() {
    let bench = Bench::new();
    let trace = bench.record("chip - run:18:crash", "trace", false);
    assert!(error(&trace, 0).ends_with("; it said: [HailoRT] [info] noise on stdout"), "{}", error(&trace, 0));
}

fn a_late_answer_in_time_is_an_answer() {
    let bench = Bench::new();
    bench.unbroken();
    bench.record("chip - run:9:late:900", "trace", false);
    same(&bench, "trace");
    assert!(bench.retries().is_empty());
}

fn another_file_after_a_restart_is_not_taken() {
    let bench = Bench::new();
    let arm = bench.open(bench.settings("chip - run:18:crash")).expect("opens");
    let mut other: Hef = with_codes(small().hef());
    other.ccws[0] += 1;
    fs::write(bench.hef(), other.v3()).expect("writes");
    let trace = bench.record_with(&arm, "trace", false);
    assert_eq!(statuses(&trace), [Status::Failed; 3]);
    assert!(error(&trace, 0).contains("another HEF than before; start a new run"), "{}", error(&trace, 0));
}

fn a_dead_device_costs_later_prompts_one_attempt() {
    let bench = Bench::new();
    let alive = bench.path("alive");
    // The first process opens the device; no later one does.
    fs::write(&alive, "").expect("writes");
    let mode = format!("chip - run:3:status:62 @{} open:0:status:96", alive.display());
    let arm = bench.open(bench.settings(&mode)).expect("opens");
    fs::remove_file(&alive).expect("there");
    let trace = bench.record_with(&arm, "trace", false);
    assert_eq!(statuses(&trace), [Status::Failed; 3]);
    assert!(error(&trace, 2).contains("96"), "{}", error(&trace, 2));
    assert_eq!(bench.retries().len(), 2, "all by the first prompt: {:?}", bench.retries());
}
