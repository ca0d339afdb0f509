//! The arguments of one command, taken one by one, so that what is left over is refused.

use std::{ops::Range, str::FromStr};

use fidelity_trace::nearest;

use super::{
    error::{Fault, Problem},
    script::{Call, Spanned, Value},
};

/// Arguments not taken yet.
pub(crate) struct Arguments {
    command: Spanned<String>,
    positional: std::vec::IntoIter<Spanned<Value>>,
    named: Vec<(Spanned<String>, Spanned<Value>)>,
}

impl Arguments {
    pub(crate) fn of(call: &Call) -> Self {
        Self {
            command: call.command.clone(),
            positional: call.positional.clone().into_iter(),
            named: call.named.clone(),
        }
    }

    /// Where the command stands.
    pub(crate) fn span(&self) -> Range<usize> {
        self.command.span.clone()
    }

    /// The next argument without a key, or that of `key`.
    pub(crate) fn take(&mut self, key: &str) -> Option<Spanned<Value>> {
        self.take_named(key).or_else(|| self.positional.next())
    }

    pub(crate) fn take_named(&mut self, key: &str) -> Option<Spanned<Value>> {
        let index = self.named.iter().position(|(name, _)| name.value == key)?;
        Some(self.named.remove(index).1)
    }

    pub(crate) fn missing(&self, missing: &'static str) -> Problem {
        Fault::Missing { command: self.command.value.clone(), missing }.at(self.span())
    }

    /// The next argument as a word.
    pub(crate) fn word(&mut self, missing: &'static str) -> Result<Spanned<String>, Problem> {
        match self.positional.next() {
            Some(Spanned { value: Value::Word(value), span }) => Ok(Spanned { value, span }),
            Some(other) => Err(wrong("the first argument", &other, missing)),
            None => Err(self.missing(missing)),
        }
    }

    /// A number or a mode by key.
    pub(crate) fn parsed<T: FromStr>(&mut self, key: &str, expected: &'static str) -> Result<Option<T>, Problem> {
        let Some(found) = self.take_named(key) else { return Ok(None) };
        let parsed = match &found.value {
            Value::Word(word) => word.parse().ok(),
            Value::Glob(_) | Value::List(_) => None,
        };
        parsed.map(Some).ok_or_else(|| wrong(key, &found, expected))
    }

    /// `policy`: enabled where nothing is said.
    pub(crate) fn policy(&mut self) -> Result<bool, Problem> {
        let Some(found) = self.take_named("policy") else { return Ok(true) };
        switch(&found).ok_or_else(|| wrong("policy", &found, "enabled or disabled"))
    }

    /// Everything not taken yet that is not switched off, as it is written.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        self.positional.by_ref().for_each(drop);
        let named = self.named.drain(..).filter(|(_, value)| switch(value) != Some(false));
        named.map(|(key, value)| format!("{}={}", key.value, written(&value.value))).collect()
    }

    /// Refuses what was not taken.
    pub(crate) fn finish(mut self, usage: &'static str, parameters: &[&'static str]) -> Result<(), Problem> {
        if let Some(left) = self.positional.next() {
            return Err(Fault::TooMany { command: self.command.value, usage }.at(left.span));
        }
        match self.named.into_iter().next() {
            None => Ok(()),
            Some((key, _)) => Err(unknown("parameter of this command", &key, parameters)),
        }
    }
}

fn switch(value: &Spanned<Value>) -> Option<bool> {
    match &value.value {
        Value::Word(word) => match word.to_ascii_lowercase().as_str() {
            "enabled" | "true" => Some(true),
            "disabled" | "false" => Some(false),
            _ => None,
        },
        Value::Glob(_) | Value::List(_) => None,
    }
}

/// A value as it is written.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::Word(word) => word.clone(),
        Value::Glob(pattern) => format!("{{{pattern}}}"),
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(|value| written(&value.value)).collect();
            format!("[{}]", values.join(", "))
        }
    }
}

pub(crate) fn wrong(parameter: &str, found: &Spanned<Value>, expected: &'static str) -> Problem {
    let shown = written(&found.value).chars().take(60).collect();
    Fault::Value { parameter: parameter.to_owned(), found: shown, expected }.at(found.span.clone())
}

pub(crate) fn unknown(what: &'static str, name: &Spanned<String>, known: &[&'static str]) -> Problem {
    let nearest = nearest(&name.value, known.iter().copied()).map(str::to_owned);
    let shown = name.value.chars().take(60).collect();
    Fault::Unknown { what, name: shown, nearest, known: known.join(", ") }.at(name.span.clone())
}
