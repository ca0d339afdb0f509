//! Taking metadata keys one by one, so that none is silently ignored.

use std::collections::BTreeMap;

use super::{header::Header, value::Value};
use crate::CheckpointError;

/// Tables that describe the file and not the computation; the last two are written by quantisers.
const DESCRIPTIVE: [&str; 4] = ["general.", "tokenizer.", "quantize.", "mradermacher."];

/// Metadata that is not taken yet.
pub(super) struct Metadata<'a> {
    file: &'a str,
    left: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Metadata<'a> {
    pub(super) fn new(header: &'a Header, file: &'a str) -> Self {
        Self { file, left: header.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect() }
    }

    pub(super) fn file(&self) -> &str {
        self.file
    }

    /// An error about `key`.
    pub(super) fn wrong(&self, key: &str, found: String, expected: impl Into<String>) -> CheckpointError {
        CheckpointError::Config { file: self.file.to_owned(), key: key.to_owned(), found, expected: expected.into() }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<&'a Value> {
        self.left.remove(key)
    }

    /// Takes a whole number from 0 on.
    pub(super) fn whole(&mut self, key: &str) -> Result<Option<u64>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let whole = match value {
            Value::Whole { value, .. } => u64::try_from(*value).ok(),
            _ => None,
        };
        whole.map(Some).ok_or_else(|| self.wrong(key, value.to_string(), "a whole number from 0 on"))
    }

    /// Takes a whole number from 1 on.
    pub(super) fn size(&mut self, key: &str) -> Result<Option<u64>, CheckpointError> {
        match self.whole(key)? {
            Some(0) => Err(self.wrong(key, "0".into(), "a whole number from 1 on")),
            size => Ok(size),
        }
    }

    pub(super) fn required(&mut self, key: &str) -> Result<u64, CheckpointError> {
        self.size(key)?.ok_or_else(|| self.wrong(key, "missing".into(), "a whole number: this key has no safe default"))
    }

    /// Takes a positive finite number.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<f64>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value {
            Value::Real(number) if number.is_finite() && *number > 0.0 => Ok(Some(*number)),
            other => Err(self.wrong(key, other.to_string(), "a positive number")),
        }
    }

    pub(super) fn required_number(&mut self, key: &str) -> Result<f64, CheckpointError> {
        self.number(key)?
            .ok_or_else(|| self.wrong(key, "missing".into(), "a positive number: this key has no safe default"))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, CheckpointError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(key, other.to_string(), "a string")),
        }
    }

    /// Takes a key that only one value of is supported; absent is as good.
    pub(super) fn only(&mut self, key: &str, supported: &Value) -> Result<(), CheckpointError> {
        let same = |value: &Value| match (value, supported) {
            (Value::Whole { value, .. }, Value::Whole { value: supported, .. }) => value == supported,
            _ => value == supported,
        };
        match self.take(key) {
            Some(value) if !same(value) => {
                Err(self.wrong(key, value.to_string(), format!("{supported}: other values are not supported")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses every key that is left and may change the computation.
    pub(super) fn finish(self) -> Result<(), CheckpointError> {
        match self.left.iter().find(|(key, _)| !DESCRIPTIVE.iter().any(|table| key.starts_with(table))) {
            None => Ok(()),
            Some((key, value)) => Err(CheckpointError::UnknownKey {
                file: self.file.to_owned(),
                key: (*key).to_owned(),
                found: value.to_string(),
            }),
        }
    }
}
