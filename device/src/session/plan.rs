//! What is fed where: roles, groups and dimensions of a compiled language model, cross-checked before anything runs.
//! `HailoRT`'s own host only asserts what is checked here, which is memory corruption in a release build.

use std::io::{Read, Seek};

use super::{
    SessionError,
    geometry::{Feeding, Geometry, Shard},
};
use crate::{
    audit::{
        config::{Config, Role},
        inputs::visible_code,
        model::{EMBEDDINGS, Loaded, Resources, last, suffixes},
    },
    hef::{Description, Direction, Group, Hef, Quantisation, Stream, quoted},
};

/// Above this no group is fed: real ones take 96 rows.
const MAX_ROWS: usize = 1 << 16;

/// One group and what its inputs are.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) group: String,
    /// Tokens it is fed at once.
    pub(crate) rows: usize,
    /// Names of the inputs, in the order of [`Role::ALL`].
    pub(crate) inputs: [String; 6],
    /// Names of the outputs, in order.
    pub(crate) outputs: Vec<String>,
    /// Rows of logits it gives.
    pub(crate) output_rows: usize,
    /// Mask code of a visible column.
    pub(crate) allow: u8,
}

/// What is fed where.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) geometry: Geometry,
    /// The group of many rows.
    pub(crate) wide: Part,
    pub(crate) tbt: Option<Part>,
    pub(crate) theta: Vec<f32>,
    /// Where embeddings.bin begins in the file.
    pub(crate) embeddings_start: u64,
}

impl Plan {
    pub(crate) fn of<R: Read + Seek>(hef: &mut Hef<R>) -> Result<Self, SessionError> {
        let resources = Resources::read(hef)?;
        let config = loaded(resources.config, "hailo-config.json")?;
        if let Some(problem) = config.problems.first() {
            return Err(contract(problem.clone()));
        }
        let theta = loaded(resources.theta, "rope_theta_data.bin")?;
        if theta.is_empty() || theta.iter().any(|value| !value.is_finite()) {
            return Err(contract("rope_theta_data.bin holds a value that is not finite, or none"));
        }
        Draft { description: hef.description(), config: &config, theta }.finish()
    }

    /// Both groups, prefill first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.wide).chain(&self.tbt)
    }
}

pub(super) fn contract(reason: impl Into<String>) -> SessionError {
    SessionError::Contract { reason: reason.into() }
}

fn loaded<T>(resource: Loaded<T>, name: &'static str) -> Result<T, SessionError> {
    match resource {
        Loaded::Read(value) => Ok(value),
        Loaded::Missing => Err(contract(format!("{name} is missing"))),
        Loaded::Unusable(reason) => Err(contract(format!("{name}: {reason}"))),
    }
}

struct Draft<'a> {
    description: &'a Description,
    config: &'a Config,
    theta: Vec<f32>,
}

