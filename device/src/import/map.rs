//! A map: which array is which site, and how its rows were fed.

use std::collections::BTreeMap;

use fidelity_trace::{Scope, Site, nearest};
use serde::Deserialize;
use serde_json::{Map as Detail, Value};

use super::{
    axes::Axes,
    error::ImportError,
    raw_map::{RawIdArray, RawIds, RawMap, RawNumbers, RawScope, RawSite, RawTake},
};

/// The maps that are built in, by name.
pub const BUILT_IN: [(&str, &str); 2] =
    [("diagnostics", include_str!("maps/diagnostics.toml")), ("logits", include_str!("maps/logits.toml"))];

/// A map that was read and makes sense by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    pub(crate) origin: String,
    pub(crate) arm_name: Option<String>,
    pub(crate) arm_detail: Detail<String, Value>,
    pub(crate) prompt_id: Option<String>,
    pub(crate) prompt: PromptSource,
    pub(crate) generated: Option<Ids>,
    pub(crate) scopes: BTreeMap<Scope, ScopeMap>,
}

/// Where the prompt's tokens come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PromptSource {
    /// Whoever imports gives them.
    Given,
    /// Text to be tokenised by whoever imports.
    Text(String),
    List(Vec<u32>),
    Array(IdArray),
}

/// An array of integers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IdArray {
    pub(crate) array: String,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ids {
    /// What the logits before choose.
    Greedy,
    List(Vec<u32>),
    Array(IdArray),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Positions {
    /// All of the prompt.
    All,
    /// The last of the prompt.
    Last,
    /// Those after the prompt, one after another.
    Next,
    List(Vec<u32>),
    Array(IdArray),
}

/// The tokens fed at the rows of a scope.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fed {
    /// The prompt's, by position.
    Prompt,
    Ids(Ids),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScopeMap {
    pub(crate) positions: Positions,
    pub(crate) fed: Fed,
    /// In the map's words: a site, or a site with `{i}` for its block.
    pub(crate) sites: BTreeMap<String, SiteMap>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SiteMap {
    /// Joined along the last axis of a trace; empty is the file's only array.
    pub(crate) arrays: Vec<String>,
    pub(crate) axes: Axes,
    pub(crate) heads: Option<usize>,
    pub(crate) take: Take,
    /// Turns integer codes into numbers, one entry an array.
    pub(crate) codes: Option<Vec<Code>>,
    pub(crate) optional: bool,
}

/// value = scale · (code − zero_point)
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Code {
    pub(crate) scale: f64,
    pub(crate) zero_point: f64,
}

/// Which rows of an array are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    All,
    Last,
    Range { from: usize, to: Option<usize> },
}

impl Map {
    /// Reads a map; `origin` names it in errors.
    ///
    /// # Errors
    /// Not TOML, unknown keys, scopes, sites or axes, or a map without a site.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ImportError> {
        let wrong = |reason: String| ImportError::Map { origin: origin.to_owned(), reason };
        let raw: RawMap = toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        let prompt = match (raw.prompt.text, raw.prompt.token_ids) {
            (Some(_), Some(_)) => return Err(wrong("`prompt` has both `text` and `token_ids`; give one".into())),
            (Some(text), None) => PromptSource::Text(text),
            (None, Some(RawIds::List(ids))) => PromptSource::List(ids),
            (None, Some(RawIds::Array(array))) if !array.optional => PromptSource::Array(array.into()),
            (None, Some(_)) => return Err(wrong("`prompt.token_ids` is a list or { array = \"…\" }".into())),
            (None, None) => PromptSource::Given,
        };
        let scopes: BTreeMap<Scope, ScopeMap> = raw
            .scopes
            .into_iter()
            .map(|(name, scope)| scope_map(&name, scope))
            .collect::<Result<_, _>>()
            .map_err(wrong)?;
        if scopes.values().all(|scope| scope.sites.is_empty()) {
            return Err(wrong("it maps no site; add [scopes.SCOPE.sites.SITE] with `array` and `axes`".into()));
        }
        let detail = raw.arm.detail.into_iter().map(|(key, value)| Ok((key, serde_json::to_value(value)?)));
        let detail: Result<_, serde_json::Error> = detail.collect();
        Ok(Self {
            origin: origin.to_owned(),
            arm_name: raw.arm.name,
            arm_detail: detail.map_err(|error| wrong(error.to_string()))?,
            prompt_id: raw.prompt.id,
            prompt,
            generated: raw.generated.map(|ids| generated_ids(ids, "generated")).transpose().map_err(wrong)?,
            scopes,
        })
    }

    /// The text that whoever imports must tokenise and give as the prompt.
    #[must_use]
    pub fn prompt_text(&self) -> Option<&str> {
        match &self.prompt {
            PromptSource::Text(text) => Some(text),
            PromptSource::Given | PromptSource::List(_) | PromptSource::Array(_) => None,
        }
    }
}

