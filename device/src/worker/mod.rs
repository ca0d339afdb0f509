//! The process that owns a device. It speaks in frames over its standard streams, so that it may be at the other end of
//! `ssh`, and can be killed without harm to whoever asked.

mod desk;
mod frame;
mod inventory;
mod lock;
mod message;
#[cfg(unix)]
mod process;

pub use desk::{Desk, End};
pub use frame::{Frame, FrameError, read_frame, write_frame};
pub use message::{DeviceState, Failed, FailureKind, Inventory, Open, Opened, PROTOCOL, Reply, Request};
#[cfg(unix)]
pub use process::run;
