//! `trace.json`: the manifest of a trace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Deviation, Scope, Site};

/// The value of `format`.
pub const FORMAT: &str = "fidelity-trace";
/// The format version this crate writes and reads.
pub const VERSION: u32 = 1;

/// What kind of network a checkpoint is, which decides what is compared and judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A position sees itself and those before it; a head gives logits, which are judged.
    #[default]
    Decoder,
    /// Every position sees every other; there is no head, and what is judged is `final_norm`.
    Encoder,
}

impl Network {
    /// The site whose rows are judged.
    #[must_use]
    pub const fn judged_site(self) -> Site {
        match self {
            Self::Decoder => Site::Logits,
            Self::Encoder => Site::FinalNorm,
        }
    }

    const fn is_decoder(&self) -> bool {
        matches!(self, Self::Decoder)
    }
}

/// What kind of arm computed a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmKind {
    /// The float32 reference.
    Reference,
    /// A recipe emulated on the host, with optional faults.
    Emulator,
    /// A HEF on silicon.
    Hailo,
    /// Values of another tool.
    Import,
    /// A stored trace.
    Replay,
}

impl std::fmt::Display for ArmKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reference => "reference",
            Self::Emulator => "emulator",
            Self::Hailo => "hailo",
            Self::Import => "import",
            Self::Replay => "replay",
        })
    }
}

/// Who computed a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// The kind of arm.
    pub kind: ArmKind,
    /// A short name, shown in tables.
    #[serde(default)]
    pub name: String,
    /// Whatever else identifies it.
    #[serde(default)]
    pub detail: Map<String, Value>,
}

/// Which checkpoint was computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointIdentity {
    /// Row name or folder name.
    #[serde(default)]
    pub name: String,
    /// Where it came from.
    #[serde(default)]
    pub source: String,
    /// Resolved revision, if the source has revisions.
    #[serde(default)]
    pub revision: Option<String>,
    /// SHA-256 of the weight files, in name order.
    #[serde(default)]
    pub weights_sha256: Option<String>,
    /// The checkpoint's config.json.
    #[serde(default)]
    pub config: Value,
}

/// Whether a prompt was computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Computed.
    #[default]
    Ok,
    /// Tried and failed.
    Failed,
    /// Not tried.
    Skipped,
}

/// Ids an arm generated greedily.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generated {
    /// The scope they were generated in.
    pub scope: Scope,
    /// The ids, without the prompt.
    pub ids: Vec<u32>,
}

/// How many values of a site lie outside the range that was calibrated there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutsideRange {
    /// Values in all.
    pub values: u64,
    /// Values outside.
    pub outside: u64,
    /// How far outside the farthest is, in widths of the range.
    pub widths: f64,
}

/// One prompt of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptRecord {
    /// The prompt's id, unique in the trace (with `repeat`).
    pub id: String,
    /// Its text, if it was text.
    #[serde(default)]
    pub text: Option<String>,
    /// Its tokens.
    pub token_ids: Vec<u32>,
    /// The safetensors file, relative to the trace's folder.
    pub file: String,
    /// The scopes in the file.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// What the arm generated.
    #[serde(default)]
    pub generated: Option<Generated>,
    /// Which repetition of the prompt this is.
    #[serde(default)]
    pub repeat: u32,
    /// Whether it was computed.
    #[serde(default)]
    pub status: Status,
    /// Why it was not.
    #[serde(default)]
    pub error: Option<String>,
    /// SHA-256 of the file.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Of a quantised arm: values outside their calibrated ranges, by scope and site, of this prompt or of a few that were
    /// computed together and of which this is the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outside_range: BTreeMap<Scope, BTreeMap<Site, OutsideRange>>,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl PromptRecord {
    /// Prompt `index` of a trace before an arm has computed it.
    #[must_use]
    pub fn new(index: usize, id: String, text: Option<String>, token_ids: Vec<u32>) -> Self {
        Self {
            id,
            text,
            token_ids,
            file: format!("prompts/{index:04}.safetensors"),
            scopes: Vec::new(),
            generated: None,
            repeat: 0,
            status: Status::Skipped,
            error: None,
            sha256: None,
            outside_range: BTreeMap::new(),
            other: Map::new(),
        }
    }
}

/// The manifest of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// Who computed it.
    pub arm: Arm,
    /// Of which checkpoint.
    #[serde(default)]
    pub checkpoint: CheckpointIdentity,
    /// What kind of network it is.
    #[serde(default, skip_serializing_if = "Network::is_decoder")]
    pub network: Network,
    /// What was done to the computation on purpose.
    #[serde(default)]
    pub deviations: Vec<Deviation>,
    /// Versions and machine, informative.
    #[serde(default)]
    pub environment: Map<String, Value>,
    /// The prompts.
    pub prompts: Vec<PromptRecord>,
    /// Relative L2 of the arm's own arithmetic noise, by site.
    #[serde(default)]
    pub noise_floor: BTreeMap<String, f64>,
    /// The step of the logit grid, one entry a shard; shards have equal width.
    #[serde(default)]
    pub logits_step: Option<Vec<f64>>,
    /// Whether every prompt was tried.
    #[serde(default)]
    pub complete: bool,
    /// Keys this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Manifest {
    /// A manifest without prompts.
    #[must_use]
    pub fn new(arm: Arm, checkpoint: CheckpointIdentity) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            arm,
            checkpoint,
            network: Network::default(),
            deviations: Vec::new(),
            environment: Map::new(),
            prompts: Vec::new(),
            noise_floor: BTreeMap::new(),
            logits_step: None,
            complete: false,
            other: Map::new(),
        }
    }
}
