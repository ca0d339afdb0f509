//! A map as it is written in TOML.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMap {
    #[serde(default)]
    pub(crate) arm: RawArm,
    #[serde(default)]
    pub(crate) prompt: RawPrompt,
    pub(crate) generated: Option<RawIds>,
    #[serde(default)]
    pub(crate) scopes: toml::Table,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct RawArm {
    pub(crate) name: Option<String>,
    #[serde(flatten)]
    pub(crate) detail: BTreeMap<String, toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrompt {
    pub(crate) id: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) token_ids: Option<RawIds>,
}

/// Ids or positions: a word, the numbers themselves, or an array of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawIds {
    Word(String),
    List(Vec<u32>),
    Array(RawIdArray),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawIdArray {
    pub(crate) array: String,
    #[serde(default)]
    pub(crate) optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawScope {
    pub(crate) positions: Option<RawIds>,
    pub(crate) token_ids: Option<RawIds>,
    #[serde(default)]
    pub(crate) sites: BTreeMap<String, RawSite>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSite {
    pub(crate) array: Option<String>,
    pub(crate) arrays: Option<Vec<String>>,
    pub(crate) axes: String,
    pub(crate) heads: Option<usize>,
    pub(crate) take: Option<RawTake>,
    pub(crate) scale: Option<RawNumbers>,
    pub(crate) zero_point: Option<RawNumbers>,
    #[serde(default)]
    pub(crate) optional: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawTake {
    Word(String),
    Range(RawRange),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRange {
    #[serde(default)]
    pub(crate) from: usize,
    pub(crate) to: Option<usize>,
}

/// One number for all arrays, or one each.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawNumbers {
    One(f64),
    Each(Vec<f64>),
}
