//! What a mock HEF says of its network beside the streams: the resource `mock-network.json`.

use serde::{Deserialize, Serialize};

/// Dimensions of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimensions {
    /// Blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the MLP.
    pub intermediate: usize,
    /// Query heads.
    pub query_heads: usize,
    /// Key and value heads, a divisor of the query heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of embedding and head.
    pub vocabulary: usize,
    /// Added to the mean square in RMSNorm.
    pub norm_epsilon: f32,
}

/// Above these a geometry is refused: sizes computed from it must not overflow, nor memory run out.
const MOST: usize = 1 << 20;

impl Dimensions {
    /// Values of all query heads.
    pub(crate) const fn query_width(&self) -> usize {
        self.query_heads * self.head_dim
    }

    /// Values of all key heads: a cache entry.
    pub(crate) const fn key_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Whether a decoder can have these.
    pub(crate) fn is_sound(&self) -> bool {
        let sizes = [
            self.layers,
            self.hidden,
            self.intermediate,
            self.query_heads,
            self.kv_heads,
            self.head_dim,
            self.vocabulary,
        ];
        sizes.iter().all(|size| (1..=MOST).contains(size))
            && self.query_heads.is_multiple_of(self.kv_heads)
            && self.head_dim.is_multiple_of(2)
            && self.norm_epsilon.is_finite()
    }
}

/// How the compiled graph rotates heads, which the RoPE table must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Rotation {
    /// The graph exchanges the halves of a head, `(x2, x1)`; the sign is in the first half of sin, since the first half of the
    /// table is negative (the official convention).
    SignInTable,
    /// The graph makes `(-x2, x1)`; the table is positive throughout.
    SignInGraph,
}

/// What a value of the mask means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskSense {
    /// 1 is visible, 0 is hidden (the official convention): the graph adds `(value - 1) x 100` to the scores.
    OneIsVisible,
    /// The value is added to the scores: 0 is visible, -100 is hidden.
    Added,
}

/// Names of the six inputs of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputNames {
    pub(crate) embeddings: String,
    pub(crate) mask: String,
    pub(crate) query_cos: String,
    pub(crate) query_sin: String,
    pub(crate) key_cos: String,
    pub(crate) key_sin: String,
}

/// What a network group computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupPlan {
    /// Its name, as the HEF has it.
    pub(crate) name: String,
    /// Rows a run is fed.
    pub(crate) rows: usize,
    /// Columns a head sees: the length of the caches, or the rows where there are none.
    pub(crate) columns: usize,
    pub(crate) inputs: InputNames,
    /// Shards of the logits, in order.
    pub(crate) outputs: Vec<String>,
    /// Logits of every row are given, not of the last alone.
    pub(crate) every_row: bool,
    /// Ids of the caches of keys and of values of each block; empty without caches.
    pub(crate) caches: Vec<[i32; 2]>,
}

/// `mock-network.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) dimensions: Dimensions,
    pub(crate) rotation: Rotation,
    pub(crate) mask: MaskSense,
    pub(crate) groups: Vec<GroupPlan>,
}

impl Plan {
    /// Its name among the resources of a HEF.
    pub(crate) const RESOURCE: &'static str = "mock-network.json";
}
