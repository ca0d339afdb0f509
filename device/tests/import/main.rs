//! Dumps of other tools, imported.

mod hostile;
mod layouts;
mod misfits;
mod numpy;
mod support;
