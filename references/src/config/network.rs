//! What kind of network an architecture is: what its positions see, where its norms stand, what comes out.

use fidelity_trace::{BlockSite, Network, Site};

use super::{Architecture, MlpKind};
use crate::{Pooling, Visibility};

/// Where a block's norms stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// x + f(norm(x)), and a norm after the last block.
    Before,
    /// norm(x + f(x)) (Vaswani et al. 2017), and no norm after the last block.
    After,
}

/// What comes out of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Logits of the next token: a decoder, whose positions see those before them.
    Logits,
    /// The last hidden state, and one row made of it: an encoder, whose positions see each other.
    Hidden(Pooling),
}

impl Architecture {
    /// Whether it is a decoder or an encoder.
    #[must_use]
    pub const fn network(&self) -> Network {
        match self.output {
            Output::Logits => Network::Decoder,
            Output::Hidden(_) => Network::Encoder,
        }
    }

    /// What the positions of a whole sequence of `tokens` tokens may attend to.
    #[must_use]
    pub const fn visibility(&self, tokens: usize) -> Visibility {
        match self.network() {
            Network::Decoder => Visibility::Causal,
            Network::Encoder => Visibility::Both { tokens: tokens as u32 },
        }
    }

    /// Whether a forward pass computes this site.
    #[must_use]
    pub const fn computes(&self, site: Site) -> bool {
        let post_norm = matches!(self.norm_placement, NormPlacement::After);
        match site {
            Site::Embed | Site::FinalNorm => true,
            Site::Block(block, _) if block as usize >= self.blocks => false,
            Site::Block(_, BlockSite::AttnNorm) => !post_norm,
            Site::Block(_, BlockSite::ResidSum) => post_norm,
            Site::Block(_, BlockSite::Gate) => matches!(self.mlp_kind, MlpKind::Gated),
            Site::Block(..) => true,
            Site::Logits => matches!(self.output, Output::Logits),
            Site::Pooled => matches!(self.output, Output::Hidden(_)),
        }
    }

    /// The sites a forward pass computes, in data-flow order.
    pub fn sites(&self) -> impl Iterator<Item = Site> {
        Site::all(self.blocks as u32).filter(|site| self.computes(*site))
    }
}
