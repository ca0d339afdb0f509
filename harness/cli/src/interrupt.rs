//! Signals. The first SIGINT lets the current step end, so that what is finished is written; a second one ends the program at once.
//!
//! A step is what [`fidelity_trace::record`] computes together, a comparison, or a batch of a search for the fault.

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
};

use fidelity_verdict::ExitCode;

use crate::{
    args::Command,
    error::CliError,
    output::{complain, narrate},
};

/// The folder whose work `--resume` goes on with.
static KEPT_IN: Mutex<Option<PathBuf>> = Mutex::new(None);

pub(crate) use signals::asked;

/// Begins to listen. Commands that leave nothing to go on with end at once, as any program does.
pub(crate) fn listen(command: &Command) {
    signals::mind_file_sizes();
    if matches!(command, Command::Run(_) | Command::Reference(_) | Command::Record(_) | Command::Diagnose(_)) {
        signals::mind_interrupts();
    }
}

/// Remembers where finished work is.
pub(crate) fn kept_in(folder: &Path) {
    if let Ok(mut kept) = KEPT_IN.lock() {
        *kept = Some(folder.to_owned());
    }
}

/// Between two steps: an error if it was asked to stop.
pub(crate) fn check() -> Result<(), CliError> {
    match asked() {
        true => Err(interrupted()),
        false => Ok(()),
    }
}

pub(crate) fn interrupted() -> CliError {
    CliError::Interrupted { kept: KEPT_IN.lock().ok().and_then(|kept| kept.clone()) }
}

/// The same where no error can be returned; everything that is to be kept is on the disk.
pub(crate) fn leave_if_asked() {
    if asked() {
        complain(&interrupted());
        std::process::exit(ExitCode::Interrupted.code().into());
    }
}

/// What the program exits with: whoever pressed Ctrl-C gets 130, also when there was nothing left to do.
pub(crate) fn exit_code(code: u8) -> u8 {
    if !asked() {
        return code;
    }
    narrate("interrupted when all was done; the verdict stands");
    ExitCode::Interrupted.code()
}

#[cfg(unix)]
mod signals {
    use std::sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    };

    use fidelity_verdict::ExitCode;
    use signal_hook::{
        consts::{SIGINT, SIGXFSZ},
        flag,
    };

    use crate::output::warn;

    static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

    /// Whether it was asked to stop.
    pub(crate) fn asked() -> bool {
        ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
    }

    pub(super) fn mind_interrupts() {
        let asked = Arc::clone(ASKED.get_or_init(Arc::default));
        // In this order: the first sets the flag, the second finds it set.
        let code = ExitCode::Interrupted.code().into();
        let registered = flag::register_conditional_shutdown(SIGINT, code, Arc::clone(&asked))
            .and_then(|_| flag::register(SIGINT, asked));
        if let Err(error) = registered {
            warn(&format!("cannot listen to SIGINT: {error}; an interrupt ends the program at once"));
        }
    }

    /// A file that may not grow (`ulimit -f`) is an error to be told, not a death without a word.
    pub(super) fn mind_file_sizes() {
        // Where it cannot be registered, the signal ends the program as it would have.
        let _ = flag::register(SIGXFSZ, Arc::default());
    }
}

#[cfg(not(unix))]
mod signals {
    pub(crate) fn asked() -> bool {
        false
    }

    pub(super) fn mind_interrupts() {}

    pub(super) fn mind_file_sizes() {}
}
