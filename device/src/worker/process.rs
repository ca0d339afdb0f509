//! The worker as a process: streams, threads, signals, its end.

use std::{
    env,
    io::{self, BufReader, BufWriter},
    process::ExitCode,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::{Pid, dup2_stdout},
};

use super::{
    desk::{Desk, End},
    frame::read_frame,
};
use crate::chip::Library;

/// How long a device may go on once nobody asks any more.
const GRACE: Duration = Duration::from_secs(3);
/// Requests read ahead: the supervisor sends one at a time.
const AHEAD: usize = 4;

/// Serves requests on the standard streams until they end. `library` makes the library, if there is one, in the thread that
/// calls it.
pub fn run(library: fn() -> Option<Box<dyn Library>>) -> ExitCode {
    // Ctrl-C reaches all processes of a terminal. The one that started this decides what becomes of the step; its end ends this.
    if let Err(error) = SigSet::from_iter([Signal::SIGINT]).thread_block() {
        return told(&format!("cannot block SIGINT: {error}"));
    }
    let output = match frames_only() {
        Ok(output) => output,
        Err(error) => return told(&format!("cannot set up the standard streams: {error}")),
    };
    let (requests, waiting) = mpsc::sync_channel(AHEAD);
    let (end, ended) = mpsc::channel();
    let device = thread::Builder::new().name("device".into()).spawn(move || {
        // An interrupted call is not repeated by the library; threads it starts inherit this.
        let blocked = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]).thread_block();
        let outcome = match blocked {
            Err(error) => Err(format!("cannot block signals: {error}")),
            Ok(()) => {
                let library = library();
                let mut output = BufWriter::new(output);
                let outcome = Desk::new(library.as_deref(), &env::temp_dir(), &mut output).serve(waiting);
                // Before anything is cleaned up: what is poisoned must not be.
                if matches!(outcome, Ok(End::Poisoned)) {
                    end_at_once();
                }
                outcome.map_err(|error| error.to_string())
            }
        };
        // Nobody listens where the main thread has ended the process.
        let _ = end.send(outcome);
    });
    if let Err(error) = device {
        return told(&format!("cannot start a thread: {error}"));
    }
    let mut input = BufReader::new(io::stdin());
    let mut trouble = None;
    loop {
        match read_frame(&mut input) {
            Ok(Some(frame)) => match requests.send(frame) {
                Ok(()) => {}
                Err(_) => break,
            },
            Ok(None) => break,
            Err(error) => {
                trouble = Some(error.to_string());
                break;
            }
        }
    }
    drop(requests);
    let code = finish(&ended);
    trouble.map_or(code, |trouble| told(&trouble))
}

/// Waits for the device's thread. A hung call of the library must not keep process and device.
fn finish(ended: &Receiver<Result<End, String>>) -> ExitCode {
    match ended.recv_timeout(GRACE) {
        Ok(Ok(_)) => ExitCode::SUCCESS,
        Ok(Err(error)) => told(&error),
        Err(RecvTimeoutError::Disconnected) => told("the device's thread panicked"),
        Err(RecvTimeoutError::Timeout) => end_at_once(),
    }
}

/// Ends the process without running a destructor, of libraries in particular.
fn end_at_once() -> ! {
    // It cannot fail: the signal is for ourselves.
    let _ = kill(Pid::this(), Signal::SIGKILL);
    std::process::abort()
}

/// The one way to what was stdout. Whatever else writes to stdout (a library does) writes to stderr from now on.
fn frames_only() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdout(io::stderr())?;
    Ok(output.into())
}

fn told(trouble: &str) -> ExitCode {
    use std::io::Write;
    // Nobody can be told that nobody listens.
    let _ = writeln!(io::stderr(), "fidelity-worker: {trouble}");
    ExitCode::FAILURE
}
