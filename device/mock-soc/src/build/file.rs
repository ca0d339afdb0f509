//! The file: groups, streams, resources.

use std::sync::Arc;

use fidelity_hef_writer::hef_writer::{Context, Edge, Group, Hef, Resource};
use serde_json::{Value, json};

use super::{
    calibration,
    checkpoint::Checkpoint,
    options::{Groups, HefOptions, InputOrder, MaskConvention},
};
use crate::network::{Decoder, Dimensions, Grid, GroupPlan, InputNames, Plan, Rotation, Weights, WeightsError};

/// A checkpoint that cannot be compiled as asked for.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Its weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A number of tokens.
    #[error(
        "{rows} rows and a cache of {cache} tokens: 1 to 65536 are possible, and the cache must hold more than one run"
    )]
    Rows {
        /// Rows of a run.
        rows: usize,
        /// Length of the caches.
        cache: usize,
    },
    /// The vocabulary cannot be divided.
    #[error("a vocabulary of {vocabulary} is not {shards} equal shards")]
    Shards {
        /// Logits.
        vocabulary: usize,
        /// Outputs.
        shards: usize,
    },
}

/// The most tokens of a run or a cache.
const MOST_TOKENS: usize = 1 << 16;

/// Compiles a checkpoint: the bytes of a HEF.
///
/// # Errors
/// The weights do not fit the dimensions, or the options do not fit the checkpoint.
pub fn build(checkpoint: &Checkpoint, options: &HefOptions) -> Result<Vec<u8>, BuildError> {
    Ok(Builder::of(checkpoint, options)?.hef().v3())
}

struct Builder<'a> {
    checkpoint: &'a Checkpoint,
    options: &'a HefOptions,
    dimensions: Dimensions,
    embedding: Vec<f32>,
    embedding_grid: Grid,
    shard_grids: Vec<Grid>,
}

impl<'a> Builder<'a> {
    fn of(checkpoint: &'a Checkpoint, options: &'a HefOptions) -> Result<Self, BuildError> {
        let dimensions = checkpoint.dimensions;
        let &HefOptions { rows, cache, shards, .. } = options;
        let fits = options.groups == Groups::Base || (rows < cache && cache <= MOST_TOKENS);
        if !(1..=MOST_TOKENS).contains(&rows) || !fits {
            return Err(BuildError::Rows { rows, cache });
        }
        if shards == 0 || !dimensions.vocabulary.is_multiple_of(shards) {
            return Err(BuildError::Shards { vocabulary: dimensions.vocabulary, shards });
        }
        let embedding = Weights::embedding(&checkpoint.weights, &dimensions)?;
        let weights = Arc::new(Weights::read(&checkpoint.weights, &dimensions)?);
        let decoder = Decoder { dimensions, rotation: options.rotation, weights };
        let ranges = match options.logits_range {
            Some(range) => vec![range; shards],
            None => calibration::ranges(&decoder, &embedding, &checkpoint.frequencies, shards),
        };
        let bounds = |[low, high]: [f32; 2], value: &f32| [low.min(*value), high.max(*value)];
        let embedding_grid = Grid::over(embedding.iter().fold([0.0, 0.0], bounds), 2);
        let shard_grids = ranges.into_iter().map(|range| Grid::over(range, options.logits.bytes())).collect();
        Ok(Self { checkpoint, options, dimensions, embedding, embedding_grid, shard_grids })
    }

    fn hef(&self) -> Hef {
        let plans = self.plans();
        let groups = plans.iter().map(|plan| self.group(plan)).collect();
        let plan = Plan {
            dimensions: self.dimensions,
            rotation: self.options.rotation,
            mask: self.options.mask.sense(),
            groups: plans,
        };
        let codes = self.embedding.iter().flat_map(|value| self.embedding_grid.nearest_code(*value).to_le_bytes());
        let plan = serde_json::to_vec(&plan).expect("plain data");
        Hef {
            groups,
            resources: vec![
                Resource::new("hailo-config.json", self.config().to_string()),
                Resource::new("embeddings.bin", codes.collect::<Vec<_>>()),
                Resource::new("rope_theta_data.bin", self.theta()),
                Resource::new("tokenizer.json", self.checkpoint.tokenizer.clone()),
                Resource::new(Plan::RESOURCE, plan),
                Resource::new(Weights::RESOURCE, self.checkpoint.weights.clone()),
            ],
            ccws: vec![7; 64],
            ..Hef::default()
        }
    }

    /// The number of columns of the mask.
    const fn columns(&self) -> usize {
        match self.options.groups {
            Groups::PrefillAndTbt | Groups::Prefill => self.options.cache,
            Groups::Base => self.options.rows,
        }
    }

    fn plans(&self) -> Vec<GroupPlan> {
        let prefill = ("base_model__prefill", "mock_prefill", self.options.rows, self.options.every_row);
        let tbt = ("base_model__tbt", "mock_tbt", 1, false);
        let groups = match self.options.groups {
            Groups::PrefillAndTbt => vec![prefill, tbt],
            Groups::Prefill | Groups::Base => vec![prefill],
        };
        let with_caches = self.options.groups != Groups::Base;
        let layers = if with_caches { 0..self.dimensions.layers as i32 } else { 0..0 };
        let caches: Vec<_> = layers.map(|layer| [2 * layer, 2 * layer + 1]).collect();
        let plan = |(name, network, rows, every_row): (&str, &str, usize, bool)| GroupPlan {
            name: name.into(),
            rows,
            columns: self.columns(),
            inputs: self.input_names(network),
            outputs: (1..=self.options.shards).map(|shard| format!("{network}/conv{shard}")).collect(),
            every_row,
            caches: caches.clone(),
        };
        groups.into_iter().map(plan).collect()
    }

