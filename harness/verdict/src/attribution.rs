//! Whose an error is: the recipe's or the implementation's.

use std::collections::BTreeMap;

use fidelity_trace::Scope;
use serde::{Deserialize, Serialize};

use crate::{ArmIdentity, Interval};

/// A device's distance from the reference, beside that of an emulator of its recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribution {
    /// The emulator.
    pub emulator: ArmIdentity,
    /// What it comes to, in one sentence.
    pub sentence: String,
    /// By scope that both arms hold.
    pub scopes: BTreeMap<Scope, ScopeAttribution>,
}

/// One scope of an [`Attribution`], over the rows that are finite in both arms. Similarities are means of the deciding one: Pearson
/// of logits, of an encoder the centred cosine of its last hidden state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScopeAttribution {
    /// Rows compared.
    pub rows: usize,
    /// Rows that are not finite in the device and are in the emulator.
    pub device_not_finite: usize,
    /// Emulator against reference: what the recipe costs.
    pub recipe: f64,
    /// Device against reference.
    pub device: f64,
    /// Device against emulator; absent where it is not defined.
    pub implementation: Option<f64>,
    /// `recipe` less `device`: what toolchain, host and silicon add.
    pub excess: f64,
    /// 95 % bootstrap interval of `excess` over prompts; absent with fewer than two.
    pub excess_interval: Option<Interval>,
}
