//! The program as a person uses it.

mod architecture;
mod bad_inputs;
mod hub;
#[path = "../../../../references/tests/common/hub_server.rs"]
mod hub_server;
mod runs;
mod support;
mod traces;
