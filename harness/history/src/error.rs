//! Why a history cannot be read or written.

use std::{
    io,
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;

/// A history that cannot be used. None of these says anything of the run that was to be appended.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no file.
    #[error("there is no history at {path}; `fidelity run` begins one, --history FILE names another")]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// Its folder cannot be made.
    #[error("cannot create {path}: {source}; --history FILE puts the history elsewhere, `none` does without")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the file system says.
        source: io::Error,
    },
    /// Written by a later version.
    #[error(
        "{path} has schema {found}, and this version knows up to {known}; use the fidelity that wrote it, or another --history FILE"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known.
        known: i64,
    },
    /// A database, but of something else.
    #[error("{path} is a database of something else; name another with --history FILE")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Not readable as a history.
    #[error(
        "{path} is damaged ({reason}); move it away and the next run begins a new one (`sqlite3 FILE .recover` may save what it holds)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another process did not let go of it.
    #[error("{path} is locked by another process for longer than {seconds} s; try again when it has ended")]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// Anything else the library says, a full disk among it.
    #[error("cannot {action} {path}: {reason}; --history FILE puts the history elsewhere, `none` does without")]
    Sqlite {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What it says.
        reason: String,
    },
}

impl HistoryError {
    pub(crate) fn of(path: &Path, action: &'static str, error: &rusqlite::Error) -> Self {
        let (path, reason) = (path.to_owned(), error.to_string());
        match error {
            rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Damaged { path, reason },
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                    Self::Locked { path, seconds: crate::history::PATIENCE.as_secs() }
                }
                _ => Self::Sqlite { action, path, reason },
            },
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows => Self::Damaged { path, reason },
            _ => Self::Sqlite { action, path, reason },
        }
    }
}
