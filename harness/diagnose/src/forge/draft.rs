//! A checkpoint on its way to another, and how far its tensors are from those it came from.

use std::path::{Path, PathBuf};

use fidelity_emulator::Rotation;
use fidelity_references::{Architecture, Checkpoint};
use fidelity_trace::{BlockSite, Site};
use serde_json::{Map, Value, json};

use super::{
    ForgeError,
    tensors::{Stored, Tensors},
};

/// Keys that would be wrong of the copy: code that is not copied, and where it came from.
const DROPPED: [&str; 2] = ["auto_map", "_name_or_path"];

/// A checkpoint on its way: what it will be, and its tensors, not yet computed.
pub(super) struct Draft {
    pub(super) architecture: Architecture,
    /// config.json.
    pub(super) config: Map<String, Value>,
    pub(super) tensors: Box<dyn Tensors>,
    /// Files beside the weights.
    pub(super) files: Vec<(String, Vec<u8>)>,
    pub(super) relation: Relation,
    /// Where it will be written; what a step writes in between stands beside it.
    pub(super) out: PathBuf,
    /// What a person should know, one sentence each.
    pub(super) notes: Vec<String>,
}

/// How what the forged network computes is related to what its source computes.
pub(super) struct Relation {
    /// The source's blocks that are left, in order.
    pub(super) blocks: Vec<usize>,
    /// What was done to rows of the residual stream, one after another.
    pub(super) stream: Vec<StreamChange>,
    /// What norms make of the stream is the source's, padded as the stream is.
    pub(super) norms: bool,
    /// Factors of the last norm's channels, one after another; where there are fewer than channels, of the first ones.
    pub(super) final_norm: Vec<Vec<f64>>,
    /// Logits there are: the source's, then what each change of them left, where value j was value j modulo those before.
    pub(super) vocabulary: Vec<usize>,
    /// Of that block of the source, so many channels of z stay and the rest are zero.
    pub(super) first_heads: Option<(u32, usize)>,
    /// Nothing but copies, zeros and powers of two, so that float64 must agree to its own rounding.
    pub(super) copied: bool,
}

/// What is done to a row of the residual stream.
pub(super) enum StreamChange {
    /// Zeros behind it, up to this width.
    Pad(usize),
    /// x ← x·R.
    Rotate(Box<Rotation>),
}

impl Draft {
    pub(super) fn of(source: &Checkpoint, out: &Path) -> Result<Self, ForgeError> {
        let architecture = source.architecture().clone();
        let mut config = source.identity().config.as_object().cloned().unwrap_or_default();
        config.retain(|key, _| !DROPPED.contains(&key.as_str()));
        // transformers loads in the dtype that is written there.
        let dtype = if config.contains_key("torch_dtype") { "torch_dtype" } else { "dtype" };
        config.insert(dtype.into(), json!("float32"));
        let files = source.side_files()?.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let relation = Relation {
            blocks: (0..architecture.blocks).collect(),
            stream: Vec::new(),
            norms: true,
            final_norm: Vec::new(),
            vocabulary: vec![architecture.vocabulary],
            first_heads: None,
            copied: true,
        };
        let tensors = Box::new(Stored::new(source.weights()?, architecture.tied_head));
        Ok(Self { architecture, config, tensors, files, relation, out: out.to_owned(), notes: Vec::new() })
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.config.insert(key.to_owned(), value.into());
    }
}

impl Relation {
    /// What a row of the source must be in the forged network, where the two are related at that site.
    pub(super) fn expected(&self, site: Site, row: &[f64]) -> Option<Vec<f64>> {
        use BlockSite::{ResidMid, ResidPost};
        match site {
            Site::Embed | Site::Block(_, ResidMid | ResidPost) => Some(self.in_stream(row)),
            Site::FinalNorm if self.norms => Some(self.final_norm.iter().fold(self.in_stream(row), scaled)),
            Site::Logits => Some(
                (0..*self.vocabulary.last()?).map(|id| row.get(self.source_id(id)).copied()).collect::<Option<_>>()?,
            ),
            _ => None,
        }
    }

    /// Ids that mean the same in both.
    pub(super) fn common_ids(&self) -> usize {
        self.vocabulary.iter().copied().min().unwrap_or(0)
    }

    /// The source's row of embedding and head that stands at `id`.
    fn source_id(&self, id: usize) -> usize {
        let before = self.vocabulary.iter().rev().skip(1);
        before.fold(id, |id, rows| id % rows)
    }

    fn in_stream(&self, row: &[f64]) -> Vec<f64> {
        self.stream.iter().fold(row.to_vec(), |mut row, change| {
            match change {
                StreamChange::Pad(width) => row.resize(*width, 0.0),
                StreamChange::Rotate(rotation) => rotation.apply(&mut row),
            }
            row
        })
    }
}

fn scaled(mut row: Vec<f64>, factors: &Vec<f64>) -> Vec<f64> {
    row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
    row
}
