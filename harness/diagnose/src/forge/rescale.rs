//! A factor on a channel, and its inverse in what reads that channel: the same function with other magnitudes between.
//!
//! norm weights w·f ↔ columns /f of the linears that read the norm; rows of v ·f ↔ columns /f of o, in every query head of the kv
//! head's group; rows of up ·f ↔ columns /f of down, since the product of gate and up is linear in up; rows of q ·f ↔ rows of k
//! /f, both dimensions of a pair that RoPE turns.

use super::{
    Draft, ForgeError,
    tensors::{Part, Tensors, Values, block_of},
};

/// Two places between which a factor moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    /// Output channels of attention's norm.
    AttnNorm,
    /// Output channels of the MLP's norm.
    MlpNorm,
    /// Output channels of the last norm, outside blocks.
    FinalNorm,
    /// Channels of values, by kv head.
    Values,
    /// Channels of up, and so of what enters down.
    Products,
    /// Channels of a gate whose activation f > 0 passes through.
    Gates,
    /// Channels of queries, by kv head; keys are divided.
    Queries,
}

/// Factors of the channels of one place.
#[derive(Clone, Debug)]
pub(super) struct Factors {
    pub(super) pair: Pair,
    /// Counted from 0 in the network as it is then; of no meaning outside blocks.
    pub(super) block: usize,
    /// One a channel.
    pub(super) by_channel: Vec<f64>,
}

/// The kv channel that a channel of query heads reads, `group` of which share a kv head.
pub(super) const fn kv_channel(channel: usize, head_dim: usize, group: usize) -> usize {
    channel / head_dim / group * head_dim + channel % head_dim
}

/// The draft with these factors, which fit it.
pub(super) fn rescaled(mut draft: Draft, factors: Vec<Factors>) -> Draft {
    let exact = |factor: &f64| factor.is_normal() && factor.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1;
    draft.relation.copied &= factors.iter().flat_map(|of| &of.by_channel).all(exact);
    let last = factors.iter().filter(|of| of.pair == Pair::FinalNorm).map(|of| of.by_channel.clone());
    draft.relation.final_norm.extend(last);
    let a = &draft.architecture;
    let (group, head_dim) = (a.query_heads / a.kv_heads.max(1), a.head_dim);
    draft.tensors = Box::new(Rescaled { inner: draft.tensors, factors, group, head_dim });
    draft
}

struct Rescaled {
    inner: Box<dyn Tensors>,
    factors: Vec<Factors>,
    /// Query heads a kv head serves.
    group: usize,
    head_dim: usize,
}

impl Rescaled {
    fn apply(&self, of: &Factors, part: Part, values: Values) -> Values {
        let factor = |channel: usize| of.by_channel[channel];
        let inverse = |channel: usize| of.by_channel[channel].recip();
        let matrix = values.shape.len() == 2;
        let (group, head_dim) = (self.group, self.head_dim);
        let shared = |channel: usize| kv_channel(channel, head_dim, group);
        match (of.pair, part) {
            (Pair::AttnNorm, Part::AttnNorm) | (Pair::MlpNorm, Part::MlpNorm) | (Pair::FinalNorm, Part::FinalNorm) => {
                values.rows_scaled(factor)
            }
            (Pair::AttnNorm, Part::Q | Part::K | Part::V)
            | (Pair::MlpNorm, Part::Gate | Part::Up)
            | (Pair::FinalNorm, Part::Head)
            | (Pair::Products | Pair::Gates, Part::Down)
                if matrix =>
            {
                values.columns_scaled(&of.by_channel.iter().map(|factor| factor.recip()).collect::<Vec<_>>())
            }
            (Pair::Values, Part::V) | (Pair::Products, Part::Up) | (Pair::Gates, Part::Gate) => {
                values.rows_scaled(factor)
            }
            (Pair::Values, Part::O) if matrix => {
                let columns = values.dims().1;
                let inverses: Vec<f64> = (0..columns).map(|channel| inverse(shared(channel))).collect();
                values.columns_scaled(&inverses)
            }
            (Pair::Queries, Part::Q) => values.rows_scaled(|channel| factor(shared(channel))),
            (Pair::Queries, Part::K) => values.rows_scaled(inverse),
            _ => values,
        }
    }
}

impl Tensors for Rescaled {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.inner.shapes()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let values = self.inner.read(name)?;
        let (part, block) = (Part::of(name), block_of(name).map(|(_, block, _)| block));
        let here = |of: &&Factors| of.pair == Pair::FinalNorm || block == Some(of.block);
        Ok(self.factors.iter().filter(here).fold(values, |values, of| self.apply(of, part, values)))
    }
}
