//! results.csv, as a sweep writes it or as someone made it. From outside: every cell is checked.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_verdict::{Covariate, Covariates, GroupKey, RESULT_COLUMNS};

/// Files above this are refused.
const MOST_BYTES: usize = 64 << 20;
/// Rows above this are refused.
const MOST_ROWS: usize = 100_000;

/// Columns that must be there.
const NEEDED: [&str; 5] = ["checkpoint", "device", "recipe", "scope", "outcome"];
/// A column that no sweep writes: a number of fidelity that is no Pearson.
const FIDELITY: &str = "fidelity";

/// Whether a checkpoint passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It does.
    Pass,
    /// It does not.
    Fail,
}

/// A checkpoint in one group.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultRow {
    /// What it may be compared with.
    pub key: GroupKey,
    /// Its name.
    pub checkpoint: String,
    /// Whether it passes; absent where that is not known.
    pub outcome: Option<Outcome>,
    /// A number of its fidelity, more being better.
    pub fidelity: Option<f64>,
    /// What is known of it.
    pub covariates: Covariates,
    /// Where it comes from, as a sweep writes it: `hub:…`, `embedded:…`, `folder:…`.
    pub source: String,
    /// Line of the file.
    pub line: u64,
}

/// A results.csv that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// Not CSV.
    #[error("{origin}: not a CSV file: {reason}")]
    Csv {
        /// The file.
        origin: String,
        /// What the parser says.
        reason: String,
    },
    /// Too large.
    #[error("{origin}: {what}, at most {most} are read")]
    TooLarge {
        /// The file.
        origin: String,
        /// What was found.
        what: String,
        /// The limit.
        most: usize,
    },
    /// A column that is missing, unknown or there twice.
    #[error("{origin}: column `{}` {reason}", .column.escape_default())]
    Column {
        /// The file.
        origin: String,
        /// The column.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// A cell that is not what its column says.
    #[error("{origin}:{line}: column `{column}` is `{}`, expected {expected}", .found.escape_default())]
    Cell {
        /// The file.
        origin: String,
        /// Its line.
        line: u64,
        /// The column.
        column: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A checkpoint twice in a group.
    #[error("{origin}:{line}: checkpoint `{}` stands in line {first} as well, with the same device, recipe, scope and measure; one checkpoint is one observation: keep one", .checkpoint.escape_default())]
    Twice {
        /// The file.
        origin: String,
        /// The second line.
        line: u64,
        /// The first.
        first: u64,
        /// The checkpoint.
        checkpoint: String,
    },
    /// A group of too many checkpoints.
    #[error("{origin}: {found} checkpoints in one group, at most {most} are tested")]
    TooMany {
        /// The file.
        origin: String,
        /// How many.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// Nothing to explain.
    #[error("{origin}: no row says what passes or how faithful it is: there is nothing to explain")]
    Nothing {
        /// The file.
        origin: String,
    },
}

/// Reads results.csv; `origin` names it in errors.
///
/// # Errors
/// Not CSV, a column that is missing, unknown or there twice, or a cell that is not what its column says.
pub fn read_results(text: &str, origin: &str) -> Result<Vec<ResultRow>, ResultsError> {
    let too_large = |what, most| ResultsError::TooLarge { origin: origin.to_owned(), what, most };
    if text.len() > MOST_BYTES {
        return Err(too_large(format!("{} bytes", text.len()), MOST_BYTES));
    }
    let broken = |error: csv::Error| ResultsError::Csv { origin: origin.to_owned(), reason: error.to_string() };
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let columns = columns(reader.headers().map_err(broken)?, origin)?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, csv::Position::line);
        rows.push(Line { record: &record, columns: &columns, origin, line }.row()?);
        if rows.len() > MOST_ROWS {
            return Err(too_large(format!("more than {MOST_ROWS} rows"), MOST_ROWS));
        }
    }
    Ok(rows)
}

/// Where each column is.
fn columns(header: &csv::StringRecord, origin: &str) -> Result<BTreeMap<String, usize>, ResultsError> {
    let wrong = |column: &str, reason: &str| ResultsError::Column {
        origin: origin.to_owned(),
        column: column.to_owned(),
        reason: reason.to_owned(),
    };
    let known: BTreeSet<&str> =
        RESULT_COLUMNS.into_iter().chain([FIDELITY]).chain(Covariate::ALL.map(Covariate::name)).collect();
    let mut columns = BTreeMap::new();
    for (index, name) in header.iter().enumerate() {
        if !known.contains(name) {
            return Err(wrong(name, "is none of a results.csv (docs/SWEEP.md lists them)"));
        }
        if columns.insert(name.to_owned(), index).is_some() {
            return Err(wrong(name, "stands there twice"));
        }
    }
    match NEEDED.into_iter().find(|name| !columns.contains_key(*name)) {
        Some(name) => Err(wrong(name, "is missing")),
        None => Ok(columns),
    }
}

