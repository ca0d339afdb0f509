//! `checkpoints.toml`: what is known of every checkpoint.

use std::path::{Component, Path};

use serde::Deserialize;

use crate::nearest;

/// Whether a BOS token is put before a prompt's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BosConvention {
    /// As tokenizer.json's post-processor does, which is what transformers does.
    #[default]
    Tokenizer,
    /// Exactly one BOS, whatever the tokenizer does.
    Always,
    /// No BOS, whatever the tokenizer does.
    Never,
}

/// Where a checkpoint lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Compiled into the binary.
    Embedded(String),
    /// A Hugging Face Hub repository, `owner/name`.
    Hub(String),
    /// A folder beside checkpoints.toml.
    Folder(String),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded(name) => write!(f, "embedded:{name}"),
            Self::Hub(repository) => write!(f, "hub:{repository}"),
            Self::Folder(name) => write!(f, "folder:{name}"),
        }
    }
}

/// Verdict thresholds of a checkpoint's own. Absent fields keep the defaults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ThresholdOverrides {
    /// Mean logits Pearson from which a scope can be faithful.
    pub faithful_pearson: Option<f64>,
    /// Tie-aware top-1 rate from which a scope can be faithful.
    pub faithful_top1: Option<f64>,
    /// Mean logits Pearson below which a scope is broken.
    pub broken_pearson: Option<f64>,
    /// Why this checkpoint needs its own.
    pub reason: String,
}

/// Something measured on silicon, with its source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Known {
    /// What was measured.
    pub measured: String,
    /// Under which recipe or toolchain.
    pub recipe: Option<String>,
    /// Mean Pearson of logits against float32.
    pub pearson: Option<f64>,
    /// Cosine of logits against float32.
    pub cosine: Option<f64>,
    /// Top-1 agreement as `agreeing/rows`.
    pub top1: Option<String>,
    /// What its greedy text looked like.
    pub text: Option<String>,
    /// Where this is published.
    pub source: String,
}

/// One row of checkpoints.toml.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointRow {
    /// The name used with `--checkpoint`.
    pub name: String,
    /// Where it lives.
    pub source: Source,
    /// Branch, tag or commit.
    pub revision: String,
    /// The compiled model.
    pub hef: Option<String>,
    /// The recipe it is run under by default.
    pub recipe: Option<String>,
    /// Positions of the compiled prefill.
    pub prefill: Option<u32>,
    /// Positions of the compiled KV-cache.
    pub cache: Option<u32>,
    /// BOS convention.
    pub bos: BosConvention,
    /// Prompts to evaluate on.
    pub prompts: Option<String>,
    /// Prompts to calibrate on.
    pub calibration: Option<String>,
    /// Thresholds of its own.
    pub thresholds: Option<ThresholdOverrides>,
    /// Verdicts that are expected and exit 0.
    pub expect: Vec<String>,
    /// What is measured on silicon.
    pub known: Vec<Known>,
}

/// Every row of checkpoints.toml.
#[derive(Clone, Debug, PartialEq)]
pub struct Registry {
    /// In file order.
    pub rows: Vec<CheckpointRow>,
}

/// A checkpoints.toml that cannot be used, or a name that is not in it.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Not TOML, or a value of a wrong type.
    #[error("{origin}: {reason}")]
    Toml {
        /// The file.
        origin: String,
        /// What the parser says.
        reason: String,
    },
    /// A key that has no meaning.
    #[error("{origin}: `{table}` has an unknown key `{key}`{}; valid keys: {valid}", .nearest.map_or_else(String::new, |n| format!(" (did you mean `{n}`?)")))]
    UnknownKey {
        /// The file.
        origin: String,
        /// The table it is in.
        table: String,
        /// The key.
        key: String,
        /// The closest valid key.
        nearest: Option<&'static str>,
        /// All valid keys.
        valid: String,
    },
    /// A value out of its range.
    #[error("{origin}: `{table}.{key}` is {found}, expected {expected}")]
    Value {
        /// The file.
        origin: String,
        /// The table it is in.
        table: String,
        /// The key.
        key: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// No row of that name.
    #[error("no checkpoint is called `{name}`{}; `fidelity list` shows all, `--weights DIR` takes any folder", .nearest.as_deref().map_or_else(String::new, |n| format!(" (did you mean `{n}`?)")))]
    UnknownCheckpoint {
        /// What was asked for.
        name: String,
        /// The closest name.
        nearest: Option<String>,
    },
}

