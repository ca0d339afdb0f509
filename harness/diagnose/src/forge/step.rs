//! What can be asked for.

use std::fmt;

use super::{
    Outlier, Transformation,
    blocks::{Depth, Skip},
    calm::Calm,
    first_heads::FirstHeads,
    head_dim::HeadDim,
    heads::HeadsMha,
    rotate::Rotate,
    tie::{Tie, Untie},
    vocab::Vocab,
    widen::Widen,
};

/// One transformation of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The same function in a residual stream of so many channels.
    Widen(usize),
    /// The same function in a residual stream rotated by this seed.
    Rotate(u64),
    /// The same function with key and value heads of every query head's own.
    HeadsMha,
    /// The same function with heads of so many times as many dimensions.
    HeadDim(usize),
    /// The first so many blocks, then final norm and head.
    Depth(usize),
    /// All blocks but this one, counted from 0 in the network as it is then.
    Skip(usize),
    /// Of that block's query heads the first so many alone.
    FirstHeads {
        /// Counted from 0 in the network as it is then.
        block: usize,
        /// How many heads stay.
        heads: usize,
    },
    /// So many rows of embedding and head: the first ones, or all and copies of them.
    Vocab(usize),
    /// The same function with a channel so many times as large.
    Outlier(Outlier),
    /// The same function with channels of even magnitude on these prompts, given as ids.
    Calm(Vec<Vec<u32>>),
    /// The same function with a head of its own.
    Untie,
    /// The same function with the embedding as head, where the two are equal.
    Tie,
}

impl Step {
    pub(super) fn transformation(&self) -> Box<dyn Transformation> {
        match self {
            Self::Widen(hidden) => Box::new(Widen(*hidden)),
            Self::Rotate(seed) => Box::new(Rotate(*seed)),
            Self::HeadsMha => Box::new(HeadsMha),
            Self::HeadDim(times) => Box::new(HeadDim(*times)),
            Self::Depth(blocks) => Box::new(Depth(*blocks)),
            Self::Skip(block) => Box::new(Skip(*block)),
            Self::FirstHeads { block, heads } => Box::new(FirstHeads { block: *block, heads: *heads }),
            Self::Vocab(rows) => Box::new(Vocab(*rows)),
            Self::Outlier(outlier) => Box::new(*outlier),
            Self::Calm(prompts) => Box::new(Calm(prompts.clone())),
            Self::Untie => Box::new(Untie),
            Self::Tie => Box::new(Tie),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.transformation().name())
    }
}
