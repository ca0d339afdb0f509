//! A compiler's own layer names, mapped to layers of the network.

use std::collections::BTreeMap;

/// Which layers a compiler's names stand for: a TOML file of lines `conv1 = "blocks.0.q_proj"` or `conv2 = ["gate_proj", "up_proj"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerNames(BTreeMap<String, Vec<String>>);

/// A map of layer names that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {reason}; each line maps a name of the compiler to layers: conv1 = \"blocks.0.q_proj\"")]
pub struct LayerNamesError {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub reason: String,
}

impl LayerNames {
    /// Reads a map; `file` names it in errors. That its layers exist shows where a recipe uses them.
    ///
    /// # Errors
    /// Not TOML, or a value that is no name.
    pub fn parse(text: &str, file: &str) -> Result<Self, LayerNamesError> {
        let fail = |reason: String| LayerNamesError { file: file.to_owned(), reason };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| fail(error.message().to_owned()))?;
        let names = table.into_iter().map(|(name, value)| {
            let ours = match &value {
                toml::Value::String(one) => Some(vec![one.clone()]),
                toml::Value::Array(several) => several.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
                _ => None,
            };
            let ours = ours.filter(|ours: &Vec<String>| !ours.is_empty());
            let ours =
                ours.ok_or_else(|| fail(format!("`{}` is neither a name nor a list of names", name.escape_debug())))?;
            Ok((name, ours))
        });
        names.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&[String]> {
        self.0.get(name).map(Vec::as_slice)
    }

    pub(crate) fn matching(&self, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(move |name| is_meant(name))
    }
}
