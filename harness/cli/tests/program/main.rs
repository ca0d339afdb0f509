//! The program as a person uses it.

mod architecture;
mod arms;
mod audit;
mod bad_inputs;
mod cache;
mod check;
mod encoder;
#[expect(dead_code, reason = "the writer of the references' tests, of which this needs little")]
#[path = "../../../../references/tests/common/gguf.rs"]
mod gguf;
mod gguf_files;
#[expect(dead_code, reason = "the writer of the device's tests, of which this needs little")]
#[path = "../../../../device/tests/support/hef_writer.rs"]
mod hef_writer;
mod hub;
#[path = "../../../../references/tests/common/hub_server.rs"]
mod hub_server;
mod import;
#[path = "../../../../device/tests/support/llm_writer.rs"]
mod llm_writer;
#[path = "../../../../device/tests/support/message.rs"]
mod message;
mod replay;
mod runs;
mod support;
mod traces;
