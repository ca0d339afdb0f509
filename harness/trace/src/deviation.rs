//! Deviations from the plain computation, as data.
//!
//! Every deviation applied is stamped into the trace. The enums are split by where they act and matched exhaustively
//! there, so that an injected fault cannot silently not happen.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::nearest;

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

/// Deliberate wrongness in the computation: a fault, in one block or in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervention {
    /// What goes wrong.
    pub fault: Fault,
    /// The only block it goes wrong in; every block when absent.
    pub block: Option<u32>,
}

/// The faults that can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One softmax over the keys of all heads together, instead of one per head.
    SoftmaxAcrossHeads,
    /// The mask is repeated row by row over the heads (AABB) where it must be tiled (ABAB).
    MaskRepeated,
    /// Query head h reads kv head h mod kv heads (tile) instead of h div group (repeat).
    GqaTile,
    /// RoPE rotates adjacent pairs (2i, 2i+1) instead of the two halves (i, i + d/2).
    RopeInterleaved,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 4] = [Self::SoftmaxAcrossHeads, Self::MaskRepeated, Self::GqaTile, Self::RopeInterleaved];

    /// The canonical name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SoftmaxAcrossHeads => "softmax_across_heads",
            Self::MaskRepeated => "mask_repeated",
            Self::GqaTile => "gqa_tile",
            Self::RopeInterleaved => "rope_interleaved",
        }
    }
}

/// A `--fault` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No fault of that name.
    #[error("--fault: `{name}` is not a known fault{}; known: {}", .nearest.map_or_else(String::new, |n| format!(" (did you mean `{n}`?)")), Fault::ALL.map(Fault::name).join(", "))]
    Unknown {
        /// What was given.
        name: String,
        /// The closest existing name.
        nearest: Option<&'static str>,
    },
    /// The part after `@` is no block index.
    #[error("--fault: `{text}` is not a block index; write NAME@BLOCK with BLOCK counted from 0")]
    Block {
        /// What was given.
        text: String,
    },
    /// A value for a fault that takes none.
    #[error("--fault: `{name}` takes no value, found `={value}`; remove it")]
    Value {
        /// The fault.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// The block is not in the checkpoint.
    #[error("--fault: block {block} does not exist, the checkpoint has {blocks} blocks (0 to {})", blocks.saturating_sub(1))]
    NoSuchBlock {
        /// What was given.
        block: u32,
        /// How many blocks there are.
        blocks: u32,
    },
}

impl FromStr for Intervention {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (text, value) = match text.split_once('=') {
            Some((text, value)) => (text, Some(value)),
            None => (text, None),
        };
        let (name, block) = match text.split_once('@') {
            Some((name, block)) => {
                let index = block.parse().map_err(|_| FaultError::Block { text: block.to_owned() })?;
                (name, Some(index))
            }
            None => (text, None),
        };
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| FaultError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, Fault::ALL.map(Fault::name)),
        })?;
        match value {
            Some(value) => Err(FaultError::Value { name: fault.name(), value: value.to_owned() }),
            None => Ok(Self { fault, block }),
        }
    }
}

impl Intervention {
    /// Checks that the block exists.
    ///
    /// # Errors
    /// A block at or past `blocks`.
    pub fn check(&self, blocks: u32) -> Result<(), FaultError> {
        match self.block.filter(|block| *block >= blocks) {
            Some(block) => Err(FaultError::NoSuchBlock { block, blocks }),
            None => Ok(()),
        }
    }

    /// Whether the fault acts in this block.
    #[must_use]
    pub fn acts_in(&self, block: u32) -> bool {
        self.block.is_none_or(|only| only == block)
    }
}

impl fmt::Display for Intervention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.name())?;
        self.block.map_or(Ok(()), |block| write!(f, "@{block}"))
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
        let parameters = intervention.block.map(|block| ("block".to_owned(), Value::from(block)));
        Self {
            kind: "intervention".into(),
            name: intervention.fault.name().into(),
            parameters: parameters.into_iter().collect(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reads_with_and_without_block() {
        let parsed: Intervention = "gqa_tile@2".parse().expect("valid");
        assert_eq!(parsed, Intervention { fault: Fault::GqaTile, block: Some(2) });
        assert_eq!(parsed.to_string(), "gqa_tile@2");
        assert!(parsed.acts_in(2) && !parsed.acts_in(1));
        assert!(parsed.check(2).is_err());
    }

    #[test]
    fn bad_faults_say_what_is_wrong() {
        let error = |text: &str| text.parse::<Intervention>().expect_err("invalid").to_string();
        assert!(error("gqa_tiles").contains("did you mean `gqa_tile`?"));
        assert!(error("gqa_tile@x").contains("`x` is not a block index"));
        assert!(error("gqa_tile=3").contains("takes no value"));
    }
}