    fn input_names(&self, network: &str) -> InputNames {
        let name = |number: u32| format!("{network}/input_layer{number}");
        let [query_cos, query_sin, key_cos, key_sin] = self.suffix_numbers().map(name);
        InputNames { embeddings: name(1), mask: name(2), query_cos, query_sin, key_cos, key_sin }
    }

    /// Of Q cos, Q sin, K cos, K sin.
    const fn suffix_numbers(&self) -> [u32; 4] {
        match self.options.inputs {
            InputOrder::Official => [3, 4, 5, 6],
            InputOrder::KeysFirst => [4, 6, 3, 5],
        }
    }

    fn config(&self) -> Value {
        let (first, others) = self.checkpoint.eos_ids.split_first().map_or((0, [].as_slice()), |(id, ids)| (*id, ids));
        let mut config = json!({
            "eos_token_id": first,
            "stop_token_id": others,
            "chat_template": self.checkpoint.chat_template,
            "pre_process_params": {
                "kv_cache_size": self.columns(),
                "num_attention_heads": self.dimensions.query_heads,
                "num_key_value_heads": self.dimensions.kv_heads,
                "prefill_input_tokens_count": self.options.rows,
            },
        });
        if self.options.inputs != InputOrder::Official {
            let [query_cos, query_sin, key_cos, key_sin] =
                self.suffix_numbers().map(|number| format!("input_layer{number}"));
            config["input_layers_names_suffixes"] = json!({
                "embeddings": "input_layer1",
                "attention_mask": "input_layer2",
                "pe_q_cos": query_cos,
                "pe_q_sin": query_sin,
                "pe_k_cos": key_cos,
                "pe_k_sin": key_sin,
            });
        }
        config
    }

    /// `rope_theta_data.bin`: both halves, the first with the sign that the graph leaves to the table.
    fn theta(&self) -> Vec<u8> {
        let sign = match self.options.rotation {
            Rotation::SignInTable => -1.0,
            Rotation::SignInGraph => 1.0,
        };
        let half = |sign: f64| self.checkpoint.frequencies.iter().map(move |value| (value * sign) as f32);
        half(sign).chain(half(1.0)).flat_map(f32::to_le_bytes).collect()
    }

    fn group(&self, plan: &GroupPlan) -> Group {
        let (queries, keys) = (self.dimensions.query_width(), self.dimensions.key_width());
        let row = |name: &str, width: usize, grid: Grid| edge(name, 0, [1, plan.rows, width], grid);
        let names = &plan.inputs;
        let mask = row(&names.mask, self.dimensions.query_heads * plan.columns, self.mask_grid());
        let rope = rope_grid(self.options.rope.bytes());
        // The order of a compiled file is arbitrary; official ones have the mask first.
        let mut first = vec![
            mask,
            row(&names.embeddings, self.dimensions.hidden, self.embedding_grid),
            row(&names.key_sin, keys, rope),
            row(&names.query_cos, queries, rope),
            row(&names.key_cos, keys, rope),
            row(&names.query_sin, queries, rope),
        ];
        for id in plan.caches.iter().flatten() {
            let entries = [("in", 0, plan.columns - plan.rows), ("out", 1, plan.rows)];
            first.extend(entries.map(|(side, direction, tokens)| Edge {
                connection: 3,
                cache_id: i64::from(*id),
                quantisation: None,
                ..Edge::new(&format!("{}/cache_{side}{id}", network(plan)), direction, shape([1, tokens, keys]))
            }));
        }
        let rows = if plan.every_row { plan.rows } else { 1 };
        let width = self.dimensions.vocabulary / self.options.shards;
        let outputs = plan.outputs.iter().zip(&self.shard_grids);
        let outputs: Vec<_> = outputs.map(|(name, grid)| edge(name, 1, [1, rows, width], *grid)).collect();
        // The file has them in another order than the host: the sorted list decides.
        let context = |index, edges| Context { index, edges, ..Context::default() };
        let contexts =
            vec![Context { ccws: vec![(0, 64)], ..context(0, first) }, context(1, outputs.into_iter().rev().collect())];
        Group {
            name: plan.name.clone(),
            networks: vec![network(plan).into()],
            contexts,
            outputs_order: plan.outputs.clone(),
            more: Vec::new(),
        }
    }

    const fn mask_grid(&self) -> Grid {
        match self.options.mask {
            MaskConvention::Official => {
                Grid { scale: 1.0 / 128.0, zero_point: 0.0, limits: [0.0, 1.0], largest_code: 255 }
            }
            MaskConvention::Added => {
                Grid { scale: 100.0 / 255.0, zero_point: 255.0, limits: [-100.0, 0.0], largest_code: 255 }
            }
        }
    }
}

/// The network's name, which the names of streams begin with.
fn network(plan: &GroupPlan) -> &str {
    plan.inputs.embeddings.split('/').next().unwrap_or_default()
}

/// -1 to 1 with 0 in the middle.
fn rope_grid(bytes: usize) -> Grid {
    let steps: f32 = if bytes == 1 { 127.0 } else { 32767.0 };
    Grid {
        scale: 1.0 / steps,
        zero_point: steps + 1.0,
        limits: [-1.0 - 1.0 / steps, 1.0],
        largest_code: crate::network::largest_code(bytes),
    }
}

fn shape(sizes: [usize; 3]) -> [u64; 3] {
    sizes.map(|size| size as u64)
}

fn edge(name: &str, direction: u64, sizes: [usize; 3], grid: Grid) -> Edge {
    Edge {
        data_bytes: if grid.largest_code > 255 { 2 } else { 1 },
        quantisation: Some((grid.scale, grid.zero_point)),
        limits: grid.limits,
        ..Edge::new(name, direction, shape(sizes))
    }
}
