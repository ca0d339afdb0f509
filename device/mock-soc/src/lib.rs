//! Impersonates a Hailo-10H on loopback, for tests: the RPC server of `HailoRT` 5.2 that clients reach over TCP, and behind it
//! a decoder of the Llama family in float32 with the six inputs, the ring of cache entries, and the quantised outputs that a
//! compiled language model has. It executes HEF files of its own writer ([`build`]), which `fidelity audit` passes.
//!
//! It must not know `references`, whose numbers it is there to be compared with, nor how the host's session reads the
//! contract: what is written here is read off `HailoRT`'s public source and the file alone.

mod build;
mod chip;
mod event;
mod misbehaviour;
mod network;
mod rpc;
mod status;

pub use build::{
    BuildError, Checkpoint, CheckpointError, Groups, HefOptions, InputOrder, MaskConvention, Width, build,
};
pub use event::Event;
pub use misbehaviour::{Conduct, Fault, Misbehaviour, MisbehaviourError, Step};
pub use network::{Dimensions, MaskSense, Rotation, WeightsError};
pub use rpc::{Action, DEFAULT_PORT, MockSoc, Options, Version, unused_loopback};
