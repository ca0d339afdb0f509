//! The mock, spoken to over TCP in frames written by hand, against a recomputation in float64 without any cache.

mod faults;
mod file;
mod misbehaviours;
mod numbers;
mod program;
mod protocol;
mod support;