fn scope_map(name: &str, value: toml::Value) -> Result<(Scope, ScopeMap), String> {
    let scope = match Scope::named(name) {
        Some(Scope::TbtFree) => {
            return Err("`scopes.tbt_free`: this scope holds no tensors; its ids are `generated`".into());
        }
        Some(scope) => scope,
        None => return Err(format!("`scopes.{name}`: not a scope; scopes are base, prefill, tbt, tbt_self")),
    };
    let raw = RawScope::deserialize(value).map_err(|error| format!("`scopes.{name}`: {}", error.message()))?;
    let at = |reason: String| format!("`scopes.{name}`: {reason}");
    let in_prompt = matches!(scope, Scope::Base | Scope::Prefill);
    let positions = match raw.positions {
        None if in_prompt => Positions::All,
        None => Positions::Next,
        Some(RawIds::List(list)) => Positions::List(list),
        Some(RawIds::Array(array)) => Positions::Array(array.into()),
        Some(RawIds::Word(word)) => match word.as_str() {
            "all" => Positions::All,
            "last" => Positions::Last,
            "next" => Positions::Next,
            _ => {
                return Err(at(format!(
                    "positions = \"{word}\"; expected all, last, next, a list or {{ array = \"…\" }}"
                )));
            }
        },
    };
    let fed = match raw.token_ids {
        None if in_prompt => Fed::Prompt,
        None => {
            return Err(at(
                "`token_ids` is missing: which tokens were fed? \"greedy\", a list or { array = \"…\" }".into()
            ));
        }
        Some(RawIds::Word(word)) if word == "prompt" => Fed::Prompt,
        Some(ids) => Fed::Ids(generated_ids(ids, "token_ids").map_err(at)?),
    };
    let sites = raw.sites.into_iter().map(|(site, raw)| {
        let parsed = site_map(&site, raw).map_err(|reason| format!("`scopes.{name}.sites.{site}`: {reason}"))?;
        Ok((site, parsed))
    });
    Ok((scope, ScopeMap { positions, fed, sites: sites.collect::<Result<_, String>>()? }))
}

fn generated_ids(raw: RawIds, key: &str) -> Result<Ids, String> {
    match raw {
        RawIds::List(list) => Ok(Ids::List(list)),
        RawIds::Array(array) => Ok(Ids::Array(array.into())),
        RawIds::Word(word) if word == "greedy" => Ok(Ids::Greedy),
        RawIds::Word(word) => Err(format!("{key} = \"{word}\"; expected greedy, a list or {{ array = \"…\" }}")),
    }
}

impl From<RawIdArray> for IdArray {
    fn from(raw: RawIdArray) -> Self {
        Self { array: raw.array, optional: raw.optional }
    }
}

fn site_map(site: &str, raw: RawSite) -> Result<SiteMap, String> {
    check_site(site)?;
    let arrays = match (raw.array, raw.arrays) {
        (Some(_), Some(_)) => return Err("both `array` and `arrays`; give one".into()),
        (Some(array), None) => vec![array],
        (None, Some(arrays)) if arrays.is_empty() => return Err("`arrays` is empty".into()),
        (None, Some(arrays)) => arrays,
        (None, None) => Vec::new(),
    };
    if site.contains(BLOCK) && !(arrays.len() == 1 && arrays[0].contains(BLOCK)) {
        return Err(format!("a site with {BLOCK} needs one `array` with {BLOCK} in its name"));
    }
    let take = match raw.take {
        None => Take::All,
        Some(RawTake::Word(word)) if word == "last" => Take::Last,
        Some(RawTake::Word(word)) => {
            return Err(format!("take = \"{word}\"; expected \"last\" or {{ from = 0, to = 1 }}"));
        }
        Some(RawTake::Range(range)) if range.to.is_some_and(|to| to <= range.from) => {
            return Err("`take` ends before it begins".into());
        }
        Some(RawTake::Range(range)) => Take::Range { from: range.from, to: range.to },
    };
    let codes = codes(raw.scale, raw.zero_point, arrays.len().max(1))?;
    Ok(SiteMap { arrays, axes: Axes::parse(&raw.axes)?, heads: raw.heads, take, codes, optional: raw.optional })
}