const ROW_KEYS: [&str; 12] = [
    "source",
    "revision",
    "hef",
    "recipe",
    "prefill",
    "cache",
    "bos",
    "prompts",
    "calibration",
    "thresholds",
    "expect",
    "known",
];
const THRESHOLD_KEYS: [&str; 4] = ["faithful_pearson", "faithful_top1", "broken_pearson", "reason"];
const KNOWN_KEYS: [&str; 7] = ["measured", "recipe", "pearson", "cosine", "top1", "text", "source"];
const VERDICTS: [&str; 3] = ["degraded", "broken", "inconclusive"];

#[derive(Deserialize)]
struct RawRow {
    source: String,
    revision: Option<String>,
    hef: Option<String>,
    recipe: Option<String>,
    prefill: Option<u32>,
    cache: Option<u32>,
    #[serde(default)]
    bos: BosConvention,
    prompts: Option<String>,
    calibration: Option<String>,
    thresholds: Option<ThresholdOverrides>,
    #[serde(default)]
    expect: Vec<String>,
    #[serde(default)]
    known: Vec<Known>,
}

impl Registry {
    /// Reads checkpoints.toml; `origin` names it in errors.
    ///
    /// # Errors
    /// Not TOML, an unknown key, a wrong type or a value out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, RegistryError> {
        let toml_error = |reason: String| RegistryError::Toml { origin: origin.to_owned(), reason };
        let file: toml::Table = text.parse().map_err(|error: toml::de::Error| toml_error(error.to_string()))?;
        let rows = file.into_iter().map(|(name, value)| {
            let toml::Value::Table(table) = value else {
                return Err(toml_error(format!("`{name}` is not a table; a row is written [{name}]")));
            };
            check_keys(origin, &name, &table)?;
            let raw: RawRow = toml::Value::Table(table)
                .try_into()
                .map_err(|error: toml::de::Error| toml_error(format!("[{name}]: {}", error.message())))?;
            row(origin, name, raw)
        });
        Ok(Self { rows: rows.collect::<Result<_, _>>()? })
    }

    /// The row of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn row(&self, name: &str) -> Result<&CheckpointRow, RegistryError> {
        self.rows.iter().find(|row| row.name == name).ok_or_else(|| RegistryError::UnknownCheckpoint {
            name: name.to_owned(),
            nearest: nearest(name, self.rows.iter().map(|row| row.name.as_str())).map(str::to_owned),
        })
    }
}

fn check_keys(origin: &str, name: &str, table: &toml::Table) -> Result<(), RegistryError> {
    let check = |path: String, table: &toml::Table, valid: &'static [&'static str]| match table
        .keys()
        .find(|key| !valid.contains(&key.as_str()))
    {
        None => Ok(()),
        Some(key) => Err(RegistryError::UnknownKey {
            origin: origin.to_owned(),
            table: path,
            key: key.clone(),
            nearest: nearest(key, valid.iter().copied()),
            valid: valid.join(", "),
        }),
    };
    check(name.to_owned(), table, &ROW_KEYS)?;
    if let Some(toml::Value::Table(thresholds)) = table.get("thresholds") {
        check(format!("{name}.thresholds"), thresholds, &THRESHOLD_KEYS)?;
    }
    let known = table.get("known").and_then(toml::Value::as_array).into_iter().flatten();
    known.filter_map(toml::Value::as_table).try_for_each(|entry| check(format!("{name}.known"), entry, &KNOWN_KEYS))
}

