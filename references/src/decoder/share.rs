//! Decoders that share weights.

use std::sync::Arc;

use candle_core::Result;
use fidelity_trace::{BlockSite, Site};

use super::{Decoder, Linear};

impl Decoder {
    /// The same decoder with `other`'s weights in the projections that write chosen sites ([`Site::Logits`] is the head). Both
    /// must be of one architecture; no weight is copied.
    ///
    /// # Errors
    /// Out of memory: where one table is embedding and head, the embedding is kept apart.
    pub fn with_linears_of(&self, other: &Self, chosen: &dyn Fn(Site) -> bool) -> Result<Self> {
        let mut weights = (*self.weights).clone();
        let of_other = |own: &mut Linear, its: &Linear, site: Site| {
            if chosen(site) {
                own.clone_from(its);
            }
        };
        for (index, (own, its)) in weights.blocks.iter_mut().zip(&other.weights.blocks).enumerate() {
            let at = |site| Site::Block(index as u32, site);
            let (attention, its_attention) = (&mut own.attention, &its.attention);
            of_other(&mut attention.q, &its_attention.q, at(BlockSite::Q));
            of_other(&mut attention.k, &its_attention.k, at(BlockSite::K));
            of_other(&mut attention.v, &its_attention.v, at(BlockSite::V));
            of_other(&mut attention.o, &its_attention.o, at(BlockSite::AttnOut));
            if let (Some(gate), Some(its)) = (&mut own.gate, &its.gate) {
                of_other(gate, its, at(BlockSite::Gate));
            }
            of_other(&mut own.up, &its.up, at(BlockSite::Up));
            of_other(&mut own.down, &its.down, at(BlockSite::MlpOut));
        }
        if chosen(Site::Logits) {
            if weights.embedding.is_none() && weights.head.is_some() {
                let every: Vec<u32> = (0..weights.architecture.vocabulary as u32).collect();
                weights.embedding = Some(self.weights.embed(&every)?);
            }
            weights.head.clone_from(&other.weights.head);
        }
        Ok(Self { weights: Arc::new(weights), dtype: self.dtype })
    }
}
