//! The program as a person uses it.

mod architecture;
mod bad_inputs;
mod runs;
mod support;
mod traces;
