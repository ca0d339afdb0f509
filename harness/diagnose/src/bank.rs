//! The fault bank: what each fault is to a person, and what to change.

use fidelity_trace::Fault;

/// One fault, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is wrong, one sentence without a full stop.
    pub sentence: &'static str,
    /// What to change.
    pub remedy: &'static str,
    /// How it is confirmed on the device itself.
    pub confirm: &'static str,
}

/// What is known of a fault.
///
/// # Panics
/// Never: a test holds that every fault has its entry.
#[must_use]
pub fn entry(fault: Fault) -> Entry {
    let of_fault = ENTRIES.iter().find(|(known, _)| *known == fault);
    of_fault.expect("every fault has its entry").1
}

/// Every fault, in the order of the bank.
const ENTRIES: [(Fault, Entry); Fault::ALL.len()] = [
    (
        Fault::SoftmaxAcrossHeads,
        Entry {
            sentence: "the softmax runs over the keys of all heads together instead of over each head's own",
            remedy: "Look at the group count of the softmax: one group a head. An emulator that ignores it has this fault where silicon does not.",
            confirm: "one token: with one legal key every head must put weight 1 on it",
        },
    ),
    (
        Fault::MaskRepeated,
        Entry {
            sentence: "the mask of one head is widened to all heads by repeating rows (AABB) where it must be tiled (ABAB)",
            remedy: "Tile the mask over the heads, or give the graph a mask of all heads.",
            confirm: "poke one token at a time: which positions move differs from head to head",
        },
    ),
    (
        Fault::MaskMissing,
        Entry {
            sentence: "there is no causal mask: positions of a prompt see the tokens after them",
            remedy: "Check that the mask input is connected and not fused away.",
            confirm: "poke the last token: earlier positions must not move",
        },
    ),
    (
        Fault::MaskOffsetLost,
        Entry {
            sentence: "the mask of a step starts at the cache's first key, as if the step were the first token",
            remedy: "Add the cache's length to the mask's rows.",
            confirm: "one prompt, one step: it sees the first token alone",
        },
    ),
    (
        Fault::GqaTile,
        Entry {
            sentence: "query heads read the wrong key and value heads: they are tiled (h mod kv heads) instead of repeated (h div group)",
            remedy: "Repeat key and value heads block by block, or permute the query heads and the output projection.",
            confirm: "one token: the heads on which tile and repeat agree are right, the others wrong",
        },
    ),
    (
        Fault::ScoreScale,
        Entry {
            sentence: "attention scores are multiplied by another factor than 1/√head_dim",
            remedy: "Look for the scale that was folded twice, left out, or made from hidden / heads.",
            confirm: "one token is right; two tokens are not",
        },
    ),
    (
        Fault::RopeMissing,
        Entry {
            sentence: "queries and keys are not rotated",
            remedy: "Check that the cos and sin inputs are connected and fed.",
            confirm: "one token is right; exchanging two earlier tokens changes nothing",
        },
    ),
    (
        Fault::RopeSign,
        Entry {
            sentence: "RoPE rotates in the opposite direction",
            remedy: "Negate sin, or exchange the halves in rotate_half.",
            confirm: "one token is right; the error grows with the distance of tokens",
        },
    ),
    (
        Fault::RopeInterleaved,
        Entry {
            sentence: "RoPE pairs neighbouring dimensions (2i, 2i+1) where the weights pair halves (i, i + d/2)",
            remedy: "Use the pairing of the weights' format, or permute the rows of q and k.",
            confirm: "one token is right; norms of q and k are right at every position",
        },
    ),
    (
        Fault::RopeTwice,
        Entry {
            sentence: "RoPE is applied twice",
            remedy: "Either the host or the graph rotates, not both.",
            confirm: "one token is right; the result is that of doubled positions",
        },
    ),
    (
        Fault::RopeTheta,
        Entry {
            sentence: "the base of the rotary frequencies is another one than the checkpoint's",
            remedy: "Read rope_theta, or rope_parameters.rope_theta in newer files, instead of a default.",
            confirm: "one token is right; of a key's frequency pairs the first alone is right",
        },
    ),
    (
        Fault::RopeScalingIgnored,
        Entry {
            sentence: "the scaling of the rotary frequencies is ignored",
            remedy: "Apply rope_scaling (rope_parameters in newer files) when the tables are made.",
            confirm: "one token is right; compare the tables of cos and sin",
        },
    ),
    (
        Fault::RopeMagnitude,
        Entry {
            sentence: "cos and sin have another magnitude than they should",
            remedy: "Check YaRN's attention factor: it multiplies cos and sin once.",
            confirm: "norms of q and k are off by one factor at every position",
        },
    ),
    (
        Fault::RopeTableTiledTwice,
        Entry {
            sentence: "the table of cos and sin, which already holds a copy for every head, is widened over the heads once more",
            remedy: "Declare the width that the host writes (heads × head_dim), or let the graph widen one head's table.",
            confirm: "rotated q and k of one step, head by head",
        },
    ),
    (
        Fault::RopeTableLowPrecision,
        Entry {
            sentence: "the table of cos and sin is made or stored with too few bits",
            remedy: "Make the table in float32 and give its input 16 bits.",
            confirm: "the error grows with the position",
        },
    ),
    (
        Fault::RopeTablesDiffer,
        Entry {
            sentence: "prompt and steps are rotated by different tables",
            remedy: "Make both tables by the same code.",
            confirm: "prefill(n) and prefill(k) with n − k steps differ more the longer both are",
        },
    ),
    (
        Fault::PositionShift,
        Entry {
            sentence: "positions of steps are shifted against those of the prompt",
            remedy: "The first step's position is the prompt's length.",
            confirm: "one prompt fed as prefill, and as steps from an empty cache",
        },
    ),
    (
        Fault::WindowIgnored,
        Entry {
            sentence: "the sliding window is ignored",
            remedy: "Hide keys that are the window or more behind.",
            confirm: "exact below the window, wrong from there on",
        },
    ),
    (
        Fault::WindowOffByOne,
        Entry {
            sentence: "the sliding window has another width by one",
            remedy: "A window of W holds W keys, the position's own among them.",
            confirm: "poke the token W − 1, W and W + 1 before a position",
        },
    ),
    (
        Fault::WindowWrongLayers,
        Entry {
            sentence: "the sliding window is on other blocks than it should be",
            remedy: "Follow layer_types, or use_sliding_window and max_window_layers.",
            confirm: "taps: the first block that differs is one of the wrong kind",
        },
    ),
    (
        Fault::BosMissing,
        Entry {
            sentence: "the sequence is computed without its first token",
            remedy: "Let one side alone add special tokens, and compare ids first.",
            confirm: "print the ids that are fed",
        },
    ),
    (
        Fault::BosDoubled,
        Entry {
            sentence: "BOS is fed twice",
            remedy: "Let one side alone add special tokens, and compare ids first.",
            confirm: "print the ids that are fed",
        },
    ),
    (
        Fault::AttentionBiasDropped,
        Entry {
            sentence: "biases of attention's projections are not added",
            remedy: "Load q_proj.bias, k_proj.bias, v_proj.bias (and o_proj.bias where the family has it).",
            confirm: "q, k and v are off by one vector at every position",
        },
    ),
    (
        Fault::MlpBiasDropped,
        Entry {
            sentence: "biases of the MLP are not added",
            remedy: "Load the biases of the MLP's projections.",
            confirm: "gate and up are off by one vector at every position",
        },
    ),
    (
        Fault::QkNormMissing,
        Entry {
            sentence: "queries and keys are not normalised",
            remedy: "Apply q_norm and k_norm before RoPE, on every path.",
            confirm: "one token is right; norms of q and k are far off",
        },
    ),
    (
        Fault::NormWeight,
        Entry {
            sentence: "a norm's weight is not applied, or 1 is added to it",
            remedy: "Load the norm's weight; only some families store weight − 1.",
            confirm: "the first norm whose output differs channel by channel",
        },
    ),
    (
        Fault::LayerSkipped,
        Entry {
            sentence: "a block is left out",
            remedy: "Count the blocks of the graph.",
            confirm: "taps of that block: the residual stream does not change there",
        },
    ),
    (
        Fault::LayerDuplicated,
        Entry {
            sentence: "a block is computed twice, or its weights stand in the next one too",
            remedy: "Count the blocks of the graph, and compare their weights.",
            confirm: "taps of that block and the next",
        },
    ),
    (
        Fault::LayersSwapped,
        Entry {
            sentence: "the weights of two blocks are exchanged",
            remedy: "Sort the blocks by number, not by name.",
            confirm: "taps of that block",
        },
    ),
    (
        Fault::HeadTied,
        Entry {
            sentence: "the embedding is used as the head, though the checkpoint has a head of its own",
            remedy: "Load lm_head.weight where tie_word_embeddings is false.",
            confirm: "hidden states are right, logits wrong",
        },
    ),
    (
        Fault::NormEps,
        Entry {
            sentence: "the norms have another epsilon",
            remedy: "Read rms_norm_eps (or layer_norm_epsilon) instead of a default.",
            confirm: "embeddings scaled by 0.01 make the error large",
        },
    ),
    (
        Fault::ActivationExchanged,
        Entry {
            sentence: "the MLP has another activation function",
            remedy: "Read hidden_act (or activation_function).",
            confirm: "the MLP alone, over a sweep of inputs",
        },
    ),
    (
        Fault::HeadMissing,
        Entry {
            sentence: "a shard of the logits is missing",
            remedy: "Check that every output stream of the head is read.",
            confirm: "ranges of ids whose logits are all 0",
        },
    ),
    (
        Fault::ShardsSwapped,
        Entry {
            sentence: "shards of the logits are joined in the wrong order",
            remedy: "Join output streams by their index, not by their order of arrival.",
            confirm: "correlate each shard with each range of ids",
        },
    ),
    (
        Fault::VocabPadded,
        Entry {
            sentence: "padding at the end of a shard of logits is taken for ids",
            remedy: "Cut each output stream to the ids it stands for.",
            confirm: "correlate logits shifted by a few ids",
        },
    ),
    (
        Fault::KvLayout,
        Entry {
            sentence: "the cache is written in one layout and read in another",
            remedy: "Use one layout in the graph that writes and in the one that reads: token by token.",
            confirm: "steps that see one slot at a time: which token is in it",
        },
    ),
    (
        Fault::KvOffset,
        Entry {
            sentence: "steps read the cache at a wrong offset",
            remedy: "Advance the offset by as many entries as were written.",
            confirm: "steps that see one slot at a time: the tokens are shifted",
        },
    ),
    (
        Fault::KvRotated,
        Entry {
            sentence: "keys and values of the cache are not those of the same tokens",
            remedy: "Advance the offsets of keys and values together.",
            confirm: "steps that see one slot at a time",
        },
    ),
    (
        Fault::KvStale,
        Entry {
            sentence: "a step reads entries of the cache before they are written",
            remedy: "Write the new entry before attention reads the cache.",
            confirm: "a step that sees itself alone",
        },
    ),
    (
        Fault::KvHistoryLost,
        Entry {
            sentence: "steps see nothing but themselves",
            remedy: "Check that the cache is carried from one run to the next.",
            confirm: "a step's logits are those of a one-token prompt",
        },
    ),
    (
        Fault::KvTruncated,
        Entry {
            sentence: "steps see a part of the tokens alone",
            remedy: "Check the mask's width and how many entries the cache keeps.",
            confirm: "steps that see one slot at a time",
        },
    ),
    (
        Fault::ActivationClipped,
        Entry {
            sentence: "values are clipped at a limit",
            remedy: "Calibrate that layer's range on text like that it will see, or give it 16 bits.",
            confirm: "scale the embeddings up: the output stops growing",
        },
    ),
    (
        Fault::CalibrationRange,
        Entry {
            sentence: "activations are clipped everywhere: the ranges were calibrated on other values than these",
            remedy: "Calibrate on embeddings of real text, as the device will be fed.",
            confirm: "calibrate again on the prompts that fail",
        },
    ),
    (
        Fault::Int4Group,
        Entry {
            sentence: "weights are as coarse as 4 bits in groups",
            remedy: "Check the precision mode of the projections, and the group size.",
            confirm: "read the weights back with one-hot activations",
        },
    ),
    (
        Fault::EmbeddingScale,
        Entry {
            sentence: "embeddings are multiplied by a factor",
            remedy: "Check the scale with which the host quantises embeddings; only some families multiply by √hidden.",
            confirm: "the first tap is off by one factor",
        },
    ),
    (
        Fault::ResidualEightBit,
        Entry {
            sentence: "the residual stream has 8 bits, and one value far above the rest takes them all",
            remedy: "Give the residual adds and what enters them 16 bits (`fidelity advise`).",
            confirm: "carry the first position's residual in 16 bits",
        },
    ),
    (
        Fault::Overflow,
        Entry {
            sentence: "values beyond the largest float16 become infinite",
            remedy: "Compute that product in more range, or scale before it.",
            confirm: "the first tap that is not finite",
        },
    ),
    (
        Fault::MaskedRowNan,
        Entry {
            sentence: "a row without a legal key becomes NaN and spreads",
            remedy: "Hide with −100 or a large finite number, never −∞, where a row may have no key.",
            confirm: "which rows are not finite",
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_an_entry_that_reads_as_a_sentence() {
        for fault in Fault::ALL {
            let entry = entry(fault);
            assert!(!entry.sentence.ends_with('.'), "{}", fault.name());
            assert!(entry.remedy.ends_with('.'), "{}", fault.name());
            assert!(!entry.confirm.is_empty() && !entry.confirm.ends_with('.'), "{}", fault.name());
        }
    }
}
