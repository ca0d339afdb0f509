//! Why a dump could not be imported.

use std::{io, path::PathBuf};

use fidelity_trace::{TraceError, WriteError};

/// A dump that cannot be imported. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file system said no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file is no archive of arrays, or a damaged one.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An array cannot be used.
    #[error("{path}: array `{array}`: {reason}")]
    Array {
        /// The file.
        path: PathBuf,
        /// The array, its name made printable.
        array: String,
        /// What is wrong.
        reason: String,
    },
    /// The map cannot be used.
    #[error("{origin}: {reason}")]
    Map {
        /// The map's file or name.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// The arrays do not have the layout that the map says.
    #[error("{path}: {place}: {reason}")]
    Layout {
        /// The file.
        path: PathBuf,
        /// Scope and site.
        place: String,
        /// What was found, what was expected, what would fit.
        reason: String,
    },
    /// The prompts do not go with the dump.
    #[error("{0}")]
    Prompts(String),
    /// The trace to check against cannot be read.
    #[error(transparent)]
    Reference(#[from] TraceError),
    /// The trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A name from outside, fit to be shown: control characters written out, not longer than a line.
pub(crate) fn shown(name: &str) -> String {
    const LONGEST: usize = 100;
    let mut text: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text
}

/// Names from outside in one line, the first few of many.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const FEW: usize = 12;
    let names: Vec<_> = names.into_iter().collect();
    let mut text = names.iter().take(FEW).map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    if names.len() > FEW {
        text.push_str(&format!(" and {} more", names.len() - FEW));
    }
    text
}
