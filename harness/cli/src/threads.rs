//! One pool of threads.
//!
//! The kernels spread their work over rayon's pool. Candle, which computes in float64, has a pool of its own whose threads spin
//! while they wait, and takes its size from the environment alone, once. Setting a variable of a running process is not safe,
//! so the program replaces itself by itself with the variable set. Whoever sets it is left alone.

use std::{env, num::NonZeroUsize};

use crate::args::Command;

const VARIABLE: &str = "CANDLE_NUM_THREADS";

/// Does not return if the program was replaced.
pub(crate) fn one_pool(command: &Command) {
    let computes = match command {
        Command::Run(_) | Command::Reference(_) | Command::Record(_) | Command::Profile(_) | Command::Advise(_) => true,
        Command::Diagnose(_)
        | Command::Selftest(_)
        | Command::Forge(_)
        | Command::Bisect(_)
        | Command::Sweep(_)
        | Command::Merge(_) => true,
        Command::Gate(gate) => gate.run.is_none(),
        Command::Audit(_) | Command::Cache(_) | Command::Compare(_) | Command::Import(_) => false,
        Command::Attribute(_) | Command::List(_) | Command::Report(_) | Command::Doctor(_) | Command::Bless(_) => false,
        Command::History(_) | Command::Completions(_) => false,
        #[cfg(feature = "hailo")]
        Command::Worker => false,
    };
    if computes && env::var_os(VARIABLE).is_none() {
        replace();
    }
}

/// Sizes the pool of the kernels, one thread a core unless asked otherwise, and returns its size.
pub(crate) fn use_cores(asked: Option<NonZeroUsize>) -> usize {
    if let Some(threads) = asked {
        // Fails only if the pool is in use already, at another size: slower then, not wrong.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global();
    }
    rayon::current_num_threads()
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
    let _ = same.args(arguments).env(VARIABLE, "1").exec();
}

#[cfg(not(unix))]
fn replace() {}
