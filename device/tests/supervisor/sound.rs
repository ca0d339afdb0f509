//! Workers that do nothing wrong.

use std::{fs, thread, time::Duration};

use fidelity_device::{
    session::Feeding,
    supervisor::{Failure, Settings, inquire},
    worker::DeviceState,
};
use fidelity_trace::{Scope, Site, Status};

use crate::{
    bench::{Bench, files, prompts, tests},
    fake_chip::logits,
    small_llm::{LENGTH, VOCABULARY, number, small, with_codes},
};

tests!(
    a_trace_holds_every_scope_row_by_row,
    a_finished_trace_is_resumed_without_computing,
    what_is_open_is_told,
    a_device_has_one_owner,
    who_waits_gets_the_device,
    an_inventory_lists_devices_and_their_owners,
);

fn a_trace_holds_every_scope_row_by_row() {
    let bench = Bench::new();
    let trace = bench.unbroken();
    let manifest = trace.manifest();
    assert!(manifest.complete);
    assert_eq!(manifest.logits_step.as_ref().map(Vec::len), Some(2), "a step a shard");
    for (index, prompt) in prompts().iter().enumerate() {
        let record = &manifest.prompts[index];
        assert_eq!((record.status, &record.error), (Status::Ok, &None));
        let read = trace.prompt(index).expect("readable");
        let prefill = &read.scopes[&Scope::Prefill];
        assert_eq!(prefill.positions, (0..prompt.token_ids.len() as u32).collect::<Vec<_>>(), "in order");
        let numbers: Vec<u32> = prompt.token_ids.iter().map(|token| number(*token)).collect();
        for row in 0..numbers.len() {
            let expected = logits(&numbers[..=row], LENGTH, VOCABULARY as usize);
            assert_eq!(prefill.sites[&Site::Logits].row(row), expected, "{index} {row}");
        }
        assert_eq!(read.scopes[&Scope::Tbt].positions.len(), 3, "the last id is never fed");
        assert_eq!(read.scopes[&Scope::TbtSelf].positions, read.scopes[&Scope::Tbt].positions);
        assert_eq!(record.generated.as_ref().map(|generated| generated.ids.len()), Some(4));
    }
    assert!(bench.retries().is_empty());
}

fn a_finished_trace_is_resumed_without_computing() {
    let bench = Bench::new();
    bench.unbroken();
    let before = files(&bench.path("unbroken"));
    // Any run would end this worker.
    bench.record("chip - run:0:crash", "unbroken", true);
    assert_eq!(files(&bench.path("unbroken")), before);
}

fn what_is_open_is_told() {
    let bench = Bench::new();
    let arm = bench.open(bench.settings("chip")).expect("opens");
    let opened = arm.opened();
    assert_eq!((opened.geometry.feeding, opened.geometry.cache_length), (Feeding::PrefillAndTbt, LENGTH));
    assert_eq!((opened.device.id.as_str(), opened.versions.library.as_str()), ("0000:01:00.0", "5.2.0"));
    assert_eq!(opened.sha256.len(), 64);
    assert_eq!((opened.audit.as_str(), &arm.audit()["outcome"]), ("pass", &"pass".into()));
}

fn a_device_has_one_owner() {
    let bench = Bench::new();
    let first = bench.open(bench.settings("chip")).expect("opens");
    let Err(failure) = bench.open(bench.settings("chip")) else { panic!("the first has it") };
    assert!(matches!(failure, Failure::InUse { .. }), "{failure}");
    let pid = fs::read_to_string(bench.path("fidelity-device-0000-01-00-0.lock")).expect("the lock");
    assert_eq!(
        failure.to_string(),
        format!("device 0000:01:00.0 is in use by pid {}; wait for it with --wait", pid.trim())
    );
    drop(first);
    bench.open(bench.settings("chip")).expect("free again");
}

fn who_waits_gets_the_device() {
    let bench = Bench::new();
    let first = bench.open(bench.settings("chip")).expect("opens");
    let leaves = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        drop(first);
    });
    let settings = Settings { wait: Duration::from_secs(20), ..bench.settings("chip") };
    bench.open(settings).expect("opens after the first has left");
    leaves.join().expect("no panic");
}

fn an_inventory_lists_devices_and_their_owners() {
    let bench = Bench::with(&with_codes(small().hef()));
    let ask = |mode: &str| inquire(&bench.command(mode), Duration::from_secs(20)).expect("answers");
    let free = ask("chip");
    assert!(matches!(&free.devices[..], [(id, DeviceState::Free(_))] if id == "0000:01:00.0"), "{free:?}");
    let _arm = bench.open(bench.settings("chip")).expect("opens");
    let taken = ask("chip");
    assert!(matches!(&taken.devices[..], [(_, DeviceState::InUse(Some(_)))]), "{taken:?}");
    let none = ask("no-library");
    assert!(!none.has_library && none.devices.is_empty());
}
