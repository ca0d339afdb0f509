//! The file: appending and reading.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use fidelity_trace::Scope;
use fidelity_verdict::{Outcome, PastEstimate, PastRun, PastScope};
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Transaction, TransactionBehavior, params};

use crate::{
    HistoryError,
    schema::{self, Found},
};

/// How long another process may hold the file.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// An open history.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    connection: Connection,
}

/// A run that is written but not committed: dropping it forgets it.
#[derive(Debug)]
pub struct Pending<'a> {
    path: &'a Path,
    transaction: Transaction<'a>,
}

impl History {
    /// Opens a history to append to; the file and its folder are made if there are none.
    ///
    /// # Errors
    /// It cannot be made, is of a later schema, is something else, or is damaged.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let failed = |source| HistoryError::Folder { path: folder.to_owned(), source };
            fs::create_dir_all(folder).map_err(failed)?;
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens a history that is there, and looks through the whole file.
    ///
    /// # Errors
    /// There is none, it is of a later schema, is something else, or is damaged.
    pub fn existing(path: &Path) -> Result<Self, HistoryError> {
        if !path.exists() {
            return Err(HistoryError::Absent { path: path.to_owned() });
        }
        let history = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let said: String =
            history.ask(|connection| connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)))?;
        match said.as_str() {
            "ok" => Ok(history),
            _ => Err(HistoryError::Damaged { path: path.to_owned(), reason: said }),
        }
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, HistoryError> {
        let failed = |error: rusqlite::Error| HistoryError::of(path, "open", &error);
        let open = || -> rusqlite::Result<(Connection, Found)> {
            let mut connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            connection.busy_timeout(PATIENCE)?;
            // Readers and a writer at the same time; every commit is on the disk before it is acknowledged.
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            let found = schema::migrate(&mut connection)?;
            Ok((connection, found))
        };
        let path = path.to_owned();
        match patiently(open).map_err(failed)? {
            (connection, Found::Ours) => Ok(Self { path, connection }),
            (_, Found::Newer(found)) => Err(HistoryError::Newer { path, found, known: schema::KNOWN }),
            (_, Found::Foreign) => Err(HistoryError::Foreign { path }),
        }
    }

    /// Appends a run, or puts it in the place of what was recorded of the same run before. When this returns, the run is kept.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, run: &PastRun) -> Result<(), HistoryError> {
        self.write(run)?.commit()
    }

    /// The same in two steps.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, run: &PastRun) -> Result<Pending<'_>, HistoryError> {
        let Self { path, connection } = self;
        let failed = |error: rusqlite::Error| HistoryError::of(path, "write", &error);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        insert(&transaction, run).map_err(failed)?;
        Ok(Pending { path, transaction })
    }

    /// The runs of a checkpoint, or all, in the order they began.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn runs(&self, checkpoint: Option<&str>) -> Result<Vec<PastRun>, HistoryError> {
        self.ask(|connection| {
            let mut found =
                connection.prepare("SELECT * FROM runs WHERE ?1 IS NULL OR checkpoint = ?1 ORDER BY begun, key")?;
            let rows = found.query_map([checkpoint], |row| Ok((row.get("key")?, run(row)?)))?;
            let mut parts = Parts::prepare(connection)?;
            rows.map(|row| {
                let (key, run): (i64, PastRun) = row?;
                Ok(PastRun { versions: parts.versions(key)?, scopes: parts.scopes(key)?, ..run })
            })
            .collect()
        })
    }

    fn ask<T>(&self, question: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, HistoryError> {
        question(&self.connection).map_err(|error| HistoryError::of(&self.path, "read", &error))
    }
}

impl Pending<'_> {
    /// Makes it last.
    ///
    /// # Errors
    /// The file cannot be written; the run is not kept then.
    pub fn commit(self) -> Result<(), HistoryError> {
        self.transaction.commit().map_err(|error| HistoryError::of(self.path, "write", &error))
    }
}

/// Some locks are not waited for by the library.
fn patiently<T>(attempt: impl Fn() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(rusqlite::Error::SqliteFailure(failure, _))
                if matches!(failure.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                    && begun.elapsed() < PATIENCE =>
            {
                thread::sleep(POLL);
            }
            outcome => return outcome,
        }
    }
}

