//! How injected faults change the wiring of a block, and the values that pass through it.

use std::{collections::BTreeMap, sync::Mutex};

use candle_core::{DType, Result, Tensor};
use fidelity_trace::{BlockSite, Fault, FaultValue, Intervention, Scope, Site};

use super::{Instrument, Part};
use crate::{Rope, RopeScaling};

/// The base that implementations fall back to.
const FALLBACK_THETA: f64 = 10_000.0;

/// The faults of a computation; empty for the reference. Those of token ids act in [`crate::run_scopes`].
#[derive(Debug, Default)]
pub struct Wiring {
    interventions: Vec<Intervention>,
    /// Ranges of sites, set by the first values seen there: faults of quantisation have one static range a site.
    ranges: Mutex<BTreeMap<Site, (f64, f64)>>,
}

/// The wiring of one block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BlockWiring {
    pub(super) softmax: SoftmaxOver,
    pub(super) mask: MaskOverHeads,
    pub(super) heads: HeadMap,
    pub(super) rope: RopeWiring,
    pub(super) memory: Remembered,
    pub(super) first_row_is_nan: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoftmaxOver {
    Keys,
    HeadsAndKeys,
}

/// How a mask of one head `[T, S]` becomes one of all heads `[head, T, S]`, seen as rows: tiled ABAB or repeated AABB; or
/// what else becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskOverHeads {
    Tiled,
    Repeated,
    /// Nothing is hidden.
    Missing,
    /// Row i of the chunk sees keys 0 to i, wherever the chunk is.
    FromFirstKey,
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

/// How a block rotates queries and keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RopeWiring {
    pub(super) pairs: RopePairs,
    /// The table is copied entry by entry over the heads of queries, and of keys.
    pub(super) copied: (bool, bool),
    /// `None` where nothing is rotated.
    pub(super) table: Option<Turning>,
}

/// What a table of cos and sin is made of, apart from positions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turning {
    pub(super) rope: Rope,
    /// Of chunks after a cache, where they have another.
    pub(super) of_steps: Option<Rope>,
    /// What positions of chunks after a cache are shifted by.
    pub(super) shift_of_steps: i64,
    /// How often, and in which direction.
    pub(super) times: f64,
    /// What cos and sin are multiplied by, beyond the scaling's own.
    pub(super) magnitude: f64,
    pub(super) precision: TablePrecision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TablePrecision {
    Full,
    FrequenciesBf16,
    AnglesBf16,
    Bf16,
    F16,
    /// −1 to 1 in 255 steps.
    U8,
}

/// What a chunk after a cache finds of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remembered {
    All,
    /// Written `[entry, head]`, read `[head, entry]`: keys, values.
    OtherLayout(bool, bool),
    /// Entries come so much later than they are.
    Offset(i64),
    /// Values are rotated against keys.
    ValuesRotated(i64),
    /// Its own entry is empty.
    OwnEmpty,
    /// Its own entry is that of the one before.
    OwnIsPrevious,
    /// Its own entries alone.
    Own,
    /// The last so many.
    Last(usize),
    /// The first so many, and its own.
    First(usize),
}

impl BlockWiring {
    /// Whether attention itself differs; RoPE and the cache come before it.
    pub(super) fn rewires_attention(&self) -> bool {
        let Self { softmax, mask, heads, rope: _, memory: _, first_row_is_nan: _ } = self;
        (softmax, mask, heads) != (&SoftmaxOver::Keys, &MaskOverHeads::Tiled, &HeadMap::Repeat)
    }
}

impl Clone for Wiring {
    fn clone(&self) -> Self {
        Self::new(self.interventions.clone())
    }
}

impl Wiring {
    /// Only [`super::Decoder::with_faults`] makes one, so that faults of weights cannot be forgotten.
    pub(super) fn new(interventions: Vec<Intervention>) -> Self {
        Self { interventions, ranges: Mutex::default() }
    }

    /// The faults.
    #[must_use]
    pub fn interventions(&self) -> &[Intervention] {
        &self.interventions
    }

    /// Whether a row's result depends only on its own position and the keys it sees, not on which rows share its chunk.
    #[must_use]
    pub fn rows_are_independent(&self) -> bool {
        !self.interventions.iter().any(|intervention| {
            matches!(intervention.fault, Fault::MaskRepeated | Fault::MaskMissing | Fault::MaskOffsetLost)
        })
    }

