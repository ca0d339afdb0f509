//! The layers of a network as recipes name them, and the roles they play.

use fidelity_references::{Architecture, MlpKind, NormPlacement};
use fidelity_trace::{BlockSite, Site};

/// What a layer computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Embedding,
    AttnNorm,
    QProj,
    KProj,
    VProj,
    KCache,
    VCache,
    QkMatmul,
    Softmax,
    AvMatmul,
    OProj,
    AttnAdd,
    MlpNorm,
    GateProj,
    UpProj,
    SwigluMult,
    Activation,
    DownProj,
    MlpAdd,
    FinalNorm,
    FinalSlice,
    LmHead,
}

impl Kind {
    pub(crate) const ALL: [Self; 22] = [
        Self::Embedding,
        Self::AttnNorm,
        Self::QProj,
        Self::KProj,
        Self::VProj,
        Self::KCache,
        Self::VCache,
        Self::QkMatmul,
        Self::Softmax,
        Self::AvMatmul,
        Self::OProj,
        Self::AttnAdd,
        Self::MlpNorm,
        Self::GateProj,
        Self::UpProj,
        Self::SwigluMult,
        Self::Activation,
        Self::DownProj,
        Self::MlpAdd,
        Self::FinalNorm,
        Self::FinalSlice,
        Self::LmHead,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::AttnNorm => "attn_norm",
            Self::QProj => "q_proj",
            Self::KProj => "k_proj",
            Self::VProj => "v_proj",
            Self::KCache => "k_cache",
            Self::VCache => "v_cache",
            Self::QkMatmul => "qk_matmul",
            Self::Softmax => "softmax",
            Self::AvMatmul => "av_matmul",
            Self::OProj => "o_proj",
            Self::AttnAdd => "attn_add",
            Self::MlpNorm => "mlp_norm",
            Self::GateProj => "gate_proj",
            Self::UpProj => "up_proj",
            Self::SwigluMult => "swiglu_mult",
            Self::Activation => "activation",
            Self::DownProj => "down_proj",
            Self::MlpAdd => "mlp_add",
            Self::FinalNorm => "final_norm",
            Self::FinalSlice => "final_slice",
            Self::LmHead => "lm_head",
        }
    }

    /// What it writes, or hands on.
    const fn writes(self, placement: NormPlacement) -> Inside {
        use BlockSite as B;
        let post = matches!(placement, NormPlacement::After);
        match self {
            Self::Embedding => Inside::Alone(Site::Embed),
            // After the sums, the first norm writes what the MLP reads, the second what the block returns.
            Self::AttnNorm if post => Inside::Block(B::MlpNorm),
            Self::MlpNorm if post => Inside::Block(B::ResidPost),
            Self::MlpAdd if post => Inside::Block(B::ResidSum),
            Self::AttnNorm => Inside::Block(B::AttnNorm),
            Self::QProj => Inside::Block(B::Q),
            Self::KProj | Self::KCache => Inside::Block(B::K),
            Self::VProj | Self::VCache => Inside::Block(B::V),
            Self::QkMatmul => Inside::Block(B::Scores),
            Self::Softmax => Inside::Block(B::Pattern),
            Self::AvMatmul => Inside::Block(B::Z),
            Self::OProj => Inside::Block(B::AttnOut),
            Self::AttnAdd => Inside::Block(B::ResidMid),
            Self::MlpNorm => Inside::Block(B::MlpNorm),
            Self::GateProj => Inside::Block(B::Gate),
            Self::UpProj => Inside::Block(B::Up),
            Self::SwigluMult | Self::Activation => Inside::Block(B::Act),
            Self::DownProj => Inside::Block(B::MlpOut),
            Self::MlpAdd => Inside::Block(B::ResidPost),
            Self::FinalNorm | Self::FinalSlice => Inside::Alone(Site::FinalNorm),
            Self::LmHead => Inside::Alone(Site::Logits),
        }
    }
}

enum Inside {
    Block(BlockSite),
    Alone(Site),
}

/// One layer of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) kind: Kind,
    pub(crate) block: Option<u32>,
    /// What it writes, or hands on.
    pub(crate) site: Site,
    /// Of a linear: how many inputs it has, and what it reads.
    pub(crate) linear: Option<Linear>,
}

/// What a linear layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    pub(crate) inputs: usize,
    /// `None` where others than linears read it too.
    pub(crate) reads: Option<Site>,
}

impl Layer {
    /// `blocks.3.q_proj`, or the kind's name alone.
    pub(crate) fn name(&self) -> String {
        let kind = self.kind.name();
        self.block.map_or_else(|| kind.to_owned(), |block| format!("blocks.{block}.{kind}"))
    }
}

