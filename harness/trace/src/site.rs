//! Sites: the named tensors of a network, in data-flow order.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A named tensor in the network. Ordered as data flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// Input of block 0, `[position, hidden]`.
    Embed,
    /// A tensor inside block `0` (0-based).
    Block(u32, BlockSite),
    /// Output of the last norm, `[position, hidden]`: an encoder's last hidden state.
    FinalNorm,
    /// Output of the head, `[position, vocabulary]`; an encoder has none.
    Logits,
    /// An encoder's token rows made into one, `[1, hidden]`: a sentence embedding. The only site without a row a position.
    Pooled,
}

/// The sites of one block, in data-flow order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockSite {
    /// Normalised input of attention, `[position, hidden]`.
    AttnNorm,
    /// Queries after q-norm and RoPE, `[position, query head, head_dim]`.
    Q,
    /// Keys after k-norm and RoPE, `[position, kv head, head_dim]`.
    K,
    /// Values, `[position, kv head, head_dim]`.
    V,
    /// Scaled q·k before the mask, 0 where the key is not visible, `[position, query head, key]`.
    Scores,
    /// Attention weights, `[position, query head, key]`.
    Pattern,
    /// Weighted values, heads side by side, `[position, query head × head_dim]`.
    Z,
    /// What attention adds to the residual stream, `[position, hidden]`.
    AttnOut,
    /// Residual stream after attention, before any norm, `[position, hidden]`.
    ResidMid,
    /// Normalised input of the MLP, `[position, hidden]`. Where norms stand after the sums, the residual stream goes on from it.
    MlpNorm,
    /// Gate projection before its activation, `[position, mlp]`.
    Gate,
    /// Up projection, `[position, mlp]`.
    Up,
    /// What enters the down projection, `[position, mlp]`.
    Act,
    /// What the MLP adds to the residual stream, `[position, hidden]`.
    MlpOut,
    /// Residual stream after the MLP, before its norm, `[position, hidden]`; only where norms stand after the sums.
    ResidSum,
    /// Residual stream after the block, `[position, hidden]`.
    ResidPost,
}

impl BlockSite {
    /// Every site of a block, in data-flow order.
    pub const ALL: [Self; 16] = [
        Self::AttnNorm,
        Self::Q,
        Self::K,
        Self::V,
        Self::Scores,
        Self::Pattern,
        Self::Z,
        Self::AttnOut,
        Self::ResidMid,
        Self::MlpNorm,
        Self::Gate,
        Self::Up,
        Self::Act,
        Self::MlpOut,
        Self::ResidSum,
        Self::ResidPost,
    ];

    /// The name used in traces and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttnNorm => "attn_norm",
            Self::Q => "q",
            Self::K => "k",
            Self::V => "v",
            Self::Scores => "scores",
            Self::Pattern => "pattern",
            Self::Z => "z",
            Self::AttnOut => "attn_out",
            Self::ResidMid => "resid_mid",
            Self::MlpNorm => "mlp_norm",
            Self::Gate => "gate",
            Self::Up => "up",
            Self::Act => "act",
            Self::MlpOut => "mlp_out",
            Self::ResidSum => "resid_sum",
            Self::ResidPost => "resid_post",
        }
    }

    /// The site of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|site| site.name() == name)
    }
}

impl Site {
    /// The site's name without its block: `resid_post` for `blocks.3.resid_post`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::Block(_, site) => site.name(),
            Self::FinalNorm => "final_norm",
            Self::Logits => "logits",
            Self::Pooled => "pooled",
        }
    }

    /// Whether a prompt has one row of it, and not one a position.
    #[must_use]
    pub const fn is_per_prompt(self) -> bool {
        matches!(self, Self::Pooled)
    }

    /// The block the site is in, if it is in one.
    #[must_use]
    pub const fn block(self) -> Option<u32> {
        match self {
            Self::Block(index, _) => Some(index),
            Self::Embed | Self::FinalNorm | Self::Logits | Self::Pooled => None,
        }
    }

    /// Every site that a network of `blocks` blocks may have, in data-flow order.
    pub fn all(blocks: u32) -> impl Iterator<Item = Self> {
        let inner = (0..blocks).flat_map(|index| BlockSite::ALL.map(|site| Self::Block(index, site)).into_iter());
        std::iter::once(Self::Embed).chain(inner).chain([Self::FinalNorm, Self::Logits, Self::Pooled])
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(index, site) => f.pad(&format!("blocks.{index}.{}", site.name())),
            Self::Embed | Self::FinalNorm | Self::Logits | Self::Pooled => f.pad(self.kind()),
        }
    }
}

/// The text names no site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a site")]
pub struct UnknownSite(pub String);

impl FromStr for Site {
    type Err = UnknownSite;

    fn from_str(text: &str) -> Result<Self, UnknownSite> {
        let unknown = || UnknownSite(text.to_owned());
        match text {
            "embed" => Ok(Self::Embed),
            "final_norm" => Ok(Self::FinalNorm),
            "logits" => Ok(Self::Logits),
            "pooled" => Ok(Self::Pooled),
            _ => {
                let rest = text.strip_prefix("blocks.").ok_or_else(unknown)?;
                let (index, name) = rest.split_once('.').ok_or_else(unknown)?;
                let canonical = index == "0" || !index.starts_with(['0', '+']);
                let index = index.parse().ok().filter(|_| canonical).ok_or_else(unknown)?;
                let site = BlockSite::named(name).ok_or_else(unknown)?;
                Ok(Self::Block(index, site))
            }
        }
    }
}

impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Site {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_order_follows_the_data() {
        let sites: Vec<Site> = Site::all(3).collect();
        assert_eq!(sites.len(), 3 * 16 + 4);
        assert!(sites.is_sorted());
        for site in sites {
            assert_eq!(site.to_string().parse(), Ok(site));
        }
    }

    #[test]
    fn other_names_are_no_sites() {
        for text in ["", "blocks", "blocks.0", "blocks.x.q", "blocks.-1.q", "blocks.01.q", "blocks.0.w"] {
            assert_eq!(text.parse::<Site>(), Err(UnknownSite(text.to_owned())));
        }
    }
}
