//! Deviations from the plain computation, as data.
//!
//! Every deviation applied is stamped into the trace. The enums are split by where they act and matched exhaustively
//! there, so that an injected fault cannot silently not happen.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Intervention;

/// A deviation as a trace records it. Other tools may record kinds and names that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    /// `emulation`, `intervention` or `link_fault`.
    pub kind: String,
    /// The deviation's name.
    pub name: String,
    /// Its parameters.
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

/// Declared numerics: what a real recipe does to the computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emulation {
    /// Weights and activations are quantised as the recipe says.
    Quantisation {
        /// The recipe's name.
        recipe: String,
        /// SHA-256 of the recipe's text.
        recipe_sha256: String,
        /// Where the activation ranges come from.
        calibration: String,
        /// SHA-256 of the activation ranges.
        ranges_sha256: String,
        /// What the recipe asks for, or a compiled graph does, and is not emulated.
        not_emulated: Vec<String>,
    },
    /// Position 0, where attention sinks and massive activations are, is treated apart from the others.
    FirstPosition(FirstPosition),
}

/// How position 0 is computed where it is not computed as the others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPosition {
    /// Its residual stream, and what is added to it, on 16-bit grids of its own; the other positions' grids are calibrated
    /// without it.
    Residual16,
    /// The same at every site.
    Every16,
    /// In float32, outside the quantised graph, which reads its keys and values as a constant prefix and is calibrated without it.
    Prefix,
}

impl FirstPosition {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Residual16, Self::Every16, Self::Prefix];

    /// The name used in traces and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Residual16 => "residual16",
            Self::Every16 => "every16",
            Self::Prefix => "prefix",
        }
    }
}

impl FromStr for FirstPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|way| way.name() == text).ok_or_else(|| format!("expected one of {}", known()))
    }
}

impl Deviation {
    /// What it says is not emulated of its recipe.
    pub fn not_emulated(&self) -> impl Iterator<Item = &str> {
        let list = self.parameters.get("not_emulated").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }
}

impl From<&Intervention> for Deviation {
    fn from(intervention: &Intervention) -> Self {
        let block = intervention.block.map(|block| ("block".to_owned(), Value::from(block)));
        let value = intervention.value.map(|value| ("value".to_owned(), Value::from(value.to_string())));
        let parameters = block.into_iter().chain(value);
        Self { kind: "intervention".into(), name: intervention.fault.name().into(), parameters: parameters.collect() }
    }
}

impl From<&Emulation> for Deviation {
    fn from(emulation: &Emulation) -> Self {
        match emulation {
            Emulation::Quantisation { recipe, recipe_sha256, calibration, ranges_sha256, not_emulated } => Self {
                kind: "emulation".into(),
                name: "quantisation".into(),
                parameters: Map::from_iter([
                    ("recipe".into(), Value::from(recipe.as_str())),
                    ("recipe_sha256".into(), Value::from(recipe_sha256.as_str())),
                    ("calibration".into(), Value::from(calibration.as_str())),
                    ("ranges_sha256".into(), Value::from(ranges_sha256.as_str())),
                    ("not_emulated".into(), Value::from(not_emulated.clone())),
                ]),
            },
            Emulation::FirstPosition(way) => Self {
                kind: "emulation".into(),
                name: "first_position".into(),
                parameters: Map::from_iter([("way".into(), Value::from(way.name()))]),
            },
        }
    }
}