impl Draft<'_> {
    fn finish(self) -> Result<Plan, SessionError> {
        let (feeding, wide, tbt) = self.groups()?;
        let rows = size(wide_rows(wide, self.config)?, "rows of the embedding input")?;
        if rows > MAX_ROWS {
            return Err(contract(format!("{rows} rows at once; {MAX_ROWS} are the most that are fed")));
        }
        let cache_length = match feeding {
            Feeding::Whole => rows,
            Feeding::PrefillAndTbt | Feeding::PrefillOnly => {
                if self.config.prefill_count.value != rows as u64 {
                    let count = self.config.prefill_count;
                    return Err(contract(format!("{count}, but prefill is fed {rows} rows")));
                }
                size(self.config.kv_cache_size.value, "kv_cache_size")?
            }
        };
        let allow = self.allow(wide)?;
        for group in std::iter::once(wide).chain(tbt) {
            caches(group, feeding, cache_length)?;
        }
        let hidden = size(role(wide, self.config, Role::Embeddings)?.features(), "width of the embedding input")?;
        let (embeddings_start, embedding_rows) = self.embeddings(hidden)?;
        let head_dim = self.theta.len();
        let mut geometry = Geometry {
            feeding,
            hidden,
            query_heads: size(self.config.query_heads.value, "num_attention_heads")?,
            kv_heads: size(self.config.kv_heads.value, "num_key_value_heads")?,
            head_dim,
            cache_length,
            prefill_rows: rows,
            output_rows: 1,
            embedding_rows,
            // Most rows come from tbt; one of prefill that does not lie on its grid is not judged by it.
            shards: shards(tbt.unwrap_or(wide))?,
            prefill_steps: shards(wide)?.into_iter().map(|shard| shard.step).collect(),
        };
        let wide = self.part(wide, rows, allow, &geometry)?;
        let tbt = tbt.map(|group| self.part(group, 1, allow, &geometry)).transpose()?;
        geometry.output_rows = wide.output_rows;
        Ok(Plan { geometry, wide, tbt, theta: self.theta, embeddings_start })
    }

    /// Groups by suffix; one group without a cache is fed whole sequences.
    fn groups(&self) -> Result<(Feeding, &Group, Option<&Group>), SessionError> {
        let groups = &self.description.groups;
        if let [only] = &groups[..]
            && only.cache_edges.is_empty()
        {
            return Ok((Feeding::Whole, only, None));
        }
        let (prefill, tbt) = suffixes(groups.len());
        let named = |suffix| last(groups, suffix).ok_or_else(|| contract(format!("no group ends in `{suffix}`")));
        let wide = named(prefill)?;
        match tbt {
            None => Ok((Feeding::PrefillOnly, wide, None)),
            Some(tbt) => Ok((Feeding::PrefillAndTbt, wide, Some(named(tbt)?))),
        }
    }

    fn embeddings(&self, hidden: usize) -> Result<(u64, usize), SessionError> {
        let resource = self.description.resource(EMBEDDINGS).ok_or_else(|| contract("embeddings.bin is missing"))?;
        let start = resource.file_offset.ok_or_else(|| contract("embeddings.bin is not inside the file"))?;
        let row_bytes = hidden as u64 * 2;
        if resource.size_bytes == 0 || resource.size_bytes % row_bytes != 0 {
            let bytes = resource.size_bytes;
            return Err(contract(format!("embeddings.bin has {bytes} bytes, no whole number of rows of {row_bytes}")));
        }
        Ok((start, size(resource.size_bytes / row_bytes, "rows of embeddings.bin")?))
    }

    /// The mask code of a visible column: like `HailoRT`'s host, that of prefill for both groups.
    fn allow(&self, wide: &Group) -> Result<u8, SessionError> {
        let mask = role(wide, self.config, Role::Mask)?;
        let allow = mask.quantisation.as_ref().and_then(visible_code).filter(|code| *code >= 1.0);
        allow
            .map(|code| code as u8)
            .ok_or_else(|| contract(format!("{}: 1.0 has no code of its own", quoted(&mask.name))))
    }

    fn part(&self, group: &Group, rows: usize, allow: u8, geometry: &Geometry) -> Result<Part, SessionError> {
        let inputs = Role::ALL.map(|role| self::role(group, self.config, role));
        let mut names = Vec::with_capacity(6);
        for (role, input) in Role::ALL.into_iter().zip(inputs) {
            let input = input?;
            fits(input, role, rows, geometry)?;
            if names.contains(&input.name) {
                return Err(contract(format!("{} is taken for two roles", quoted(&input.name))));
            }
            names.push(input.name.clone());
        }
        if group.inputs.len() != Role::ALL.len() {
            return Err(contract(format!(
                "group {} has {} inputs; six are fed",
                quoted(&group.name),
                group.inputs.len()
            )));
        }
        let widths = |shards: &[Shard]| shards.iter().map(|shard| shard.width).collect::<Vec<_>>();
        if widths(&shards(group)?) != widths(&geometry.shards) {
            return Err(contract("the groups do not give logits in the same shards"));
        }
        let output_rows = group.outputs.first().and_then(Stream::rows).unwrap_or_default();
        if output_rows != 1 && output_rows != rows as u64 {
            return Err(contract(format!(
                "{output_rows} rows of logits for {rows} rows of tokens; 1 or {rows} are known"
            )));
        }
        Ok(Part {
            group: group.name.clone(),
            rows,
            inputs: names.try_into().map_err(|_| contract("six inputs are fed"))?,
            outputs: group.outputs.iter().map(|output| output.name.clone()).collect(),
            output_rows: size(output_rows, "rows of logits")?,
            allow,
        })
    }
}

fn wide_rows(group: &Group, config: &Config) -> Result<u64, SessionError> {
    let input = role(group, config, Role::Embeddings)?;
    input.rows().filter(|rows| *rows > 0).ok_or_else(|| contract(format!("{} has no row", quoted(&input.name))))
}

/// The input of a role: by suffix, the first in the order of names.
fn role<'a>(group: &'a Group, config: &Config, role: Role) -> Result<&'a Stream, SessionError> {
    let suffix = &config.suffixes[role as usize];
    let matching = group.inputs.iter().filter(|input| input.name.ends_with(suffix.as_str()));
    matching.min_by_key(|input| &input.name).ok_or_else(|| {
        contract(format!("group {}: no input ends in {} for {}", quoted(&group.name), quoted(suffix), role.key()))
    })
}

