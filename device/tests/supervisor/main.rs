//! The supervisor and workers that misbehave. The test's program starts itself as worker: `supervisor worker MODE …`.

#[expect(dead_code, reason = "what the session's tests need")]
#[path = "../support/fake_chip.rs"]
mod fake_chip;
mod fake_worker;
#[expect(dead_code, reason = "what the session's tests need")]
#[path = "../support/small_llm.rs"]
mod small_llm;

mod bench;
mod mishaps;
mod opening;
mod sound;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("worker") {
        return fake_worker::run(words.next().as_deref().unwrap_or_default());
    }
    let tests = [sound::TESTS, mishaps::TESTS, opening::TESTS].concat();
    // A failure is a panic, which is caught.
    let passed = |test: fn()| {
        test();
        Ok::<(), Failed>(())
    };
    let trials = tests.into_iter().map(|(name, test)| Trial::test(name, move || passed(test))).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
