//! What the checks look at: the file, who plays which role in it, and its resources as far as they can be read.

use std::io::{Read, Seek};

use crate::hef::{Description, Group, Hef, HefError, Stream, quoted};

use super::{
    config::{Config, Role},
    facts::TokenizerFacts,
};

pub(crate) const EMBEDDINGS: &str = "embeddings.bin";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const THETA: &str = "rope_theta_data.bin";
pub(crate) const CONFIG: &str = "hailo-config.json";

/// Above this hailo-config.json is not read.
const MAX_CONFIG_BYTES: u64 = 4 << 20;
/// Above this a RoPE table is not read: heads have at most thousands of dimensions.
const MAX_THETA_BYTES: u64 = 256 << 10;
/// Above this tokenizer.json is not read.
const MAX_TOKENIZER_BYTES: u64 = 64 << 20;

/// A resource, as far as it can be read.
pub(crate) enum Loaded<T> {
    Missing,
    Unusable(String),
    Read(T),
}

impl<T> Loaded<T> {
    pub(crate) const fn read(&self) -> Option<&T> {
        match self {
            Self::Read(value) => Some(value),
            Self::Missing | Self::Unusable(_) => None,
        }
    }
}

/// A group that a host runs.
pub(super) struct Part<'a> {
    /// `prefill` or `tbt`.
    pub(super) role: &'static str,
    pub(super) group: &'a Group,
    /// The input of each role, in the order of [`Role::ALL`].
    inputs: [Option<&'a Stream>; 6],
}

impl<'a> Part<'a> {
    fn of(role: &'static str, group: &'a Group, config: &Config) -> Self {
        let inputs = std::array::from_fn(|index| {
            let suffix = &config.suffixes[index];
            group.inputs.iter().filter(|input| input.name.ends_with(suffix.as_str())).min_by_key(|input| &input.name)
        });
        Self { role, group, inputs }
    }

    pub(super) const fn input(&self, role: Role) -> Option<&'a Stream> {
        self.inputs[role as usize]
    }

    /// Values of all outputs together: the width of lm_head, where they are shards of it.
    pub(super) fn logits(&self) -> u64 {
        self.group.outputs.iter().fold(0, |sum, output| sum.saturating_add(output.features()))
    }
}

/// What the checks look at.
pub(super) struct Model<'a> {
    pub(super) description: &'a Description,
    /// Why this is taken for a language model; empty when it is not.
    pub(super) traits: Vec<String>,
    pub(super) prefill: Option<Part<'a>>,
    pub(super) tbt: Option<Part<'a>>,
    pub(super) config: Loaded<()>,
    /// hailo-config.json, or the defaults where it cannot be read.
    pub(super) parameters: Config,
    pub(super) theta: Loaded<Vec<f32>>,
    pub(super) tokenizer: Loaded<TokenizerFacts>,
}

/// What is read of a file before its checks: everything but the embeddings.
pub(crate) struct Resources {
    pub(crate) config: Loaded<Config>,
    pub(crate) theta: Loaded<Vec<f32>>,
    tokenizer: Loaded<TokenizerFacts>,
}

impl Resources {
    pub(crate) fn read<R: Read + Seek>(hef: &mut Hef<R>) -> Result<Self, HefError> {
        let config = bytes(hef, CONFIG, MAX_CONFIG_BYTES)?.parsed(|bytes| Config::parse(&bytes));
        let theta = bytes(hef, THETA, MAX_THETA_BYTES)?.parsed(|bytes| floats(&bytes));
        let tokenizer = match place(hef, TOKENIZER, MAX_TOKENIZER_BYTES) {
            Loaded::Missing => Loaded::Missing,
            Loaded::Unusable(reason) => Loaded::Unusable(reason),
            Loaded::Read((start, size)) => {
                let (_, source) = hef.parts();
                match TokenizerFacts::read(source.part(start, size)?) {
                    Ok(facts) => Loaded::Read(facts),
                    Err(reason) => Loaded::Unusable(reason),
                }
            }
        };
        Ok(Self { config, theta, tokenizer })
    }
}

impl<'a> Model<'a> {
    pub(super) fn of(description: &'a Description, resources: Resources) -> Self {
        let (config, parameters) = match resources.config {
            Loaded::Read(config) => (Loaded::Read(()), config),
            Loaded::Missing => (Loaded::Missing, Config::default()),
            Loaded::Unusable(reason) => (Loaded::Unusable(reason), Config::default()),
        };
        let groups = &description.groups;
        let (prefill, tbt) = suffixes(groups.len());
        let part = |role, suffix: Option<&str>| Some(Part::of(role, last(groups, suffix?)?, &parameters));
        Self {
            traits: traits(description),
            prefill: part("prefill", Some(prefill)),
            tbt: part("tbt", tbt),
            config,
            theta: resources.theta,
            tokenizer: resources.tokenizer,
            parameters,
            description,
        }
    }

