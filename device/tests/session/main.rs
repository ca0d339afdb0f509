//! The session: what it feeds byte by byte, what it makes of what it reads, and what it refuses.

#[expect(dead_code, reason = "mishaps of the supervisor's tests")]
#[path = "../support/fake_chip.rs"]
mod fake_chip;
#[path = "../support/small_llm.rs"]
mod small_llm;

mod grids;
mod refusals;
mod scopes;
mod worked_rows;

use std::{io, path::Path};

use fidelity_device::{
    chip::Library,
    hef::Hef,
    session::{Deadlines, Job, PrefillRows, Session, SessionError, Sink},
};
use fidelity_trace::Scope;

use crate::fake_chip::FakeLibrary;

/// A session on a file.
fn configured(library: &FakeLibrary, path: &Path) -> Result<Session, SessionError> {
    let device = library.open("0000:01:00.0").expect("free");
    Session::configure(Hef::open(path).expect("readable"), path, device, Deadlines::default())
}

/// A job with every scope of a cache.
fn job(token_ids: &[u32], continuation: &[u32]) -> Job {
    Job {
        token_ids: token_ids.to_vec(),
        scopes: vec![Scope::Prefill, Scope::Tbt, Scope::TbtFree, Scope::TbtSelf],
        continuation: Some(continuation.to_vec()),
        new_tokens: continuation.len(),
        eos: Vec::new(),
        vocabulary: None,
        prefill_rows: PrefillRows::Last,
    }
}

/// Keeps what comes.
#[derive(Debug, Default, PartialEq)]
struct Kept {
    /// Scope, position, token, logits.
    rows: Vec<(Scope, u32, u32, Vec<f32>)>,
    generated: Option<Vec<u32>>,
}

impl Sink for Kept {
    fn row(&mut self, scope: Scope, position: u32, token: u32, logits: &[f32]) -> io::Result<()> {
        self.rows.push((scope, position, token, logits.to_vec()));
        Ok(())
    }

    fn step(&mut self, _: Scope) -> io::Result<()> {
        Ok(())
    }

    fn generated(&mut self, ids: &[u32]) -> io::Result<()> {
        self.generated = Some(ids.to_vec());
        Ok(())
    }
}
