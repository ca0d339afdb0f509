//! A worker process and the pipes to it.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::Failure;
use crate::worker::{Frame, FrameError, Reply, Request, read_frame, write_frame};

/// Frames read ahead of whoever takes them.
const AHEAD: usize = 8;
/// Lines of stderr kept, and shown.
const KEPT_LINES: usize = 20;
const SHOWN_LINES: usize = 3;
/// Bytes of a line kept.
const LINE_BYTES: u64 = 4096;
/// How long a worker that was asked to end may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often it is looked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

type Lines = Arc<Mutex<VecDeque<String>>>;

/// A running worker.
pub(super) struct Link {
    child: Child,
    requests: Option<Sender<Vec<u8>>>,
    frames: Receiver<Result<Frame, FrameError>>,
    lines: Lines,
    /// It does not run any more, by our doing or its own.
    over: bool,
}

impl Link {
    /// Starts `command`, split by the rules of a shell's words; no shell runs.
    pub(super) fn start(command: &str) -> Result<Self, Failure> {
        let fail = |reason: String| Failure::Command { command: crate::text::plain(command), reason };
        let words = shlex::split(command).ok_or_else(|| fail("a quote is not closed".into()))?;
        let (program, arguments) = words.split_first().ok_or_else(|| fail("it names no program".into()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| fail(format!("cannot start {}: {error}", crate::text::plain(program))))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(fail("it has no pipes".into()));
        };
        let (requests, outgoing) = mpsc::channel();
        let (incoming, frames) = mpsc::sync_channel(AHEAD);
        let lines = Lines::default();
        let kept = Arc::clone(&lines);
        // They end with the pipes.
        thread::spawn(move || forward(input, &outgoing));
        thread::spawn(move || collect(output, &incoming));
        thread::spawn(move || remember(errors, &kept));
        Ok(Self { child, requests: Some(requests), frames, lines, over: false })
    }

    /// Sends a request; that it did not arrive shows when an answer is awaited.
    pub(super) fn send(&self, request: &Request) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, request, &[]).map_err(|error| Failure::Refused { message: error.to_string() })?;
        if let Some(requests) = &self.requests {
            let _ = requests.send(bytes);
        }
        Ok(())
    }

    /// The next reply and its payload.
    pub(super) fn receive(&mut self, patience: Duration, during: &str) -> Result<(Reply, Vec<u8>), Failure> {
        match self.frames.recv_timeout(patience) {
            Ok(Ok(frame)) => match serde_json::from_slice(&frame.header) {
                Ok(reply) => Ok((reply, frame.payload)),
                Err(error) => Err(self.garbled(&error.to_string(), during)),
            },
            Ok(Err(FrameError::Cut | FrameError::Io(_))) | Err(RecvTimeoutError::Disconnected) => {
                let status = self.wait(FAREWELL);
                Err(Failure::Ended { status, during: during.into(), said: self.said() })
            }
            Ok(Err(error)) => Err(self.garbled(&error.to_string(), during)),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Err(Failure::Silent { after: patience, during: during.into(), said: self.said() })
            }
        }
    }

    pub(super) fn garbled(&mut self, reason: &str, during: &str) -> Failure {
        self.kill();
        Failure::Garbled { during: during.into(), reason: crate::text::plain(reason), said: self.said() }
    }

    /// How it ended; it is killed if it does not.
    fn wait(&mut self, patience: Duration) -> String {
        let began = Instant::now();
        while began.elapsed() < patience {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.over = true;
                    return status.to_string();
                }
                Ok(None) => thread::sleep(POLL),
                Err(error) => return error.to_string(),
            }
        }
        self.kill();
        "it closed its stdout, did not end and was killed".into()
    }

    fn kill(&mut self) {
        if !self.over {
            // Neither can fail on a child that was not waited for.
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.over = true;
        }
    }

    /// The last lines of its stderr, as the end of a message.
    fn said(&self) -> String {
        // Its last words may still be on their way.
        thread::sleep(POLL);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let shown: Vec<_> = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES)).cloned().collect();
        if shown.is_empty() { String::new() } else { format!("; it said: {}", shown.join(" | ")) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.send(&Request::Close);
            // Its stdin ends when the writing thread has nothing more to write.
            self.requests = None;
            self.wait(FAREWELL);
        }
    }
}

fn forward(mut input: ChildStdin, outgoing: &Receiver<Vec<u8>>) {
    while let Ok(bytes) = outgoing.recv() {
        if input.write_all(&bytes).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

fn collect(output: ChildStdout, incoming: &mpsc::SyncSender<Result<Frame, FrameError>>) {
    let mut output = BufReader::new(output);
    while let Some(outcome) = read_frame(&mut output).transpose() {
        let failed = outcome.is_err();
        if incoming.send(outcome).is_err() || failed {
            return;
        }
    }
}

fn remember(errors: ChildStderr, lines: &Lines) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match errors.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = crate::text::plain(&String::from_utf8_lossy(&line));
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        if !text.is_empty() {
            lines.push_back(text);
        }
    }
}
