//! One thread a job.
//!
//! Candle's pools take their size from the environment alone, once, and each job calling into pools as wide as the machine
//! makes the pools fight each other: on two cores, 16 prompts of SmolLM2-135M took 46 s that way and 27 s with one thread
//! a job. Setting a variable of a running process is not safe, so the program replaces itself by itself with the variables
//! set. Whoever sets either of them is left alone, and so is a single prompt, which has but one job.

use std::env;

use crate::args::{Command, PromptArgs};

const VARIABLES: [&str; 2] = ["CANDLE_NUM_THREADS", "RAYON_NUM_THREADS"];

/// Does not return if the program was replaced.
pub(crate) fn one_a_job(command: &Command) {
    if prompts(command).is_some_and(|prompts| prompts.prompt.len() != 1)
        && VARIABLES.iter().all(|name| env::var_os(name).is_none())
    {
        replace();
    }
}

fn prompts(command: &Command) -> Option<&PromptArgs> {
    match command {
        Command::Run(run) => Some(&run.prompts),
        Command::Reference(reference) => Some(&reference.prompts),
        Command::Record(record) => Some(&record.prompts),
        Command::Compare(_) | Command::Import(_) | Command::Report(_) | Command::List(_) | Command::Cache(_) => None,
    }
}

#[cfg(unix)]
fn replace() {
    use std::os::unix::process::CommandExt;
    let Ok(program) = env::current_exe() else { return };
    let mut same = std::process::Command::new(program);
    // What a person typed is kept, for the report says how to reproduce the run.
    let mut arguments = env::args_os();
    if let Some(name) = arguments.next() {
        same.arg0(name);
    }
    // Comes back only when it failed; the run is slower then, not wrong.
    let _ = same.args(arguments).envs(VARIABLES.map(|name| (name, "1"))).exec();
}

#[cfg(not(unix))]
fn replace() {}