/// Stands for the index of a block, in a site and in the name of its array.
pub(crate) const BLOCK: &str = "{i}";

fn check_site(name: &str) -> Result<(), String> {
    if name.replacen(BLOCK, "0", 1).parse::<Site>().is_ok() {
        return Ok(());
    }
    let known: Vec<String> = Site::all(1).map(|site| site.to_string()).collect();
    let hint = nearest(name, known.iter().map(String::as_str))
        .map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
    Err(format!(
        "not a site{hint}; sites are named like embed, blocks.3.resid_post, blocks.{BLOCK}.q, final_norm, logits"
    ))
}

fn codes(
    scale: Option<RawNumbers>,
    zero_point: Option<RawNumbers>,
    arrays: usize,
) -> Result<Option<Vec<Code>>, String> {
    let each = |numbers: RawNumbers, key: &str| match numbers {
        RawNumbers::One(number) => Ok(vec![number; arrays]),
        RawNumbers::Each(numbers) if numbers.len() == arrays => Ok(numbers),
        RawNumbers::Each(numbers) => Err(format!("`{key}` has {} numbers for {arrays} arrays", numbers.len())),
    };
    let (scale, zero_point) = match (scale, zero_point) {
        (None, None) => return Ok(None),
        (Some(scale), Some(zero_point)) => (each(scale, "scale")?, each(zero_point, "zero_point")?),
        _ => return Err("`scale` and `zero_point` go together: value = scale · (code − zero_point)".into()),
    };
    if !scale.iter().all(|scale| scale.is_finite() && *scale > 0.0) || !zero_point.iter().all(|zero| zero.is_finite()) {
        return Err("`scale` must be above 0, and both finite".into());
    }
    Ok(Some(scale.into_iter().zip(zero_point).map(|(scale, zero_point)| Code { scale, zero_point }).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_maps_read() {
        for (name, text) in BUILT_IN {
            Map::parse(text, name).expect(name);
        }
    }

    #[test]
    fn a_map_that_makes_no_sense_says_where() {
        let site = |text: &str| format!("[scopes.base.sites.logits]\n{text}");
        for (text, says) in [
            (String::new(), "it maps no site"),
            ("x = 1".into(), "unknown field `x`"),
            ("[scopes.decode]".into(), "`scopes.decode`: not a scope"),
            ("[scopes.tbt_free]".into(), "its ids are `generated`"),
            ("[scopes.tbt]".into(), "`scopes.tbt`: `token_ids` is missing"),
            ("[scopes.base]\npositions = 'first'".into(), "positions = \"first\""),
            ("[scopes.base]\nposition = 'all'".into(), "`scopes.base`: unknown field `position`"),
            ("[scopes.tbt]\ntoken_ids = 'mine'".into(), "token_ids = \"mine\""),
            ("[scopes.base.sites.logit]\naxes = 'value'".into(), "not a site (did you mean `logits`?)"),
            (site("axes = 'rows value'"), "`scopes.base.sites.logits`: `rows` is not an axis"),
            (site("axes = 'value'\narray = 'a'\narrays = ['b']"), "both `array` and `arrays`"),
            (site("axes = 'value'\narrays = []"), "`arrays` is empty"),
            (site("axes = 'value'\nscale = 0.5"), "go together"),
            (site("axes = 'value'\nscale = -0.5\nzero_point = 0"), "must be above 0"),
            (site("axes = 'value'\narray = 'a'\nscale = [1.0, 2.0]\nzero_point = 0"), "2 numbers for 1 arrays"),
            (site("axes = 'value'\ntake = 'first'"), "take = \"first\""),
            (site("axes = 'value'\ntake = { from = 3, to = 3 }"), "ends before it begins"),
            ("[scopes.base.sites.'blocks.{i}.q']\naxes = 'value'\narray = 'q'".into(), "needs one `array` with {i}"),
            (
                format!("[prompt]\ntext = 'a'\ntoken_ids = [1]\n{}", site("axes = 'value'")),
                "both `text` and `token_ids`",
            ),
            (format!("generated = 'all'\n{}", site("axes = 'value'")), "generated = \"all\""),
        ] {
            let error = Map::parse(&text, "m.toml").expect_err(&text).to_string();
            assert!(error.starts_with("m.toml: ") && error.contains(says), "{text}: {error}");
        }
    }
}
