//! The faults that can be injected, and what each can be told.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What part of a computation a fault is in, as the field's reports group them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FaultFamily {
    /// Attention's wiring: softmax axis, masks, head map, score scale.
    At,
    /// Rotary embedding.
    Rp,
    /// Sliding window.
    Sw,
    /// Token ids.
    Tk,
    /// Weights and where they go.
    Wt,
    /// Constants of the configuration.
    Cf,
    /// Activation function.
    Ac,
    /// Output contract.
    Out,
    /// KV-cache.
    Kv,
    /// Quantisation.
    Qn,
    /// Range of floating-point numbers.
    Nm,
}

impl fmt::Display for FaultFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_uppercase())
    }
}

/// In which blocks a fault can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// It concerns the whole network: no block is given.
    Whole,
    /// Every block, or one.
    Blocks,
    /// One block, which must be given.
    OneBlock,
}

/// What values a fault takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// None.
    None,
    /// A number; `meaning` ends the sentence "its value is".
    Number {
        /// What the number is.
        meaning: &'static str,
        /// The smallest.
        least: f64,
        /// The largest.
        most: f64,
        /// Whether it must be a whole number other than 0.
        whole: bool,
    },
    /// One of these words, the first where none is given.
    Words(&'static [&'static str]),
    /// A word, the first where nothing is given; or a word and a whole number, `every:-1`; or a number alone.
    Mixed {
        /// Words that stand alone; the first of them is meant when nothing is given.
        words: &'static [&'static str],
        /// Words that go with a whole number.
        named: &'static [&'static str],
        /// What a number alone is; empty where none is taken.
        meaning: &'static str,
        /// Whether it must be a whole number other than 0.
        whole: bool,
    },
    /// A site's kind and a number, `v:1.5`.
    Clip,
    /// A shard of the logits and their number, `1/4`; two shards, `0-1/4`; or all of them in another order, `2-0-1/3`.
    Shards,
    /// How many entries of padding a shard of the logits has, and the number of shards, `8/2`.
    Padding,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident $name:literal $family:ident $places:ident $values:expr;)+) => {
        /// The faults that can be injected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $($(#[$doc])* $variant,)+ }

        impl Fault {
            /// Every fault.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The canonical name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The family.
            #[must_use]
            pub const fn family(self) -> FaultFamily {
                match self { $(Self::$variant => FaultFamily::$family,)+ }
            }

            /// In which blocks it can be.
            #[must_use]
            pub const fn places(self) -> Places {
                match self { $(Self::$variant => Places::$places,)+ }
            }

            /// What values it takes.
            #[must_use]
            pub const fn values(self) -> Values {
                match self { $(Self::$variant => $values,)+ }
            }
        }
    };
}

const fn number(meaning: &'static str, least: f64, most: f64) -> Values {
    Values::Number { meaning, least, most, whole: false }
}

const fn whole(meaning: &'static str, least: f64, most: f64) -> Values {
    Values::Number { meaning, least, most, whole: true }
}

const fn mixed(
    words: &'static [&'static str],
    named: &'static [&'static str],
    meaning: &'static str,
    whole: bool,
) -> Values {
    Values::Mixed { words, named, meaning, whole }
}

/// What a fault of rotation is on.
const SIDES: Values = Values::Words(&["both", "queries", "keys"]);
const LAYOUTS: &[&str] = &["both", "keys", "values", "both_by_channel", "keys_by_channel", "values_by_channel"];

