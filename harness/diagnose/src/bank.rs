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
#[must_use]
pub const fn entry(fault: Fault) -> Entry {
    let (sentence, remedy, confirm) = match fault {
        Fault::SoftmaxAcrossHeads => (
            "the softmax runs over the keys of all heads together instead of over each head's own",
            "Look at the group count of the softmax: one group a head. An emulator that ignores it has this fault where silicon does not.",
            "one token: with one legal key every head must put weight 1 on it",
        ),
        Fault::MaskRepeated => (
            "the mask of one head is widened to all heads by repeating rows (AABB) where it must be tiled (ABAB)",
            "Tile the mask over the heads, or give the graph a mask of all heads.",
            "poke one token at a time: which positions move differs from head to head",
        ),
        Fault::MaskMissing => (
            "there is no causal mask: positions of a prompt see the tokens after them",
            "Check that the mask input is connected and not fused away.",
            "poke the last token: earlier positions must not move",
        ),
        Fault::MaskOffsetLost => (
            "the mask of a step starts at the cache's first key, as if the step were the first token",
            "Add the cache's length to the mask's rows.",
            "one prompt, one step: it sees the first token alone",
        ),
        Fault::GqaTile => (
            "query heads read the wrong key and value heads: they are tiled (h mod kv heads) instead of repeated (h div group)",
            "Repeat key and value heads block by block, or permute the query heads and the output projection.",
            "one token: the heads on which tile and repeat agree are right, the others wrong",
        ),
        Fault::ScoreScale => (
            "attention scores are multiplied by another factor than 1/√head_dim",
            "Look for the scale that was folded twice, left out, or made from hidden / heads.",
            "one token is right; two tokens are not",
        ),
        Fault::RopeMissing => (
            "queries and keys are not rotated",
            "Check that the cos and sin inputs are connected and fed.",
            "one token is right; exchanging two earlier tokens changes nothing",
        ),
        Fault::RopeSign => (
            "RoPE rotates in the opposite direction",
            "Negate sin, or exchange the halves in rotate_half.",
            "one token is right; the error grows with the distance of tokens",
        ),
        Fault::RopeInterleaved => (
            "RoPE pairs neighbouring dimensions (2i, 2i+1) where the weights pair halves (i, i + d/2)",
            "Use the pairing of the weights' format, or permute the rows of q and k.",
            "one token is right; norms of q and k are right at every position",
        ),
        Fault::RopeTwice => (
            "RoPE is applied twice",
            "Either the host or the graph rotates, not both.",
            "one token is right; the result is that of doubled positions",
        ),
        Fault::RopeTheta => (
            "the base of the rotary frequencies is another one than the checkpoint's",
            "Read rope_theta, or rope_parameters.rope_theta in newer files, instead of a default.",
            "one token is right; of a key's frequency pairs the first alone is right",
        ),
        Fault::RopeScalingIgnored => (
            "the scaling of the rotary frequencies is ignored",
            "Apply rope_scaling (rope_parameters in newer files) when the tables are made.",
            "one token is right; compare the tables of cos and sin",
        ),
        Fault::RopeMagnitude => (
            "cos and sin have another magnitude than they should",
            "Check YaRN's attention factor: it multiplies cos and sin once.",
            "norms of q and k are off by one factor at every position",
        ),
        Fault::RopeTableTiledTwice => (
            "the table of cos and sin, which already holds a copy for every head, is widened over the heads once more",
            "Declare the width that the host writes (heads × head_dim), or let the graph widen one head's table.",
            "rotated q and k of one step, head by head",
        ),
        Fault::RopeTableLowPrecision => (
            "the table of cos and sin is made or stored with too few bits",
            "Make the table in float32 and give its input 16 bits.",
            "the error grows with the position",
        ),
        Fault::RopeTablesDiffer => (
            "prompt and steps are rotated by different tables",
            "Make both tables by the same code.",
            "prefill(n) and prefill(k) with n − k steps differ more the longer both are",
        ),
        Fault::PositionShift => (
            "positions of steps are shifted against those of the prompt",
            "The first step's position is the prompt's length.",
            "one prompt fed as prefill, and as steps from an empty cache",
        ),
        Fault::WindowIgnored => (
            "the sliding window is ignored",
            "Hide keys that are the window or more behind.",
            "exact below the window, wrong from there on",
        ),
        Fault::WindowOffByOne => (
            "the sliding window has another width by one",
            "A window of W holds W keys, the position's own among them.",
            "poke the token W − 1, W and W + 1 before a position",
        ),
        Fault::WindowWrongLayers => (
            "the sliding window is on other blocks than it should be",
            "Follow layer_types, or use_sliding_window and max_window_layers.",
            "taps: the first block that differs is one of the wrong kind",
        ),
        Fault::BosMissing => (
            "the sequence is computed without its first token",
            "Let one side alone add special tokens, and compare ids first.",
            "print the ids that are fed",
        ),
        Fault::BosDoubled => (
            "BOS is fed twice",
            "Let one side alone add special tokens, and compare ids first.",
            "print the ids that are fed",
        ),
        Fault::AttentionBiasDropped => (
            "biases of attention's projections are not added",
            "Load q_proj.bias, k_proj.bias, v_proj.bias (and o_proj.bias where the family has it).",
            "q, k and v are off by one vector at every position",
        ),
        Fault::MlpBiasDropped => (
            "biases of the MLP are not added",
            "Load the biases of the MLP's projections.",
            "gate and up are off by one vector at every position",
        ),
        Fault::QkNormMissing => (
            "queries and keys are not normalised",
            "Apply q_norm and k_norm before RoPE, on every path.",
            "one token is right; norms of q and k are far off",
        ),
        Fault::NormWeight => (
            "a norm's weight is not applied, or 1 is added to it",
            "Load the norm's weight; only some families store weight − 1.",
            "the first norm whose output differs channel by channel",
        ),
        Fault::LayerSkipped => {
            ("a block is left out", "Count the blocks of the graph.", "the residual stream does not change there")
        }
        Fault::LayerDuplicated => {
            ("a block is computed twice", "Count the blocks of the graph and their weights.", "taps of that block")
        }
        Fault::LayersSwapped => {
            ("two neighbouring blocks are exchanged", "Sort the blocks by number, not by name.", "taps of that block")
        }
        Fault::HeadTied => (
            "the embedding is used as the head, though the checkpoint has a head of its own",
            "Load lm_head.weight where tie_word_embeddings is false.",
            "hidden states are right, logits wrong",
        ),
        Fault::NormEps => (
            "the norms have another epsilon",
            "Read rms_norm_eps (or layer_norm_epsilon) instead of a default.",
            "embeddings scaled by 0.01 make the error large",
        ),
        Fault::ActivationExchanged => (
            "the MLP has another activation function",
            "Read hidden_act (or activation_function).",
            "the MLP alone, over a sweep of inputs",
        ),
        Fault::HeadMissing => (
            "a shard of the logits is missing",
            "Check that every output stream of the head is read.",
            "ranges of ids whose logits are all 0",
        ),
        Fault::ShardsSwapped => (
            "shards of the logits are joined in the wrong order",
            "Join output streams by their index, not by their order of arrival.",
            "correlate each shard with each range of ids",
        ),
        Fault::VocabPadded => (
            "padding at the end of a shard of logits is taken for ids",
            "Cut each output stream to the ids it stands for.",
            "correlate logits shifted by a few ids",
        ),
        Fault::KvLayout => (
            "the cache is written in one layout and read in another",
            "Use one layout in the graph that writes and in the one that reads: token by token.",
            "steps that see one slot at a time: which token is in it",
        ),
        Fault::KvOffset => (
            "steps read the cache at a wrong offset",
            "Advance the offset by as many entries as were written.",
            "steps that see one slot at a time: the tokens are shifted",
        ),
        Fault::KvRotated => (
            "keys and values of the cache are not those of the same tokens",
            "Advance the offsets of keys and values together.",
            "steps that see one slot at a time",
        ),
        Fault::KvStale => (
            "a step reads entries of the cache before they are written",
            "Write the new entry before attention reads the cache.",
            "a step that sees itself alone",
        ),
        Fault::KvHistoryLost => (
            "steps see nothing but themselves",
            "Check that the cache is carried from one run to the next.",
            "a step's logits are those of a one-token prompt",
        ),
        Fault::KvTruncated => (
            "steps see a part of the tokens alone",
            "Check the mask's width and how many entries the cache keeps.",
            "steps that see one slot at a time",
        ),
        Fault::ActivationClipped => (
            "values are clipped at a limit",
            "Calibrate that layer's range on text like that it will see, or give it 16 bits.",
            "scale the embeddings up: the output stops growing",
        ),
        Fault::CalibrationRange => (
            "activations are clipped everywhere: the ranges were calibrated on other values than these",
            "Calibrate on embeddings of real text, as the device will be fed.",
            "calibrate again on the prompts that fail",
        ),
        Fault::Int4Group => (
            "weights are as coarse as 4 bits in groups",
            "Check the precision mode of the projections, and the group size.",
            "read the weights back with one-hot activations",
        ),
        Fault::EmbeddingScale => (
            "embeddings are multiplied by a factor",
            "Check the scale with which the host quantises embeddings; only some families multiply by √hidden.",
            "the first tap is off by one factor",
        ),
        Fault::ResidualEightBit => (
            "the residual stream has 8 bits, and one value far above the rest takes them all",
            "Give the residual adds and what enters them 16 bits (`fidelity advise`).",
            "carry the first position's residual in 16 bits",
        ),
        Fault::Overflow => (
            "values beyond the largest float16 become infinite",
            "Compute that product in more range, or scale before it.",
            "the first tap that is not finite",
        ),
        Fault::MaskedRowNan => (
            "a row without a legal key becomes NaN and spreads",
            "Hide with −100 or a large finite number, never −∞, where a row may have no key.",
            "which rows are not finite",
        ),
    };
    Entry { sentence, remedy, confirm }
}
