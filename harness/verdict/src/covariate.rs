//! Covariates: what differs between checkpoints and may be why one passes and another fails.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Something that can be said of a checkpoint, or of a recipe on it, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Covariate {
    /// Width of the residual stream.
    Hidden,
    /// Blocks.
    Layers,
    /// Query heads.
    Heads,
    /// Key and value heads.
    KvHeads,
    /// Query heads a key head serves.
    NRep,
    /// Width of a head.
    HeadDim,
    /// Rows of the embedding.
    Vocabulary,
    /// Width of the MLP.
    MlpWidth,
    /// Parameters; a head that is the embedding counts once.
    Parameters,
    /// Outputs that a compiled head is split into.
    LmHeadShards,
    /// 1 where the head is the embedding, else 0.
    Tied,
    /// Largest magnitude of `resid_post` over its median, in the block where that is largest.
    MassiveRatio,
    /// Largest magnitude of `resid_post`.
    ResidualMax,
    /// Largest kurtosis of `resid_post` in a block: 3 of a normal distribution.
    ResidualKurtosis,
    /// Largest width of the range of `act`, what enters down_proj, in a block.
    SwigluRange,
    /// Fewest bits of `resid_post` under the recipe.
    ResidualBits,
    /// Fewest bits of `act` under the recipe.
    SwigluBits,
    /// Fewest bits of a weight of a block under the recipe.
    WeightBits,
    /// Bits of the head's weight under the recipe.
    HeadBits,
    /// Share of the linears whose weights have steps by group of inputs under the recipe.
    GroupedWeights,
    /// 1 where the recipe rotates the residual stream, else 0.
    Rotated,
}

impl Covariate {
    /// All, in the order of tables.
    pub const ALL: [Self; 21] = [
        Self::Hidden,
        Self::Layers,
        Self::Heads,
        Self::KvHeads,
        Self::NRep,
        Self::HeadDim,
        Self::Vocabulary,
        Self::MlpWidth,
        Self::Parameters,
        Self::LmHeadShards,
        Self::Tied,
        Self::MassiveRatio,
        Self::ResidualMax,
        Self::ResidualKurtosis,
        Self::SwigluRange,
        Self::ResidualBits,
        Self::SwigluBits,
        Self::WeightBits,
        Self::HeadBits,
        Self::GroupedWeights,
        Self::Rotated,
    ];

    /// The name of its column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Layers => "layers",
            Self::Heads => "heads",
            Self::KvHeads => "kv_heads",
            Self::NRep => "n_rep",
            Self::HeadDim => "head_dim",
            Self::Vocabulary => "vocabulary",
            Self::MlpWidth => "mlp_width",
            Self::Parameters => "parameters",
            Self::LmHeadShards => "lm_head_shards",
            Self::Tied => "tied",
            Self::MassiveRatio => "massive_ratio",
            Self::ResidualMax => "residual_max",
            Self::ResidualKurtosis => "residual_kurtosis",
            Self::SwigluRange => "swiglu_range",
            Self::ResidualBits => "residual_bits",
            Self::SwigluBits => "swiglu_bits",
            Self::WeightBits => "weight_bits",
            Self::HeadBits => "head_bits",
            Self::GroupedWeights => "grouped_weights",
            Self::Rotated => "rotated",
        }
    }

    /// The covariate of a column.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|covariate| covariate.name() == name)
    }

    /// Whether `fidelity profile` measures it, which needs weights and no device.
    #[must_use]
    pub const fn is_of_profile(self) -> bool {
        matches!(self, Self::MassiveRatio | Self::ResidualMax | Self::ResidualKurtosis | Self::SwigluRange)
    }
}

impl std::fmt::Display for Covariate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What is known of a checkpoint; finite numbers alone.
pub type Covariates = BTreeMap<Covariate, f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_covariate_is_listed_once_under_the_name_that_json_has() {
        let names: std::collections::BTreeSet<_> = Covariate::ALL.iter().map(|covariate| covariate.name()).collect();
        assert_eq!(names.len(), Covariate::ALL.len());
        for covariate in Covariate::ALL {
            assert_eq!(Covariate::named(covariate.name()), Some(covariate));
            assert_eq!(serde_json::to_value(covariate).expect("a word"), covariate.name());
        }
    }
}
