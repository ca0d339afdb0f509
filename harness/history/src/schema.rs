//! The tables, and how a file of an older schema becomes one of this.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Marks the file as a history: "fidl".
const APPLICATION_ID: i64 = 0x6669_646c;

/// What makes schema n + 1 of schema n. A step that was released is never changed.
const MIGRATIONS: [&str; 1] = ["
CREATE TABLE runs (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    begun TEXT NOT NULL,
    wall_seconds REAL NOT NULL,
    folder TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    arm TEXT NOT NULL,
    injected TEXT NOT NULL,
    verdict TEXT NOT NULL,
    exit_code INTEGER NOT NULL,
    reason TEXT NOT NULL,
    diagnosis TEXT
) STRICT;
CREATE INDEX runs_by_series ON runs (checkpoint, arm, injected, begun);
CREATE TABLE versions (
    run INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE scopes (
    run INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    verdict TEXT NOT NULL,
    rows_compared INTEGER NOT NULL,
    first_bad_site TEXT,
    PRIMARY KEY (run, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE estimates (
    run INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    metric TEXT NOT NULL,
    value REAL NOT NULL,
    low REAL,
    high REAL,
    n INTEGER NOT NULL,
    PRIMARY KEY (run, scope, metric)
) STRICT, WITHOUT ROWID;
"];

/// The newest schema known, as `PRAGMA user_version` says it.
pub(crate) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// What a file turns out to be.
pub(crate) enum Found {
    /// A history of the newest schema.
    Ours,
    /// A history of a later one.
    Newer(i64),
    /// Something else.
    Foreign,
}

/// Brings a file to the newest schema, if it is a history or empty. Two processes may try at the same time.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<Found> {
    if let Some(found) = look(connection)? {
        return Ok(found);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if let Some(found) = look(&transaction)? {
        return Ok(found);
    }
    let version = user_version(&transaction)?;
    for step in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    stamp(&transaction)?;
    transaction.commit()?;
    Ok(Found::Ours)
}

/// What the file is; `None` for one that is to be migrated.
fn look(connection: &Connection) -> rusqlite::Result<Option<Found>> {
    let id: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = user_version(connection)?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (id, version) {
        (APPLICATION_ID, KNOWN) => Some(Found::Ours),
        (APPLICATION_ID, later) if later > KNOWN => Some(Found::Newer(later)),
        (APPLICATION_ID, 1..) => None,
        (0, 0) if tables == 0 => None,
        _ => Some(Found::Foreign),
    })
}

fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn stamp(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", KNOWN)
}
