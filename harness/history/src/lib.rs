//! Noun: runs kept over time, in one SQLite file.
//!
//! A run is appended in one transaction once its verdict is written, so that what was acknowledged is there whatever becomes of
//! the writer. This crate must not know how a verdict was made nor how a history is shown, and never reads the clock.

mod error;
mod history;
mod remember;
mod schema;

pub use error::HistoryError;
pub use history::{History, Pending};
pub use remember::{Occasion, remember};