/// The layers of a network, in data-flow order.
pub(crate) fn layers(a: &Architecture) -> Vec<Layer> {
    let in_blocks = (0..a.blocks as u32).flat_map(|block| Kind::ALL.map(|kind| (kind, Some(block))));
    let alone = |kinds: &[Kind]| kinds.iter().map(|kind| (*kind, None)).collect::<Vec<_>>();
    let all = alone(&[Kind::Embedding]).into_iter().chain(in_blocks);
    let all = all.chain(alone(&[Kind::FinalNorm, Kind::FinalSlice, Kind::LmHead]));
    all.filter_map(|(kind, block)| {
        let site = match (kind.writes(a.norm_placement), block) {
            (Inside::Block(site), Some(block)) => Site::Block(block, site),
            (Inside::Alone(site), None) => site,
            (Inside::Block(_), None) | (Inside::Alone(_), Some(_)) => return None,
        };
        let gated = a.mlp_kind == MlpKind::Gated;
        let there = match kind {
            Kind::SwigluMult => gated,
            Kind::Activation => !gated,
            // Nothing but its own steps reads a cache; an encoder has none. A final norm that is not computed is not written.
            Kind::KCache | Kind::VCache | Kind::FinalSlice => a.computes(Site::Logits),
            Kind::FinalNorm => a.norm_placement == NormPlacement::Before,
            _ => a.computes(site),
        };
        there.then(|| Layer { kind, block, site, linear: linear(a, kind, block) })
    })
    .collect()
}

fn linear(a: &Architecture, kind: Kind, block: Option<u32>) -> Option<Linear> {
    let before = a.norm_placement == NormPlacement::Before;
    let at = |site| block.map(|block| Site::Block(block, site));
    let (inputs, reads) = match kind {
        Kind::QProj | Kind::KProj | Kind::VProj => (a.hidden, at(BlockSite::AttnNorm).filter(|_| before)),
        Kind::OProj => (a.query_heads * a.head_dim, at(BlockSite::Z)),
        Kind::GateProj | Kind::UpProj => (a.hidden, at(BlockSite::MlpNorm).filter(|_| before)),
        Kind::DownProj => (a.mlp, at(BlockSite::Act)),
        Kind::LmHead => (a.hidden, Some(Site::FinalNorm)),
        _ => return None,
    };
    Some(Linear { inputs, reads })
}

/// What a layer is for, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Additions whose sum feeds a norm.
    ResidualAdds,
    /// gate × up.
    SwigluMults,
    /// Linears fed by a SwiGLU product.
    DownProj,
    /// Linears that feed it without the activation.
    UpProj,
    /// Linears fed by attention.
    OProj,
    /// q·kᵀ.
    QkMatmuls,
    /// The last position before the head.
    FinalSlice,
    /// The head.
    LmHead,
    /// Linears worth 4 bits, but the head.
    BlockConvs,
    /// Those whose input width is a multiple of 128.
    BlockConvsG128,
    /// Linears worth 4 bits.
    CompressibleConvs,
    /// Keys and values as attention reads them.
    KvCache,
}

impl Role {
    pub(crate) const ALL: [Self; 12] = [
        Self::ResidualAdds,
        Self::SwigluMults,
        Self::DownProj,
        Self::UpProj,
        Self::OProj,
        Self::QkMatmuls,
        Self::FinalSlice,
        Self::LmHead,
        Self::BlockConvs,
        Self::BlockConvsG128,
        Self::CompressibleConvs,
        Self::KvCache,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ResidualAdds => "residual_adds",
            Self::SwigluMults => "swiglu_mults",
            Self::DownProj => "down_proj",
            Self::UpProj => "up_proj",
            Self::OProj => "o_proj",
            Self::QkMatmuls => "qk_matmuls",
            Self::FinalSlice => "final_slice",
            Self::LmHead => "lm_head",
            Self::BlockConvs => "block_convs",
            Self::BlockConvsG128 => "block_convs_g128",
            Self::CompressibleConvs => "compressible_convs",
            Self::KvCache => "kv_cache",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Whether a layer plays it. A kernel with more than 90 % zeros (`sparse`) is not worth 4 bits, nor is one whose input is
    /// no wider than a head.
    pub(crate) fn is_played_by(self, layer: &Layer, a: &Architecture, sparse: bool) -> bool {
        let gated = a.mlp_kind == MlpKind::Gated;
        let compressible = || layer.linear.is_some_and(|linear| !sparse && linear.inputs > a.head_dim);
        match self {
            Self::ResidualAdds => matches!(layer.kind, Kind::AttnAdd | Kind::MlpAdd),
            Self::SwigluMults => layer.kind == Kind::SwigluMult,
            Self::DownProj => gated && layer.kind == Kind::DownProj,
            Self::UpProj => gated && layer.kind == Kind::UpProj,
            Self::OProj => layer.kind == Kind::OProj,
            Self::QkMatmuls => layer.kind == Kind::QkMatmul,
            Self::FinalSlice => layer.kind == Kind::FinalSlice,
            Self::LmHead => layer.kind == Kind::LmHead,
            Self::BlockConvs => compressible() && layer.kind != Kind::LmHead,
            Self::BlockConvsG128 => {
                Self::BlockConvs.is_played_by(layer, a, sparse)
                    && layer.linear.is_some_and(|linear| linear.inputs % 128 == 0)
            }
            Self::CompressibleConvs => compressible(),
            Self::KvCache => matches!(layer.kind, Kind::KCache | Kind::VCache),
        }
    }
}
