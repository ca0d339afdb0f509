//! Checkpoints from the Hub, against a server on this machine that behaves like it, well or badly.

#[path = "../common/hub_server.rs"]
mod hub_server;

mod cache;
mod connections;
mod fetching;
mod refusals;
mod settings;
mod support;