    /// prefill, then tbt, as far as they are there.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part<'a>> {
        self.prefill.iter().chain(&self.tbt)
    }

    /// Values of the RoPE table, which is one a dimension of a head.
    pub(super) fn head_dim(&self) -> Option<u64> {
        self.theta.read().map(|theta| theta.len() as u64)
    }

    /// Rows that a group is fed: prefill_input_tokens_count or one.
    pub(super) fn rows(&self, part: &Part<'_>) -> u64 {
        if part.role == "tbt" { 1 } else { self.parameters.prefill_count.value }
    }
}

/// Outputs that the logits of a compiled language model are split into, where every group that a host runs says the same.
#[must_use]
pub fn logit_shards(description: &Description) -> Option<usize> {
    let groups = &description.groups;
    let (prefill, tbt) = suffixes(groups.len());
    let whole = || groups.first().filter(|only| groups.len() == 1 && only.cache_edges.is_empty());
    let first = last(groups, prefill).or_else(whole)?;
    let shards = first.outputs.len();
    let same = tbt.and_then(|suffix| last(groups, suffix)).is_none_or(|group| group.outputs.len() == shards);
    (same && shards > 0).then_some(shards)
}

/// The suffixes of prefill and tbt by number of groups. With more than two, others belong to LoRA adapters; with one, there is
/// no tbt.
pub(crate) const fn suffixes(groups: usize) -> (&'static str, Option<&'static str>) {
    match groups {
        0 | 1 => ("prefill", None),
        2 => ("prefill", Some("tbt")),
        _ => ("base_model__prefill", Some("base_model__tbt")),
    }
}

/// The last match wins.
pub(crate) fn last<'a>(groups: &'a [Group], suffix: &str) -> Option<&'a Group> {
    groups.iter().rfind(|group| group.name.ends_with(suffix))
}

fn traits(description: &Description) -> Vec<String> {
    let group = |group: &&Group| group.name.ends_with("prefill") || group.name.ends_with("tbt");
    let groups = description.groups.iter().filter(group).map(|group| format!("group {}", quoted(&group.name)));
    let resources = [THETA, EMBEDDINGS].into_iter().filter(|name| description.resource(name).is_some());
    groups.chain(resources.map(|name| format!("resource {name}"))).take(4).collect()
}

/// Where a resource lies, if it is in the file and not above `limit`.
fn place<R: Read + Seek>(hef: &Hef<R>, name: &str, limit: u64) -> Loaded<(u64, u64)> {
    let Some(resource) = hef.description().resource(name) else { return Loaded::Missing };
    match resource.file_offset {
        None => Loaded::Unusable("it is not inside the file".into()),
        Some(_) if resource.size_bytes > limit => {
            Loaded::Unusable(format!("it has {} bytes, above {limit} none is read", resource.size_bytes))
        }
        Some(start) => Loaded::Read((start, resource.size_bytes)),
    }
}

fn bytes<R: Read + Seek>(hef: &mut Hef<R>, name: &str, limit: u64) -> Result<Loaded<Vec<u8>>, HefError> {
    Ok(match place(hef, name, limit) {
        Loaded::Missing => Loaded::Missing,
        Loaded::Unusable(reason) => Loaded::Unusable(reason),
        Loaded::Read((start, size)) => Loaded::Read(hef.parts().1.read(start, size as usize)?),
    })
}

impl Loaded<Vec<u8>> {
    fn parsed<T>(self, parse: impl FnOnce(Vec<u8>) -> Result<T, String>) -> Loaded<T> {
        match self {
            Self::Missing => Loaded::Missing,
            Self::Unusable(reason) => Loaded::Unusable(reason),
            Self::Read(bytes) => match parse(bytes) {
                Ok(value) => Loaded::Read(value),
                Err(reason) => Loaded::Unusable(reason),
            },
        }
    }
}

/// float32, little-endian.
fn floats(bytes: &[u8]) -> Result<Vec<f32>, String> {
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || values.is_empty() {
        return Err(format!("it has {} bytes, expected a whole number of float32 values", bytes.len()));
    }
    Ok(values.iter().map(|quad| f32::from_le_bytes(*quad)).collect())
}