/// Rows, width and type of an input.
fn fits(input: &Stream, role: Role, rows: usize, geometry: &Geometry) -> Result<(), SessionError> {
    let Geometry { hidden, query_heads, kv_heads, head_dim, cache_length, .. } = *geometry;
    let (width, data_type) = match role {
        Role::Embeddings => (Some(hidden), Some("UINT16")),
        Role::Mask => (query_heads.checked_mul(cache_length), Some("UINT8")),
        Role::QueryCos | Role::QuerySin => (query_heads.checked_mul(head_dim), None),
        Role::KeyCos | Role::KeySin => (kv_heads.checked_mul(head_dim), None),
    };
    let name = quoted(&input.name);
    if input.rows() != Some(rows as u64) || width.is_none_or(|width| width as u64 != input.features()) {
        let (key, shape) = (role.key(), input.shape_text());
        let width = width.map_or_else(|| "more than there can be".into(), |width| width.to_string());
        return Err(contract(format!("{name} ({key}) is {shape}, expected {rows} rows of {width} values")));
    }
    if data_type.is_some_and(|expected| input.data_type != Some(expected)) {
        let (key, bytes) = (role.key(), input.data_bytes);
        return Err(contract(format!("{name} ({key}) has values of {bytes} bytes")));
    }
    rows_by_features(input)
}

/// The order on the host in which a row's values lie side by side.
fn rows_by_features(stream: &Stream) -> Result<(), SessionError> {
    match stream.layout.host {
        Some("NHWC" | "FCR" | "NC") => Ok(()),
        other => {
            let (name, order) = (quoted(&stream.name), other.unwrap_or("unknown"));
            Err(contract(format!("{name} has the order {order}; rows of features are known")))
        }
    }
}

/// Read and written part of every cache make up the whole ring.
fn caches(group: &Group, feeding: Feeding, length: usize) -> Result<(), SessionError> {
    let name = quoted(&group.name);
    if feeding != Feeding::Whole && group.cache_edges.is_empty() {
        return Err(contract(format!("group {name} has no cache")));
    }
    for edge in group.cache_edges.iter().filter(|edge| edge.stream.direction == Direction::In) {
        let own = |other: &&crate::hef::CacheEdge| {
            other.cache_id == edge.cache_id && other.stream.direction == Direction::Out
        };
        let written = group.cache_edges.iter().find(own).and_then(|other| other.stream.rows());
        let entries = edge.stream.rows().zip(written).and_then(|(read, written)| read.checked_add(written));
        if entries != Some(length as u64) {
            let found = entries.map_or_else(|| "no".into(), |entries| entries.to_string());
            let id = edge.cache_id;
            return Err(contract(format!("group {name}: cache {id} has {found} entries, kv_cache_size is {length}")));
        }
    }
    Ok(())
}

/// Outputs as shards of a row of logits, all of one size.
fn shards(group: &Group) -> Result<Vec<Shard>, SessionError> {
    let first =
        group.outputs.first().ok_or_else(|| contract(format!("group {} has no output", quoted(&group.name))))?;
    for output in &group.outputs {
        rows_by_features(output)?;
        if output.shape != first.shape {
            let (name, shape, expected) = (quoted(&output.name), output.shape_text(), first.shape_text());
            return Err(contract(format!(
                "{name} is {shape}, {} is {expected}: shards must be equal",
                quoted(&first.name)
            )));
        }
    }
    let width = size(first.features(), "logits of a shard")?;
    let step = |output: &Stream| output.quantisation.as_ref().and_then(step);
    Ok(group.outputs.iter().map(|output| Shard { width, step: step(output) }).collect())
}

/// The step that all features share.
fn step(quantisation: &Quantisation) -> Option<f64> {
    let mut scales = quantisation.scales();
    let first = scales.next()?;
    let all = scales.all(|scale| scale.to_bits() == first.to_bits());
    (all && first.is_finite() && first > 0.0).then_some(first)
}

/// A dimension: above 0, and what buffers are made of fits a frame of 32 bits on the device.
fn size(value: u64, what: &str) -> Result<usize, SessionError> {
    match u32::try_from(value) {
        Ok(value) if value > 0 => Ok(value as usize),
        Ok(_) | Err(_) => Err(contract(format!("{what}: {value} is no size"))),
    }
}