faults! {
    /// One softmax over the keys of all heads together, instead of one per head; or one over the heads, key by key.
    SoftmaxAcrossHeads "softmax_across_heads" At Blocks Values::Words(&["joint", "each_key"]);
    /// The mask is repeated row by row (or, along a row, key by key) over the heads (AABB) where it must be tiled (ABAB).
    MaskRepeated "mask_repeated" At Blocks Values::Words(&["rows", "keys"]);
    /// No causal mask: a position sees every key of its chunk.
    MaskMissing "mask_missing" At Blocks Values::None;
    /// The mask of a chunk after a cache starts at the cache's first key: row i sees keys 0 to i.
    MaskOffsetLost "mask_offset_lost" At Blocks Values::None;
    /// Query head h reads kv head h mod kv heads (tile) instead of h div group (repeat).
    GqaTile "gqa_tile" At Blocks Values::Words(&["both", "keys", "values"]);
    /// Scores are not scaled, or multiplied by a factor more; or divided by 1 + the block's index, or no longer so.
    ScoreScale "score_scale" At Blocks mixed(&["unscaled", "by_layer", "not_by_layer"], &[], "the factor", false);

    /// Queries and keys are not rotated.
    RopeMissing "rope_missing" Rp Blocks SIDES;
    /// RoPE rotates the other way.
    RopeSign "rope_sign" Rp Blocks SIDES;
    /// RoPE rotates adjacent pairs (2i, 2i+1) instead of the two halves (i, i + d/2).
    RopeInterleaved "rope_interleaved" Rp Blocks SIDES;
    /// RoPE is applied twice.
    RopeTwice "rope_twice" Rp Blocks SIDES;
    /// Another base of the frequencies; 10000 without a value.
    RopeTheta "rope_theta" Rp Blocks number("the base", 1.5, 1e12);
    /// The scaling of frequencies and of cos and sin is ignored, or taken for a linear one, or the magnitude alone is kept.
    RopeScalingIgnored "rope_scaling_ignored" Rp Blocks Values::Words(&["all", "as_linear", "magnitude_kept"]);
    /// cos and sin are multiplied by a factor more; without a value, by that which undoes the checkpoint's own.
    RopeMagnitude "rope_magnitude" Rp Blocks number("the factor", 1e-2, 1e2);
    /// A table of cos and sin that holds a copy for every head is widened over the heads again: read row by row, so that each
    /// row has the table of an earlier position; or repeated over the heads entry by entry.
    RopeTableTiledTwice "rope_table_tiled_twice" Rp Blocks Values::Words(&["rows", "both", "queries", "keys"]);
    /// cos and sin from numbers of low precision.
    RopeTableLowPrecision "rope_table_low_precision" Rp Blocks
        Values::Words(&["bf16_frequencies", "bf16_angles", "bf16_table", "f16_table", "u8_table"]);
    /// Steps use a table of another base than the prompt did; without a value, one without scaling or of base 10000.
    RopeTablesDiffer "rope_tables_differ" Rp Whole number("the base of steps", 1.5, 1e12);
    /// Positions of steps are shifted, by 1 without a value; or start at 0 again, or stay where the first step is; or those of
    /// every row are shifted, which changes nothing under RoPE.
    PositionShift "position_shift" Rp Blocks mixed(&["next", "reset", "frozen"], &["uniform"], "the shift", true);

    /// Every earlier key is seen.
    WindowIgnored "window_ignored" Sw Blocks Values::None;
    /// The window is so many keys wider; 1 without a value.
    WindowOffByOne "window_off_by_one" Sw Blocks whole("how much wider the window is", -1.0, 1.0);
    /// Other blocks than the right ones have the window.
    WindowWrongLayers "window_wrong_layers" Sw Blocks
        mixed(&["exchanged", "all", "later", "earlier"], &["from", "before"], "", true);

    /// The first id is not fed; rows of a prompt are those of their tokens, or (`by_index`) of their places in what was fed.
    BosMissing "bos_missing" Tk Whole Values::Words(&["by_token", "by_index"]);
    /// BOS is fed once more before the rest; rows of a prompt as in [`Fault::BosMissing`].
    BosDoubled "bos_doubled" Tk Whole Values::Words(&["by_token", "by_index"]);

    /// Biases of attention's projections are not added.
    AttentionBiasDropped "attention_bias_dropped" Wt Blocks Values::Words(&["all", "q", "k", "v", "qk", "qkv", "o"]);
    /// Biases of the MLP's projections are not added.
    MlpBiasDropped "mlp_bias_dropped" Wt Blocks Values::Words(&["all", "gate", "up", "down"]);
    /// Queries and keys are not normalised.
    QkNormMissing "qk_norm_missing" Wt Blocks Values::Words(&["both", "q", "k"]);
    /// Norms have no weights, or (`plus_one`) 1 is added to them; or those of attention and MLP are exchanged.
    NormWeight "norm_weight" Wt Blocks Values::Words(&[
        "all",
        "both",
        "attn",
        "mlp",
        "final",
        "plus_one",
        "both_plus_one",
        "attn_plus_one",
        "mlp_plus_one",
        "final_plus_one",
        "swapped",
    ]);
    /// A block is left out.
    LayerSkipped "layer_skipped" Wt OneBlock Values::None;
    /// A block is computed twice, or (`copied`) stands in the place of the next too.
    LayerDuplicated "layer_duplicated" Wt OneBlock Values::Words(&["twice", "copied"]);
    /// The weights of a block and another are exchanged; of the next without a value.
    LayersSwapped "layers_swapped" Wt OneBlock whole("the other block", 1.0, 65535.0);
    /// The embedding is used as the head.
    HeadTied "head_tied" Wt Whole Values::None;

    /// Another epsilon in every norm.
    NormEps "norm_eps" Cf Blocks number("epsilon", 0.0, 1.0);

    /// Another activation function in the MLP; without a value, the one nearest to the right one.
    ActivationExchanged "activation_exchanged" Ac Blocks
        Values::Words(&["nearest", "silu", "gelu", "gelu_tanh", "quick_gelu", "relu"]);

    /// A shard of the logits is 0; without a value, the last of four.
    HeadMissing "head_missing" Out Whole Values::Shards;
    /// Two shards of the logits are exchanged; without a value, the halves.
    ShardsSwapped "shards_swapped" Out Whole Values::Shards;
    /// Every shard of the logits ends in padding that stays in; without a value, 8 of each of two shards.
    VocabPadded "vocab_padded" Out Whole Values::Padding;

    /// The cache is written token by token and read head by head, or channel by channel; with a number, as one of so many
    /// entries (-1: the prompt's alone).
    KvLayout "kv_layout" Kv Blocks mixed(LAYOUTS, LAYOUTS, "", true);
    /// The place of the next entry is off by so many once, after the prompt; by 1 without a value; or before every step.
    KvOffset "kv_offset" Kv Blocks mixed(&["next"], &["every"], "the offset", true);
    /// Values of the cache are rotated against its keys; or (`ring`) all entries against what is seen.
    KvRotated "kv_rotated" Kv Blocks mixed(&["next"], &["ring"], "by how many entries", true);
    /// A step reads entries before they are written: its own is empty, or still that of the step before, or that of the step
    /// before is empty (`lag`), or those of all steps are.
    KvStale "kv_stale" Kv Blocks Values::Words(&["empty", "previous", "lag", "steps_lost"]);
    /// Steps see themselves alone; or steps alone (`prompt`); or (`zeros`) empty entries beside themselves.
    KvHistoryLost "kv_history_lost" Kv Blocks Values::Words(&["self", "prompt", "zeros"]);
    /// Steps see the last so many tokens alone (or, below 0, the first so many and themselves); 8 without a value.
    KvTruncated "kv_truncated" Kv Blocks whole("how many are seen", -4096.0, 4096.0);

    /// Values of a kind of site are clipped.
    ActivationClipped "activation_clipped" Qn Blocks Values::Clip;
    /// Every site is clipped to a share of its range; 0.25 without a value.
    CalibrationRange "calibration_range" Qn Blocks number("the share of the range", 1e-3, 1.0);
    /// Weights of projections are rounded to 4 bits in groups; of 64 without a value.
    Int4Group "int4_group" Qn Blocks whole("the size of a group", 1.0, 65536.0);
    /// Embeddings are multiplied by a factor; √hidden without a value.
    EmbeddingScale "embedding_scale" Qn Whole number("the factor", 1e-3, 1e3);
    /// The residual stream is rounded to 8 bits, one range a site.
    ResidualEightBit "residual_8bit" Qn Blocks Values::None;

    /// What exceeds a limit becomes infinite; 65504 (float16) without a value.
    Overflow "overflow" Nm Blocks number("the limit", 1e-3, 3e38);
    /// The first position's mask hides its only key, and its weights become NaN.
    MaskedRowNan "masked_row_nan" Nm Blocks Values::None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_canonical_and_families_read() {
        let mut names = Fault::ALL.map(Fault::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Fault::ALL.len());
        assert_eq!(Fault::GqaTile.family().to_string(), "AT");
        assert_eq!(serde_json::to_string(&FaultFamily::Out).expect("writes"), "\"OUT\"");
    }
}
