//! What an audit looks at, and how it came out.

use serde::Serialize;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// It cannot be told from what there is; never a pass.
    Unknown,
    /// There is nothing it could hold of.
    NotApplicable,
}

impl State {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
            Self::NotApplicable => "not_applicable",
        }
    }
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The file is whole and consistent. Applies to every HEF.
    File,
    /// What the host that feeds a language model relies on.
    Contract,
    /// The compiled model against its checkpoint.
    Checkpoint,
}

/// A state and what was found.
pub(super) struct Outcome {
    pub(super) state: State,
    pub(super) found: String,
}

pub(super) fn pass(found: impl Into<String>) -> Outcome {
    Outcome { state: State::Pass, found: found.into() }
}

pub(super) fn fail(found: impl Into<String>) -> Outcome {
    Outcome { state: State::Fail, found: found.into() }
}

pub(super) fn unknown(found: impl Into<String>) -> Outcome {
    Outcome { state: State::Unknown, found: found.into() }
}

pub(super) fn not_applicable(found: impl Into<String>) -> Outcome {
    Outcome { state: State::NotApplicable, found: found.into() }
}

/// One check of an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What is checked.
    pub id: CheckId,
    /// What it is about.
    pub part: Part,
    /// How it came out.
    pub state: State,
    /// What was found, and what was expected.
    pub found: String,
    /// Why it matters.
    pub why: &'static str,
}

macro_rules! checks {
    ($($(#[$doc:meta])* $id:ident $part:ident $why:literal;)*) => {
        /// Every check, in the order of a report. The names are stable: they are the `id` of docs/AUDIT.md.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum CheckId {
            $($(#[$doc])* $id,)*
        }

        impl CheckId {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$id,)*];

            /// What it is about.
            #[must_use]
            pub const fn part(self) -> Part {
                match self { $(Self::$id => Part::$part,)* }
            }

            /// Why it matters.
            #[must_use]
            pub const fn why(self) -> &'static str {
                match self { $(Self::$id => $why,)* }
            }
        }
    };
}

checks! {
    /// The file is as long as its header says.
    FileLength File "HailoRT opens cut-off files of container version 3; the missing weights or resources then fail or are \
        garbage at run time";
    /// The checksum over everything after the header.
    FileChecksum File "a changed byte in the weights computes something else, and HailoRT does not look";
    /// The checksum over the protobuf.
    ProtoChecksum File "it is the one checksum that HailoRT verifies of files with a protobuf hash";
    /// Pointers into the weights lie inside them.
    CcwPointers File "a pointer past the end fails on the device, after minutes of loading";
    /// Resources lie inside the file.
    ResourceRanges File "HailoRT 5.2 does not check them and reads past the end of its buffer";
    /// Resources have the hashes stored for them.
    ResourceHashes File "damaged embeddings or tokenizers give fluent nonsense";
    /// No finding is an error.
    Structure File "HailoRT refuses such a file, crashes on it or cannot configure it";

    /// The GenAI loader takes the file.
    Runtime Contract "the GenAI loader takes only container version 3 with extension 26; InferModel needs extension 26 too";
    /// It runs on a Hailo-10H.
    Target Contract "a device refuses a file of another architecture when it is configured";
    /// Groups by suffix.
    Groups Contract "the host finds the groups by the ends of their names; the last match wins";
    /// The resources that a host needs.
    Resources Contract "the GenAI server reads all four by name and fails without them";
    /// hailo-config.json is valid.
    Config Contract "without eos_token_id the server refuses to load; a value of a wrong type throws";
    /// Keys of hailo-config.json are those that the server reads.
    ConfigKeys Contract "a misspelt key is ignored and a default takes its place without a word";
    /// The six inputs are found by their suffixes.
    InputNames Contract "inputs are told apart by the ends of their names alone; cos and sin, or Q and K, are otherwise swapped \
        unseen (cos and sin have one shape: no audit can tell them apart)";
    /// Tokens of a prefill.
    PrefillCount Contract "the server asserts it only in debug builds; otherwise rows are written past a buffer or left stale";
    /// The embedding input.
    EmbeddingsInput Contract "codes of embeddings.bin are fed as they are: only uint16 of one scale fits both groups";
    /// The mask input's shape.
    MaskInput Contract "the mask is one block of cache length a head, side by side; another width is read past its end";
    /// The mask's two codes.
    MaskCodes Contract "a visible key is written as the code of 1.0, a hidden one as code 0; if they are one, nothing is masked";
    /// RoPE inputs of queries.
    RopeQueryInputs Contract "the host repeats the table once a query head; a graph that repeats it again rotates wrongly";
    /// RoPE inputs of keys.
    RopeKeyInputs Contract "the host repeats the table once a key head; a graph of another width gets other heads' values";
    /// RoPE inputs hold −1 to 1.
    RopeRange Contract "cos and sin outside of the quantised range are clipped";
    /// Logits.
    Outputs Contract "a missing lm_head, logits of other rows or unequal shards give confident nonsense";
    /// The RoPE table.
    Theta Contract "the table is used as it is: its length is head_dim, its signs say who negates sin";
    /// embeddings.bin.
    EmbeddingsTable Contract "rows are found by id × width; another width shifts every row but the first";
    /// Tokenizer and lm_head.
    Tokenizer Contract "an id that lm_head has no column for is never produced, or read past the end";
    /// Caches are read and written once.
    CachePairs Contract "HailoRT checks it only on a device (INTERNAL_FAILURE when configured)";
    /// Entries of caches.
    CacheEntries Contract "entry size is counted in features, not bytes: a 16-bit or uneven cache is mis-sized";
    /// Length of caches.
    CacheLength Contract "prefill and tbt share one ring of tokens; unequal lengths fail when configured, equal ones by chance \
        mix up tokens";
    /// Layout of caches.
    CacheLayout Contract "what prefill writes tbt must read in the same order: one entry a token";
    /// Quantisation of caches.
    CacheQuantisation Contract "codes written by one group are read by the other with its own scale";

    /// Shapes against config.json.
    CheckpointShape Checkpoint "another number of heads, width or vocabulary is another model";
    /// embeddings.bin against the embedding.
    CheckpointEmbeddings Checkpoint "the first tensor of every forward pass; the compiled graph never sees the checkpoint's own";
    /// RoPE table against config.json.
    CheckpointTheta Checkpoint "a wrong base or scaling leaves position 0 right and grows with the position";
    /// Tokenizers.
    CheckpointTokenizer Checkpoint "other ids for the same text look like a broken model";
    /// BOS.
    CheckpointBos Checkpoint "the server adds no BOS by itself: only a chat template can";
}
