//! What can be in a hostile, damaged or merely odd file. Each test names the rows of the checklist it holds (docs/AUDIT.md),
//! and one test holds that no row is left out.

#[path = "../support/mod.rs"]
mod support;

mod containers;
mod groups;
mod protobuf;
mod resources;
mod rows;
mod sparse;
mod streams;