fn insert(transaction: &Transaction<'_>, run: &PastRun) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM runs WHERE id = ?1", [&run.id])?;
    transaction.execute(
        "INSERT INTO runs (id, begun, wall_seconds, folder, checkpoint, arm, injected, verdict, exit_code, reason, diagnosis) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            run.id,
            run.begun,
            run.wall_seconds,
            run.folder,
            run.checkpoint,
            run.arm,
            run.injected,
            run.verdict.name(),
            run.exit_code,
            run.reason,
            run.diagnosis
        ],
    )?;
    let key = transaction.last_insert_rowid();
    let mut version = transaction.prepare("INSERT INTO versions VALUES (?1, ?2, ?3)")?;
    for (name, value) in &run.versions {
        version.execute(params![key, name, value])?;
    }
    let mut scope_row = transaction.prepare("INSERT INTO scopes VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut estimate_row = transaction.prepare("INSERT INTO estimates VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for (scope, result) in &run.scopes {
        let name = scope.name();
        scope_row.execute(params![key, name, result.verdict.name(), count(result.rows), result.first_bad_site])?;
        for (metric, estimate) in &result.estimates {
            let PastEstimate { value, interval, n } = *estimate;
            let [low, high] = interval.map_or([None, None], |ends| ends.map(Some));
            estimate_row.execute(params![key, name, metric, value, low, high, count(n)])?;
        }
    }
    Ok(())
}

fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// A row of `runs`; its parts are in other tables.
fn run(row: &Row<'_>) -> rusqlite::Result<PastRun> {
    Ok(PastRun {
        id: row.get("id")?,
        begun: row.get("begun")?,
        wall_seconds: row.get("wall_seconds")?,
        folder: row.get("folder")?,
        checkpoint: row.get("checkpoint")?,
        arm: row.get("arm")?,
        injected: row.get("injected")?,
        verdict: named(row, "verdict", Outcome::named)?,
        exit_code: row.get("exit_code")?,
        reason: row.get("reason")?,
        diagnosis: row.get("diagnosis")?,
        versions: BTreeMap::new(),
        scopes: BTreeMap::new(),
    })
}

/// A value that is stored by its name.
fn named<T>(row: &Row<'_>, column: &str, of: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    of(&name).ok_or_else(|| {
        let reason = format!("`{}` is no {column}", name.escape_default());
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, reason.into())
    })
}

/// The questions for what belongs to a run.
struct Parts<'a> {
    versions: rusqlite::Statement<'a>,
    scopes: rusqlite::Statement<'a>,
    estimates: rusqlite::Statement<'a>,
}

impl<'a> Parts<'a> {
    fn prepare(connection: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            versions: connection.prepare("SELECT name, value FROM versions WHERE run = ?1")?,
            scopes: connection.prepare("SELECT * FROM scopes WHERE run = ?1")?,
            estimates: connection.prepare("SELECT * FROM estimates WHERE run = ?1 AND scope = ?2")?,
        })
    }

    fn versions(&mut self, key: i64) -> rusqlite::Result<BTreeMap<String, String>> {
        self.versions.query_map([key], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    fn scopes(&mut self, key: i64) -> rusqlite::Result<BTreeMap<Scope, PastScope>> {
        let estimates = &mut self.estimates;
        let rows = self.scopes.query_map([key], |row| {
            let scope: Scope = named(row, "scope", Scope::named)?;
            let found = estimates.query_map(params![key, scope.name()], |row| {
                let (low, high): (Option<f64>, Option<f64>) = (row.get("low")?, row.get("high")?);
                let interval = low.zip(high).map(|(low, high)| [low, high]);
                let n: i64 = row.get("n")?;
                let estimate = PastEstimate { value: row.get("value")?, interval, n: usize::try_from(n).unwrap_or(0) };
                Ok((row.get("metric")?, estimate))
            })?;
            let rows: i64 = row.get("rows_compared")?;
            let result = PastScope {
                verdict: named(row, "verdict", Outcome::named)?,
                rows: usize::try_from(rows).unwrap_or(0),
                first_bad_site: row.get("first_bad_site")?,
                estimates: found.collect::<rusqlite::Result<_>>()?,
            };
            Ok((scope, result))
        })?;
        rows.collect()
    }
}