fn row(origin: &str, name: String, raw: RawRow) -> Result<CheckpointRow, RegistryError> {
    let wrong = |key, found: String, expected| RegistryError::Value {
        origin: origin.to_owned(),
        table: name.clone(),
        key,
        found,
        expected,
    };
    let source = match raw.source.split_once(':') {
        Some(("embedded", what)) => Source::Embedded(what.to_owned()),
        Some(("hub", repository)) if repository.split('/').filter(|part| !part.is_empty()).count() == 2 => {
            Source::Hub(repository.to_owned())
        }
        Some(("folder", name)) if is_name_of_folder(name) => Source::Folder(name.to_owned()),
        _ => {
            let expected = "\"embedded:NAME\", \"hub:OWNER/NAME\" or \"folder:NAME\", a folder beside the file";
            return Err(wrong("source", format!("\"{}\"", raw.source), expected));
        }
    };
    for (key, value) in [("prefill", raw.prefill), ("cache", raw.cache)] {
        if value == Some(0) {
            return Err(wrong(key, "0".into(), "at least 1 position"));
        }
    }
    if let Some(found) = raw.expect.iter().find(|verdict| !VERDICTS.contains(&verdict.as_str())) {
        return Err(wrong("expect", format!("\"{found}\""), "\"degraded\", \"broken\" or \"inconclusive\""));
    }
    if let Some(thresholds) = &raw.thresholds {
        let values = [thresholds.faithful_pearson, thresholds.faithful_top1, thresholds.broken_pearson];
        if let Some(found) = values.into_iter().flatten().find(|value| !(0.0..=1.0).contains(value)) {
            return Err(wrong("thresholds", found.to_string(), "numbers from 0 to 1"));
        }
        if thresholds.reason.trim().is_empty() {
            return Err(wrong("thresholds", "without a reason".into(), "a `reason` in words"));
        }
    }
    Ok(CheckpointRow {
        source,
        revision: raw.revision.unwrap_or_else(|| "main".into()),
        hef: raw.hef,
        recipe: raw.recipe,
        prefill: raw.prefill,
        cache: raw.cache,
        bos: raw.bos,
        prompts: raw.prompts,
        calibration: raw.calibration,
        thresholds: raw.thresholds,
        expect: raw.expect,
        known: raw.known,
        name,
    })
}

/// One name, not a path: what it names is in this folder.
fn is_name_of_folder(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(only)), None) if only == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Registry::parse(text, "checkpoints.toml").expect_err("invalid").to_string()
    }

    #[test]
    fn unknown_keys_are_named_with_the_nearest() {
        assert!(
            error("[a]\nsource='hub:x/y'\nrevison='main'").contains("unknown key `revison` (did you mean `revision`?)")
        );
        let nested = error("[a]\nsource='hub:x/y'\n[[a.known]]\nmeasured='x'\nsorce='y'");
        assert!(nested.contains("`a.known` has an unknown key `sorce` (did you mean `source`?)"), "{nested}");
    }

    #[test]
    fn bad_values_are_refused() {
        assert!(error("[a]\nsource='x/y'").contains("expected \"embedded:NAME\", \"hub:OWNER/NAME\" or"));
        for path in ["", ".", "..", "/x", "x/y", "x/", "./x"] {
            assert!(error(&format!("[a]\nsource='folder:{path}'")).contains("folder:NAME"), "{path}");
        }
        let folder = Registry::parse("[a]\nsource='folder:x'", "f").expect("valid").rows.remove(0).source;
        assert_eq!(folder, Source::Folder("x".into()));
        assert!(error("[a]\nsource='hub:x/y'\nprefill=0").contains("`a.prefill` is 0"));
        assert!(error("[a]\nsource='hub:x/y'\nexpect=['fine']").contains("\"fine\""));
        assert!(error("[a]\nsource='hub:x/y'\nprefill='x'").contains("[a]"));
        assert!(error("[a]\nsource='hub:x/y'\nthresholds={faithful_pearson=2.0,reason='x'}").contains("from 0 to 1"));
    }

    #[test]
    fn an_unknown_checkpoint_is_answered_with_the_nearest() {
        let registry = Registry::parse("[demo]\nsource='embedded:demo'", "f").expect("valid");
        let error = registry.row("dmeo").expect_err("unknown").to_string();
        assert!(error.contains("did you mean `demo`?"), "{error}");
    }
}