    /// What positions are shifted by where they are learned rows.
    pub(super) fn shift_of_learned(&self) -> i64 {
        let shifts = self.interventions.iter().filter(|it| it.fault == Fault::PositionShift);
        shifts.map(|it| it.number().unwrap_or(1.0) as i64).sum()
    }

    pub(super) fn block(&self, index: u32, rope: Option<&Rope>) -> BlockWiring {
        let turning = rope.map(|rope| Turning {
            rope: rope.clone(),
            of_steps: None,
            shift_of_steps: 0,
            times: 1.0,
            magnitude: 1.0,
            precision: TablePrecision::Full,
        });
        let mut wiring = BlockWiring {
            softmax: SoftmaxOver::Keys,
            mask: MaskOverHeads::Tiled,
            heads: HeadMap::Repeat,
            rope: RopeWiring { pairs: RopePairs::HalfSplit, copied: (false, false), table: turning },
            memory: Remembered::All,
            first_row_is_nan: false,
        };
        for intervention in self.interventions.iter().filter(|intervention| intervention.acts_in(index)) {
            match intervention.fault {
                Fault::SoftmaxAcrossHeads => wiring.softmax = SoftmaxOver::HeadsAndKeys,
                Fault::MaskRepeated => wiring.mask = MaskOverHeads::Repeated,
                Fault::MaskMissing => wiring.mask = MaskOverHeads::Missing,
                Fault::MaskOffsetLost => wiring.mask = MaskOverHeads::FromFirstKey,
                Fault::GqaTile => wiring.heads = HeadMap::Tile,
                Fault::MaskedRowNan => wiring.first_row_is_nan = true,
                Fault::RopeMissing
                | Fault::RopeSign
                | Fault::RopeInterleaved
                | Fault::RopeTwice
                | Fault::RopeTheta
                | Fault::RopeScalingIgnored
                | Fault::RopeMagnitude
                | Fault::RopeTableTiledTwice
                | Fault::RopeTableLowPrecision
                | Fault::RopeTablesDiffer
                | Fault::PositionShift => wiring.rope.turn_wrongly(intervention),
                Fault::KvLayout
                | Fault::KvOffset
                | Fault::KvRotated
                | Fault::KvStale
                | Fault::KvHistoryLost
                | Fault::KvTruncated => wiring.memory = remembered(intervention),
                // Of weights: `Decoder::with_faults`.
                Fault::ScoreScale
                | Fault::WindowIgnored
                | Fault::WindowOffByOne
                | Fault::WindowWrongLayers
                | Fault::AttentionBiasDropped
                | Fault::MlpBiasDropped
                | Fault::QkNormMissing
                | Fault::NormWeight
                | Fault::LayerSkipped
                | Fault::LayerDuplicated
                | Fault::LayersSwapped
                | Fault::HeadTied
                | Fault::NormEps
                | Fault::ActivationExchanged
                | Fault::HeadMissing
                | Fault::ShardsSwapped
                | Fault::VocabPadded
                | Fault::Int4Group
                | Fault::EmbeddingScale => {}
                // Of tokens: `run_scopes`. Of values: `Faulty`.
                Fault::BosMissing
                | Fault::BosDoubled
                | Fault::ActivationClipped
                | Fault::CalibrationRange
                | Fault::ResidualEightBit
                | Fault::Overflow => {}
            }
        }
        wiring
    }

    /// The same instrument behind the faults of values.
    pub(super) fn before<'a>(&'a self, then: &'a mut dyn Instrument) -> Faulty<'a> {
        Faulty { wiring: self, then }
    }

    fn values(&self, site: Site, part: Part, mut tensor: Tensor) -> Result<Tensor> {
        for intervention in &self.interventions {
            let here = site.block().is_none_or(|block| intervention.acts_in(block));
            let everywhere = intervention.block.is_none() || site.block().is_some();
            if !here || !everywhere {
                continue;
            }
            tensor = match (intervention.fault, intervention.value) {
                (Fault::ActivationClipped, Some(FaultValue::Clip { site: kind, limit }))
                    if kind.name() == site.kind() =>
                {
                    tensor.clamp(-limit, limit)?
                }
                (Fault::CalibrationRange, _) if part == Part::All => {
                    let (min, max) = self.range(site, &tensor)?;
                    let share = intervention.number().unwrap_or(0.25);
                    tensor.clamp(min * share, max * share)?
                }
                (Fault::ResidualEightBit, _) if is_residual(site) => {
                    let (min, max) = self.range(site, &tensor)?;
                    let (min, max) = (min.min(0.0), max.max(0.0));
                    let step = (max - min) / 255.0;
                    if step > 0.0 { ((tensor.clamp(min, max)? / step)?.round()? * step)? } else { tensor }
                }
                (Fault::Overflow, _) => {
                    let limit = intervention.number().unwrap_or(65_504.0);
                    let beyond = tensor.abs()?.gt(limit)?;
                    let infinite = (tensor.sign()? * f64::INFINITY)?;
                    beyond.where_cond(&infinite, &tensor)?
                }
                _ => tensor,
            };
        }
        Ok(tensor)
    }

