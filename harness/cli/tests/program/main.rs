//! The program as a person uses it.

mod advise;
mod architecture;
mod arms;
mod attribute;
mod audit;
mod bad_inputs;
mod bisect;
mod cache;
mod check;
mod ci_outputs;
mod diagnose;
mod durability;
mod encoder;
mod forge;
mod gate;
#[expect(dead_code, reason = "the writer of the references' tests, of which this needs little")]
#[path = "../../../../references/tests/common/gguf.rs"]
mod gguf;
mod gguf_files;
mod history;
mod hub;
#[path = "../../../../references/tests/common/hub_server.rs"]
mod hub_server;
mod import;
mod killed_sweeps;
mod merge;
mod profile;
mod recipes;
mod replay;
mod runs;
mod selftest;
mod support;
mod sweep;
mod traces;
