//! What an encoder does otherwise than a decoder: it is fed whole, and ends in one row a sequence.

use candle_core::{Result, Tensor, bail};
use fidelity_trace::{Network, Site};

use super::{Decoder, Feed, Instrument, Part, Visibility};
use crate::Output;

impl Decoder {
    /// Refuses chunks that would silently compute another network: an encoder under a causal mask, a decoder without one.
    pub(super) fn check_feeds(&self, feeds: &[Feed<'_>]) -> Result<()> {
        let network = self.weights.architecture.network();
        for Feed { chunk, cache } in feeds {
            match (network, chunk.visibility) {
                (Network::Decoder, Visibility::Causal | Visibility::SelfOnly) => {}
                (Network::Encoder, Visibility::Both { tokens }) if cache.is_none() => {
                    check_whole(chunk.positions, tokens)?
                }
                (Network::Encoder, Visibility::Both { .. }) => bail!("an encoder has no KV-cache"),
                (_, visibility) => {
                    bail!("a chunk of visibility {visibility:?} is not for a network of kind {network:?}")
                }
            }
        }
        Ok(())
    }

    /// Hands over the one row that each sequence's token rows are made into; padding is no part of it.
    pub(super) fn pool(&self, last: &Tensor, feeds: &[Feed<'_>], instrument: &mut dyn Instrument) -> Result<()> {
        let Output::Hidden(pooling) = self.weights.architecture.output else { return Ok(()) };
        let mut start = 0;
        for (index, Feed { chunk, .. }) in feeds.iter().enumerate() {
            let tokens = match chunk.visibility {
                Visibility::Both { tokens } => tokens as usize,
                Visibility::Causal | Visibility::SelfOnly => chunk.positions.len(),
            };
            instrument.at(Site::Pooled, Part::Chunk(index), pooling.apply(&last.narrow(0, start, tokens)?)?)?;
            start += chunk.positions.len();
        }
        Ok(())
    }
}

/// Every row depends on every token, so the positions must be all there are: 0, 1, … with padding after the tokens.
fn check_whole(positions: &[u32], tokens: u32) -> Result<()> {
    let consecutive = positions.iter().zip(0..).all(|(position, expected)| *position == expected);
    if !consecutive || tokens == 0 || tokens as usize > positions.len() {
        bail!("an encoder needs its whole sequence at once: {tokens} tokens in {} positions from 0", positions.len());
    }
    Ok(())
}