    fn range(&self, site: Site, tensor: &Tensor) -> Result<(f64, f64)> {
        let mut ranges = self.ranges.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(range) = ranges.get(&site) {
            return Ok(*range);
        }
        let flat = tensor.flatten_all()?.to_dtype(DType::F64)?;
        let range = (flat.min(0)?.to_scalar::<f64>()?, flat.max(0)?.to_scalar::<f64>()?);
        ranges.insert(site, range);
        Ok(range)
    }
}

fn is_residual(site: Site) -> bool {
    matches!(site, Site::Embed | Site::Block(_, BlockSite::ResidMid | BlockSite::ResidSum | BlockSite::ResidPost))
}

/// Faults of values, then another instrument.
pub(super) struct Faulty<'a> {
    wiring: &'a Wiring,
    then: &'a mut dyn Instrument,
}

impl Instrument for Faulty<'_> {
    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let tensor = self.wiring.values(site, part, tensor)?;
        self.then.at(site, part, tensor)
    }

    fn begin(&mut self, scope: Option<Scope>) {
        self.then.begin(scope);
    }

    fn tapped(&self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        self.then.tapped(site, tensor)
    }
}

impl RopeWiring {
    fn turn_wrongly(&mut self, intervention: &Intervention) {
        let Some(turning) = &mut self.table else { return };
        let number = intervention.number();
        let plain = turning.rope.scaling == RopeScaling::None;
        match intervention.fault {
            Fault::RopeMissing => self.table = None,
            Fault::RopeSign => turning.times = -1.0,
            Fault::RopeTwice => turning.times = 2.0,
            Fault::RopeInterleaved => self.pairs = RopePairs::Adjacent,
            Fault::RopeTheta => turning.rope.theta = number.unwrap_or(FALLBACK_THETA),
            Fault::RopeScalingIgnored => turning.rope.scaling = RopeScaling::None,
            Fault::RopeMagnitude => turning.magnitude = number.unwrap_or_else(|| 1.0 / turning.rope.magnitude()),
            Fault::RopeTableTiledTwice => {
                let word = intervention.word();
                self.copied = (word != "keys", word != "queries");
            }
            Fault::RopeTableLowPrecision => {
                turning.precision = match intervention.word() {
                    "bf16_angles" => TablePrecision::AnglesBf16,
                    "bf16_table" => TablePrecision::Bf16,
                    "f16_table" => TablePrecision::F16,
                    "u8_table" => TablePrecision::U8,
                    _ => TablePrecision::FrequenciesBf16,
                };
            }
            Fault::RopeTablesDiffer => {
                let mut rope = turning.rope.clone();
                match number {
                    Some(theta) => rope.theta = theta,
                    None if plain => rope.theta = FALLBACK_THETA,
                    None => rope.scaling = RopeScaling::None,
                }
                turning.of_steps = Some(rope);
            }
            Fault::PositionShift => turning.shift_of_steps = number.unwrap_or(1.0) as i64,
            _ => {}
        }
    }
}

fn remembered(intervention: &Intervention) -> Remembered {
    let number = |default: i64| intervention.number().map_or(default, |number| number as i64);
    match intervention.fault {
        Fault::KvLayout => {
            let word = intervention.word();
            Remembered::OtherLayout(word != "values", word != "keys")
        }
        Fault::KvOffset => Remembered::Offset(number(1)),
        Fault::KvRotated => Remembered::ValuesRotated(number(1)),
        Fault::KvStale if intervention.word() == "previous" => Remembered::OwnIsPrevious,
        Fault::KvStale => Remembered::OwnEmpty,
        Fault::KvHistoryLost => Remembered::Own,
        Fault::KvTruncated => match number(8) {
            last @ 1.. => Remembered::Last(last as usize),
            first => Remembered::First(first.unsigned_abs() as usize),
        },
        _ => Remembered::All,
    }
}
