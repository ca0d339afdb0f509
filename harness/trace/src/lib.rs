//! Noun: what was asked and what happened.
//!
//! Checkpoint rows, prompts, sites, scopes, provenance, the trace format and the [`Subject`] that fills a trace.
//! Plain `f32` slices only: this crate must not know tensors of any framework, devices, metrics or verdicts.

mod capture;
mod deviation;
mod disk;
mod fault;
mod intervention;
mod manifest;
mod names;
mod parallel;
mod prompts;
mod read;
mod record;
mod registry;
mod scope;
mod site;
mod subject;
mod taps;
mod write;

pub use capture::{Capture, Rows, ScopeCapture, Tensor};
pub use deviation::{Deviation, Emulation, FirstPosition};
pub use disk::{hex, write_atomically};
pub use fault::{Fault, FaultFamily, Places, Values};
pub use intervention::{FaultError, FaultValue, Intervention, MOST_ORDERED};
pub use manifest::{
    Arm, ArmKind, CheckpointIdentity, FORMAT, Generated, Manifest, Network, OutsideRange, PromptRecord, Status, VERSION,
};
pub use names::nearest;
pub use parallel::in_parallel;
pub use prompts::{Prompt, PromptError, parse_prompts, prompts_from_texts};
pub use read::{PromptTrace, ScopeTrace, Trace, TraceError};
pub use record::{Recorded, Recording, record};
pub use registry::{BosConvention, CheckpointRow, Known, Registry, RegistryError, Source, ThresholdOverrides};
pub use scope::Scope;
pub use site::{BlockSite, Site, UnknownSite};
pub use subject::{Request, Subject, SubjectError};
pub use taps::{Taps, TapsError};
pub use write::{TraceWriter, WriteError};
