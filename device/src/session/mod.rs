//! Feeds a compiled language model as `HailoRT`'s own host does, and reads its logits.
//!
//! The contract is that of `hailort_server/genai/llm` (`HailoRT` 5.2); every dimension comes from the file.

mod bytes;
mod configured;
mod embeddings;
mod geometry;
mod job;
mod plan;
mod prompt;
mod state;

use std::{fs::File, path::Path, time::Duration};

pub use geometry::{Feeding, Geometry, Shard};
pub use job::{Job, NoPrefillRows, PrefillRows, Sink};

use bytes::Visibility;
use configured::{Configured, request};
use embeddings::Embeddings;
use plan::{Part, Plan, contract};
use state::State;

use crate::{
    chip::{ChipError, Device, Status},
    hef::{Hef, HefError},
};

/// How often a call that may be repeated is, after a timeout that says nothing of its outcome.
const REPEATS: usize = 2;

/// Why a session cannot be, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file cannot be read.
    #[error(transparent)]
    Hef(#[from] HefError),
    /// The file is no language model that this host can feed.
    #[error("the HEF does not keep the host's contract: {reason}")]
    Contract {
        /// What it does not keep.
        reason: String,
    },
    /// What the library configured is not what the file says.
    #[error("group {group}: {stream} takes {found} bytes a frame, expected {expected}")]
    Frame {
        /// The group.
        group: String,
        /// The input or output.
        stream: String,
        /// What the library says.
        found: usize,
        /// What the contract says.
        expected: usize,
    },
    /// A call of the library failed.
    #[error(transparent)]
    Chip(#[from] ChipError),
    /// What is asked for cannot be computed.
    #[error("{reason}")]
    Request {
        /// Why.
        reason: String,
    },
    /// Nobody takes the results.
    #[error("nobody takes the results: {0}")]
    Sink(std::io::Error),
}

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// A chunk of many rows; the first run after configuring is slower than others.
    pub wide: Duration,
    /// A step of one token.
    pub tbt: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { wide: Duration::from_secs(30), tbt: Duration::from_secs(10) }
    }
}

/// A language model on a device. One conversation at a time.
pub struct Session {
    plan: Plan,
    embeddings: Embeddings,
    wide: Configured,
    tbt: Option<Configured>,
    state: State,
    /// Most tokens that were in the conversation since it began: what roll-back may find overwritten.
    reached: usize,
    logits: Vec<f32>,
    // Last: groups go before the device they are on.
    _device: Box<dyn Device>,
}

impl Session {
    /// The dimensions of a file, if it can be fed.
    ///
    /// # Errors
    /// It cannot.
    pub fn geometry_of(hef: &mut Hef<File>) -> Result<Geometry, SessionError> {
        Plan::of(hef).map(|plan| plan.geometry)
    }

    /// Configures every group of a file that was audited.
    ///
    /// # Errors
    /// The file cannot be fed, or the library refuses it.
    pub fn configure(
        mut hef: Hef<File>,
        path: &Path,
        mut device: Box<dyn Device>,
        deadlines: Deadlines,
    ) -> Result<Self, SessionError> {
        let plan = Plan::of(&mut hef)?;
        let requests: Vec<_> = plan.parts().map(|part| request(part, &plan)).collect();
        let mut groups = device.configure(path, &requests)?.into_iter();
        let mut next = |part: &Part, deadline| {
            let group =
                groups.next().ok_or_else(|| contract("the library configured fewer groups than it was asked for"))?;
            Configured::new(part.clone(), group, &plan.geometry, deadline)
        };
        let wide = next(&plan.wide, deadlines.wide)?;
        let tbt = plan.tbt.as_ref().map(|part| next(part, deadlines.tbt)).transpose()?;
        let embeddings =
            Embeddings { start: plan.embeddings_start, row_bytes: plan.geometry.hidden * 2, file: hef.into_source() };
        let state = State::new(plan.geometry.prefill_rows);
        Ok(Self { plan, embeddings, wide, tbt, state, reached: 0, logits: Vec::new(), _device: device })
    }

    /// The dimensions.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.plan.geometry
    }

    /// No run is possible any more in this process.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        std::iter::once(&self.wide).chain(&self.tbt).any(|configured| configured.group.is_poisoned())
    }

    fn cached(&self) -> bool {
        self.plan.geometry.feeding != Feeding::Whole
    }

    /// A new conversation.
    fn restart(&mut self) -> Result<(), SessionError> {
        self.reached = 0;
        self.set(State::new(self.plan.geometry.prefill_rows))
    }

    /// Takes the conversation to another state. What the cache holds is not touched.
    fn set(&mut self, state: State) -> Result<(), SessionError> {
        self.state = state;
        if self.cached() { self.init_cache(self.state.offset) } else { Ok(()) }
    }

    /// Whether all that a next step from `state` reads is still in the cache.
    fn is_intact(&self, state: &State) -> bool {
        self.reached <= self.plan.geometry.cache_length.max(state.usage + 1)
    }

    /// Feeds `tokens` as one run; rows of logits are then in `self.logits`.
    fn step(&mut self, through_tbt: bool, tokens: &[u32], self_only: bool) -> Result<(), SessionError> {
        let geometry = &self.plan.geometry;
        self.state.push(tokens, geometry.cache_length);
        self.reached = self.reached.max(self.state.usage);
        let configured = match &mut self.tbt {
            Some(tbt) if through_tbt => tbt,
            Some(_) | None => &mut self.wide,
        };
        let visibility = if self_only { Visibility::SelfOnly { rows: tokens.len() } } else { Visibility::Causal };
        configured.fill(&self.state, geometry, &self.plan.theta, visibility, &mut self.embeddings)?;
        if geometry.feeding != Feeding::Whole {
            self.move_cache(through_tbt, tokens.len())?;
        }
        let configured = self.configured(through_tbt);
        configured.group.run(configured.deadline)?;
        let mut logits = std::mem::take(&mut self.logits);
        self.configured(through_tbt).read(&mut logits);
        self.logits = logits;
        Ok(())
    }

    fn configured(&mut self, through_tbt: bool) -> &mut Configured {
        match &mut self.tbt {
            Some(tbt) if through_tbt => tbt,
            Some(_) | None => &mut self.wide,
        }
    }

    /// Setting an offset may be repeated: a timeout may be a lost wake-up of the library.
    fn init_cache(&mut self, offset: usize) -> Result<(), SessionError> {
        let mut repeats = REPEATS;
        loop {
            match self.wide.group.init_cache(offset as u32) {
                Err(error) if error.status == Status::TIMEOUT && repeats > 0 => repeats -= 1,
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Moving the offset must not be repeated: after a timeout it is set to where it must be by now.
    fn move_cache(&mut self, through_tbt: bool, tokens: usize) -> Result<(), SessionError> {
        match self.configured(through_tbt).group.update_cache_offset(tokens as i32) {
            Err(error) if error.status == Status::TIMEOUT => self.init_cache(self.state.offset),
            outcome => Ok(outcome?),
        }
    }
}
