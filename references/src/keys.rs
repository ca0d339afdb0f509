//! Reading a JSON object so that no key is silently ignored.

use serde_json::{Map, Value};

use crate::CheckpointError;

/// A JSON object whose keys are taken one by one; what is left at the end must be known to be inert.
pub(crate) struct Keys {
    file: String,
    prefix: String,
    object: Map<String, Value>,
}

/// Largest integer taken as a size: far above any model, far below overflow in products of two.
const MAX_SIZE: u64 = 1 << 28;

impl Keys {
    pub(crate) fn new(file: &str, prefix: &str, object: Map<String, Value>) -> Self {
        Self { file: file.to_owned(), prefix: prefix.to_owned(), object }
    }

    /// An error about `key`.
    pub(crate) fn wrong(&self, key: &str, found: Option<&Value>, expected: impl Into<String>) -> CheckpointError {
        CheckpointError::Config {
            file: self.file.clone(),
            key: format!("{}{key}", self.prefix),
            found: found.map_or_else(|| "missing".to_owned(), shown),
            expected: expected.into(),
        }
    }

    /// Whether the key is there, even as null.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.object.contains_key(key)
    }

    /// Takes a key; null counts as absent.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.object.remove(key).filter(|value| !value.is_null())
    }

    /// Forgets keys that are known to be inert.
    pub(crate) fn ignore(&mut self, inert: &[&str]) {
        self.object.retain(|key, _| !inert.contains(&key.as_str()));
    }

    /// Takes a positive integer; `1e6` and `1000000.0` are integers too.
    pub(crate) fn size(&mut self, key: &str) -> Result<Option<usize>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let whole = value
            .as_f64()
            .filter(|number| number.fract().abs() < f64::EPSILON && *number >= 1.0 && *number <= MAX_SIZE as f64);
        match whole {
            Some(number) => Ok(Some(number as usize)),
            None => Err(self.wrong(key, Some(&value), format!("a whole number from 1 to {MAX_SIZE}"))),
        }
    }

    pub(crate) fn required_size(&mut self, key: &str) -> Result<usize, CheckpointError> {
        self.size(key)?.ok_or_else(|| self.wrong(key, None, "a whole number: this key has no safe default"))
    }

    /// Takes a positive finite number.
    pub(crate) fn number(&mut self, key: &str) -> Result<Option<f64>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.as_f64().filter(|number| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, Some(&value), "a positive number")),
        }
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Result<Option<bool>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, Some(&value), "true or false"))
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value {
            Value::String(text) => Ok(Some(text)),
            other => Err(self.wrong(key, Some(&other), "a string")),
        }
    }

    /// Takes an id, a list of ids, or nothing.
    pub(crate) fn ids(&mut self, key: &str) -> Result<Vec<u32>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids = match &value {
            Value::Array(list) => list.iter().map(id).collect(),
            single => id(single).map(|id| vec![id]),
        };
        ids.ok_or_else(|| self.wrong(key, Some(&value), "a token id, a list of token ids, or null"))
    }

    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Self>, CheckpointError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value {
            Value::Object(object) => Ok(Some(Self::new(&self.file, &format!("{}{key}.", self.prefix), object))),
            other => Err(self.wrong(key, Some(&other), "an object")),
        }
    }

    /// Takes a key that only one value of is supported; absent is as good.
    pub(crate) fn only(&mut self, key: &str, supported: &Value) -> Result<(), CheckpointError> {
        match self.take(key) {
            None => Ok(()),
            Some(value) if value == *supported || value.as_f64().is_some_and(|n| Some(n) == supported.as_f64()) => {
                Ok(())
            }
            Some(value) => Err(self.wrong(key, Some(&value), format!("{supported}: other values are not supported"))),
        }
    }

    /// Refuses every key that is left and not in the closed list of inert ones.
    pub(crate) fn finish(self, inert: &[&str]) -> Result<(), CheckpointError> {
        let left = self.object.iter().find(|(key, value)| !value.is_null() && !inert.contains(&key.as_str()));
        match left {
            None => Ok(()),
            Some((key, value)) => Err(CheckpointError::UnknownKey {
                file: self.file.clone(),
                key: format!("{}{key}", self.prefix),
                found: shown(value),
            }),
        }
    }
}

/// A value as errors show it: short, whatever the file holds.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
