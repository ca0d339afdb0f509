//! What was forged, and the proof: `forge.json`.

use fidelity_trace::Site;
use serde::{Deserialize, Serialize};

/// `format` of forge.json.
pub const FORGING_FORMAT: &str = "fidelity-forge";
/// `version` of forge.json.
pub const FORGING_VERSION: u32 = 1;

/// A checkpoint derived from another, and how near the two were found where they are related.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forging {
    /// [`FORGING_FORMAT`].
    pub format: String,
    /// [`FORGING_VERSION`].
    pub version: u32,
    /// The forged checkpoint's folder.
    pub name: String,
    /// The source's name.
    pub source_name: String,
    /// Where the source came from.
    pub source: String,
    /// The source's commit, where it has one.
    pub revision: Option<String>,
    /// Hash of the source's weights.
    pub source_weights_sha256: Option<String>,
    /// Hash of the forged weights.
    pub weights_sha256: Option<String>,
    /// What was done, in order, as on the command line.
    pub steps: Vec<String>,
    /// The weights are the source's own, zeros, and the source's times powers of two, so that float64 agrees to its own rounding. Else some were computed, and rounded
    /// to float32.
    pub copied: bool,
    /// Prompts that both were computed on.
    pub prompts: usize,
    /// Their tokens.
    pub positions: usize,
    /// Every site at which the two are related, in data-flow order.
    pub sites: Vec<SiteProof>,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
}

/// How near the two are at a site, in float64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteProof {
    /// The site in the forged checkpoint.
    pub site: Site,
    /// The site in its source.
    pub source_site: Site,
    /// ‖forged − what the source says it must be‖ / ‖what it must be‖, of the worst row.
    pub relative_l2: f64,
    /// What was taken for rounding.
    pub tolerance: f64,
    /// How far the source's float32 is from its float64, relative L2 of the worst row; absent where nothing was rounded.
    pub source_noise: Option<f64>,
    /// The same of the forged checkpoint.
    pub forged_noise: Option<f64>,
}
