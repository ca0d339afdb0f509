//! A folder with a file, workers on it, and traces made with them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use fidelity_device::{
    session::{Deadlines, PrefillRows},
    supervisor::{Attempts, Failure, HailoArm, Patience, Settings},
};
use fidelity_hef_writer::hef_writer::Hef;
use fidelity_trace::{
    CheckpointIdentity, Manifest, PromptRecord, Recording, Scope, Subject, Taps, Trace, TraceWriter, record,
};
use tempfile::TempDir;

use crate::small_llm::{small, with_codes};

/// Tests by name.
pub(crate) type Tests = &'static [(&'static str, fn())];

/// Lists functions as tests.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) const TESTS: crate::bench::Tests = &[$((concat!(module_path!(), "::", stringify!($name)), $name)),*];
    };
}
pub(crate) use tests;

pub(crate) const SCOPES: [Scope; 4] = [Scope::Prefill, Scope::Tbt, Scope::TbtFree, Scope::TbtSelf];

pub(crate) struct Bench {
    folder: TempDir,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(&with_codes(small().hef()))
    }

    pub(crate) fn with(hef: &Hef) -> Self {
        let bench = Self { folder: tempfile::tempdir().expect("a temporary folder"), notes: Arc::default() };
        fs::write(bench.hef(), hef.v3()).expect("writes");
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn hef(&self) -> PathBuf {
        self.path("small.hef")
    }

    /// How to start this program as a worker; locks are this bench's.
    pub(crate) fn command(&self, mode: &str) -> String {
        let program = env::current_exe().expect("it runs");
        let words =
            ["env", &format!("TMPDIR={}", self.folder.path().display()), &program.display().to_string(), "worker"];
        format!("{} {mode}", shlex::try_join(words).expect("no NUL"))
    }

    /// Settings with short deadlines.
    pub(crate) fn settings(&self, mode: &str) -> Settings {
        let second = Duration::from_secs(1);
        Settings {
            run: Deadlines { wide: second, tbt: second },
            patience: Patience { start: 20 * second, open: 20 * second, step: second },
            attempts: Attempts { processes: 2, waits: 2, first_wait: Duration::from_millis(10) },
            prefill_rows: PrefillRows::All,
            ..Settings::new(&self.command(mode), &self.hef().display().to_string())
        }
    }

    pub(crate) fn open(&self, settings: Settings) -> Result<HailoArm, Failure> {
        let notes = Arc::clone(&self.notes);
        HailoArm::open(settings, Box::new(move |note| notes.lock().expect("no panic").push(note.to_owned())))
    }

    /// What was noted about trying again.
    pub(crate) fn retries(&self) -> Vec<String> {
        let notes = self.notes.lock().expect("no panic");
        notes.iter().filter(|note| note.contains("trying again")).cloned().collect()
    }

    /// A trace of [`prompts`], made by a worker in `mode`.
    pub(crate) fn record(&self, mode: &str, folder: &str, resume: bool) -> Trace {
        let arm = self.open(self.settings(mode)).expect("opens");
        self.record_with(&arm, folder, resume)
    }

    pub(crate) fn record_with(&self, arm: &HailoArm, folder: &str, resume: bool) -> Trace {
        let continuations = vec![vec![5, 1, 5, 1], vec![2, 2, 2, 2], vec![0, 7, 3, 1]];
        let checkpoint = CheckpointIdentity { name: "small".into(), ..CheckpointIdentity::default() };
        let mut manifest = Manifest::new(arm.arm(), checkpoint);
        manifest.prompts = prompts();
        manifest.logits_step = arm.logits_step();
        manifest.environment = arm.environment();
        let recording = Recording {
            scopes: &SCOPES,
            taps: &Taps::List(Vec::new()),
            new_tokens: 4,
            continuations: Some(&continuations),
            on_prompt: &|_| {},
            stop: &|| false,
        };
        let writer = TraceWriter::open(&self.path(folder), manifest, resume).expect("opens");
        record(arm, &recording, writer).expect("writes");
        Trace::open(&self.path(folder)).expect("readable")
    }

    /// The same trace by a worker that does nothing wrong.
    pub(crate) fn unbroken(&self) -> Trace {
        self.record("chip", "unbroken", false)
    }
}

/// Three prompts: 9, 2 and 6 tokens.
pub(crate) fn prompts() -> Vec<PromptRecord> {
    let tokens: [&[u32]; 3] = [&[1, 2, 3, 4, 5, 6, 7, 0, 1], &[3, 1], &[7, 7, 6, 1, 0, 2]];
    let prompts = tokens.into_iter().enumerate();
    let prompts = prompts.map(|(index, ids)| PromptRecord::new(index, format!("p{index:04}"), None, ids.to_vec()));
    prompts.collect()
}

/// Everything in a trace's folder.
pub(crate) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> =
        ["trace.json", "prompts/0000.safetensors", "prompts/0001.safetensors", "prompts/0002.safetensors"]
            .into_iter()
            .map(|name| (name.to_owned(), fs::read(folder.join(name)).unwrap_or_default()))
            .collect();
    files.sort();
    files
}
