//! How injected faults change the wiring of a block.

use fidelity_trace::{Fault, Intervention};

/// The faults of a computation; empty for the reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wiring {
    interventions: Vec<Intervention>,
}

/// The wiring of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockWiring {
    pub(super) softmax: SoftmaxOver,
    pub(super) mask: MaskOverHeads,
    pub(super) heads: HeadMap,
    pub(super) rope: RopePairs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoftmaxOver {
    Keys,
    HeadsAndKeys,
}

/// How a mask of one head `[T, S]` becomes one of all heads `[head, T, S]`, seen as rows: tiled ABAB or repeated AABB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskOverHeads {
    Tiled,
    Repeated,
}

/// Which kv head query head h reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadMap {
    /// h div group.
    Repeat,
    /// h mod kv heads.
    Tile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RopePairs {
    /// (i, i + d/2)
    HalfSplit,
    /// (2i, 2i + 1)
    Adjacent,
}

impl BlockWiring {
    /// Whether attention itself differs; RoPE comes before it.
    pub(super) fn rewires_attention(&self) -> bool {
        let Self { softmax, mask, heads, rope: _ } = self;
        (softmax, mask, heads) != (&SoftmaxOver::Keys, &MaskOverHeads::Tiled, &HeadMap::Repeat)
    }
}

impl Wiring {
    /// A computation with these faults.
    #[must_use]
    pub fn new(interventions: Vec<Intervention>) -> Self {
        Self { interventions }
    }

    /// Whether a row's result depends only on its own position and the keys it sees, not on which rows share its chunk.
    #[must_use]
    pub fn rows_are_independent(&self) -> bool {
        self.interventions.iter().all(|intervention| match intervention.fault {
            Fault::MaskRepeated => false,
            Fault::SoftmaxAcrossHeads | Fault::GqaTile | Fault::RopeInterleaved => true,
        })
    }

    pub(super) fn block(&self, index: u32) -> BlockWiring {
        let mut wiring = BlockWiring {
            softmax: SoftmaxOver::Keys,
            mask: MaskOverHeads::Tiled,
            heads: HeadMap::Repeat,
            rope: RopePairs::HalfSplit,
        };
        for intervention in self.interventions.iter().filter(|intervention| intervention.acts_in(index)) {
            match intervention.fault {
                Fault::SoftmaxAcrossHeads => wiring.softmax = SoftmaxOver::HeadsAndKeys,
                Fault::MaskRepeated => wiring.mask = MaskOverHeads::Repeated,
                Fault::GqaTile => wiring.heads = HeadMap::Tile,
                Fault::RopeInterleaved => wiring.rope = RopePairs::Adjacent,
            }
        }
        wiring
    }
}
