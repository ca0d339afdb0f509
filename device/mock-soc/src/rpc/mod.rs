//! The RPC server: frames, messages and actions of `HailoRT` 5.2 (`hrpc`, `hrpc_protocol`).

mod action;
mod connection;
mod frame;
mod messages;
mod requests;
mod serve;

pub use action::Action;
pub use serve::{DEFAULT_PORT, MockSoc, Options, Version, unused_loopback};