struct Line<'a> {
    record: &'a csv::StringRecord,
    columns: &'a BTreeMap<String, usize>,
    origin: &'a str,
    line: u64,
}

impl Line<'_> {
    fn row(&self) -> Result<ResultRow, ResultsError> {
        let measured = self.text("measured");
        let text = |column| self.text(column).to_owned();
        let checkpoint = text("checkpoint");
        if checkpoint.is_empty() {
            return Err(self.wrong("checkpoint", "", "a name"));
        }
        let outcome = match self.text("outcome") {
            "" => None,
            "pass" => Some(Outcome::Pass),
            "fail" => Some(Outcome::Fail),
            other => return Err(self.wrong("outcome", other, "pass, fail or nothing")),
        };
        let correlation = |column| self.number(column, |value| value.abs() <= 1.0 + 1e-9, "a number from -1 to 1");
        let fidelity = correlation("pearson")?.or(correlation(FIDELITY)?);
        let mut covariates = Covariates::new();
        for covariate in Covariate::ALL {
            let value = self.number(covariate.name(), |value| value >= 0.0, "a finite number, 0 or more")?;
            covariates.extend(value.map(|value| (covariate, value)));
        }
        Ok(ResultRow {
            key: GroupKey {
                device: text("device"),
                recipe: text("recipe"),
                recipe_sha256: Some(text("recipe_sha256")).filter(|sha256| !sha256.is_empty()),
                scope: text("scope"),
                measured: if measured.is_empty() { "verdict".to_owned() } else { measured.to_owned() },
            },
            checkpoint,
            outcome,
            fidelity,
            covariates,
            source: text("source"),
            line: self.line,
        })
    }

    fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|index| self.record.get(*index)).unwrap_or_default().trim()
    }

    fn number(
        &self,
        column: &'static str,
        allowed: impl Fn(f64) -> bool,
        expected: &'static str,
    ) -> Result<Option<f64>, ResultsError> {
        match self.text(column) {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(value) if value.is_finite() && allowed(value) => Ok(Some(value)),
                _ => Err(self.wrong(column, text, expected)),
            },
        }
    }

    fn wrong(&self, column: &'static str, found: &str, expected: &'static str) -> ResultsError {
        let (origin, found) = (self.origin.to_owned(), found.to_owned());
        ResultsError::Cell { origin, line: self.line, column, found, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "checkpoint,device,recipe,scope,outcome,pearson,hidden\n";

    fn error(rows: &str) -> String {
        read_results(&format!("{HEAD}{rows}"), "r.csv").expect_err("invalid").to_string()
    }

    #[test]
    fn rows_are_read_with_what_is_known_of_them() {
        let text = format!("\u{feff}# a remark\n{HEAD}a,emulator,a8w8,base,fail,0.5,576\n\"b,c\",hailo,,,,,\n");
        let rows = read_results(&text, "r.csv").expect("valid");
        assert_eq!(rows[0].covariates, Covariates::from([(Covariate::Hidden, 576.0)]));
        assert_eq!((rows[0].outcome, rows[0].fidelity, rows[0].line), (Some(Outcome::Fail), Some(0.5), 3));
        assert_eq!((rows[1].checkpoint.as_str(), rows[1].outcome, rows[1].fidelity), ("b,c", None, None));
        assert_eq!(rows[1].key.measured, "verdict");
    }

    #[test]
    fn what_is_wrong_names_line_and_column() {
        assert!(error("a,e,r,base,maybe,,\n").starts_with("r.csv:2: column `outcome` is `maybe`"));
        for number in ["NaN", "inf", "-3", "1e999", "x"] {
            let found = error(&format!("a,e,r,base,fail,,{number}\n"));
            assert!(found.starts_with("r.csv:2: column `hidden`"), "{found}");
        }
        assert!(error("a,e,r,base,fail,1.5,\n").contains("column `pearson`"));
        assert!(error(",e,r,base,fail,,\n").contains("column `checkpoint`"));
        assert!(error("a,e,r\n").contains("not a CSV file"));
        assert!(error("a,e,r,base,\u{1b}[31m,,\n").contains("\\u{1b}[31m"), "control characters are written out");
        let header = |text: &str| read_results(text, "r.csv").expect_err("invalid").to_string();
        assert!(header("checkpoint,device,recipe,scope\n").contains("`outcome` is missing"));
        assert!(header(&format!("hidden,{HEAD}")).contains("`hidden` stands there twice"));
        assert!(header(&format!("width,{HEAD}")).contains("`width` is none of"));
        assert!(header("").contains("missing"));
    }
}
