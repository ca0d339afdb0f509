//! Writes HEF files for tests, by hand and not by prost, so that a field number that the reader has wrong cannot be on both sides.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    reason = "fields and builders bear the names of the format's own parts"
)]

pub mod hef_writer;
pub mod llm_writer;
pub mod message;
pub mod old_containers;
