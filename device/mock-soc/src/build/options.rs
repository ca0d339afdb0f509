//! What may differ between compiled models of one checkpoint.

use crate::network::{MaskSense, Rotation};

/// Which groups a HEF has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Groups {
    /// `base_model__prefill` and `base_model__tbt` on shared caches.
    PrefillAndTbt,
    /// `base_model__prefill` alone, with caches: every token goes through it.
    Prefill,
    /// One group without caches, `base_model__prefill` as well: all that it sees is what it is fed.
    Base,
}

/// Bytes of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Width {
    /// uint8
    #[value(name = "8")]
    Eight,
    /// uint16
    #[value(name = "16")]
    Sixteen,
}

impl Width {
    /// 1 or 2.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Eight => 1,
            Self::Sixteen => 2,
        }
    }
}

/// How the mask is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MaskConvention {
    /// Scale 1/128, zero point 0, limits 0 to 1: 1.0 is code 128.
    Official,
    /// -100 to 0 in 255 steps, zero point 255: 1.0 is clipped to 0.0, code 255.
    Added,
}

impl MaskConvention {
    /// What its values mean to the network.
    #[must_use]
    pub const fn sense(self) -> MaskSense {
        match self {
            Self::Official => MaskSense::OneIsVisible,
            Self::Added => MaskSense::Added,
        }
    }
}

/// Which input is which, by the number that its name ends in. 1 is embeddings, 2 the mask in either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum InputOrder {
    /// 3 to 6: Q cos, Q sin, K cos, K sin.
    Official,
    /// 3 to 6: K cos, Q cos, K sin, Q sin; hailo-config.json says so.
    KeysFirst,
}

/// How a checkpoint is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct HefOptions {
    /// Which groups there are.
    pub groups: Groups,
    /// Rows of a prefill run (P), or of the whole sequence without caches.
    pub rows: usize,
    /// Length of the caches (L) in tokens; above `rows`. Without caches there are as many columns as rows, and this is not used.
    pub cache: usize,
    /// Equal parts of the logits, each an output with a grid of its own.
    pub shards: usize,
    /// Of the logits.
    pub logits: Width,
    /// Of cos and sin.
    pub rope: Width,
    /// How the mask is quantised.
    pub mask: MaskConvention,
    /// Which input is which.
    pub inputs: InputOrder,
    /// Where the sign of the rotation is.
    pub rotation: Rotation,
    /// Prefill, or the group without caches, gives the logits of all rows and not of the last alone. No official HEF does, and an
    /// audit fails.
    pub every_row: bool,
    /// What the grids of the logits must hold; measured otherwise.
    pub logits_range: Option<[f32; 2]>,
}

impl HefOptions {
    /// As official HEFs are: two groups, four shards of 8 bits, RoPE of 8 bits.
    #[must_use]
    pub const fn official(rows: usize, cache: usize) -> Self {
        Self {
            groups: Groups::PrefillAndTbt,
            rows,
            cache,
            shards: 4,
            logits: Width::Eight,
            rope: Width::Eight,
            mask: MaskConvention::Official,
            inputs: InputOrder::Official,
            rotation: Rotation::SignInTable,
            every_row: false,
            logits_range: None,
        }
    }

    /// As official ones, but with logits and RoPE of 16 bits: near to what float32 computes.
    #[must_use]
    pub const fn precise(rows: usize, cache: usize) -> Self {
        Self { logits: Width::Sixteen, rope: Width::Sixteen, ..Self::official(rows, cache) }
    }

    /// One group without caches over sequences of up to so many tokens, with logits of every row, of 16 bits.
    #[must_use]
    pub const fn base(rows: usize) -> Self {
        Self { groups: Groups::Base, every_row: true, ..Self::precise(rows, rows) }
    }
}
