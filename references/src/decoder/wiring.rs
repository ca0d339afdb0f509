//! How injected faults change the wiring of a block, and the values that pass through it.

use std::{collections::BTreeMap, sync::Mutex};

use candle_core::{DType, Result, Tensor};
use fidelity_trace::{BlockSite, Fault, FaultValue, Intervention, Scope, Site};

use super::{Chunk, Instrument, Part};
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
    /// Of keys and of values.
    pub(super) heads: [HeadMap; 2],
    pub(super) q_rotation: Rotation,
    pub(super) k_rotation: Rotation,
    pub(super) memory: Remembered,
    pub(super) first_row_is_nan: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoftmaxOver {
    Keys,
    HeadsAndKeys,
    Heads,
}

/// How a mask of one head `[T, S]` becomes one of all heads `[head, T, S]`, seen as rows: tiled ABAB or repeated AABB; or
/// what else becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskOverHeads {
    Tiled,
    Repeated,
    /// Along a row of the keys of all heads, entry j is that of key j / heads.
    KeysRepeated,
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

/// How a block rotates queries, or keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rotation {
    pub(super) pairs: RopePairs,
    /// The table is copied entry by entry over the heads.
    pub(super) copied: bool,
    /// The table, one row a head, is read as one row a position.
    pub(super) row_by_row: bool,
    /// `None` where nothing is rotated.
    pub(super) table: Option<Turning>,
}

/// What a table of cos and sin is made of, apart from positions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turning {
    pub(super) rope: Rope,
    /// Of chunks after a cache, where they have another.
    pub(super) of_steps: Option<Rope>,
    /// What becomes of positions of chunks after a cache.
    pub(super) steps_at: StepsAt,
    /// How often, and in which direction.
    pub(super) times: f64,
    /// What cos and sin are multiplied by, beyond the scaling's own.
    pub(super) magnitude: f64,
    pub(super) precision: TablePrecision,
}

/// Where steps stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepsAt {
    Shifted(i64),
    /// They count from 0 again.
    Zero,
    /// All are where the first is.
    TheFirst,
}

impl StepsAt {
    fn by(intervention: &Intervention) -> Self {
        match intervention.word() {
            "reset" => Self::Zero,
            "frozen" => Self::TheFirst,
            "uniform" => Self::Shifted(0),
            _ => Self::Shifted(intervention.number().unwrap_or(1.0) as i64),
        }
    }

    /// Where a step stands whose prompt had `prompt` tokens.
    pub(super) fn place(self, position: u32, prompt: u32) -> i64 {
        match self {
            Self::Shifted(by) => i64::from(position) + by,
            Self::Zero => i64::from(position) - i64::from(prompt),
            Self::TheFirst => i64::from(prompt),
        }
    }
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
    /// Entries before its own are written token by token and read in another order: of keys, of values.
    OtherLayout {
        keys: bool,
        values: bool,
        /// Read channel by channel, else head by head.
        by_channel: bool,
        /// As if there were so many entries; 0 for as many as there are, -1 for the prompt's alone.
        entries: i64,
    },
    /// Other entries than the right ones.
    Other(OtherEntries),
}

/// Which entries stand in the places of those that should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherEntries {
    /// Where the next entry is written is off, once after the prompt or before every step.
    WrittenOff { by: i64, every: bool },
    /// Seen are the entries before those that should be.
    SeenEarlier(i64),
    /// Values are rotated against keys.
    ValuesRotated(i64),
    /// Its own entry is empty.
    OwnEmpty,
    /// Its own entry is that of the one before.
    OwnIsPrevious,
    /// The entry before its own is empty.
    PreviousEmpty,
    /// The entries of all steps before are empty.
    StepsEmpty,
    /// Its own entries alone.
    Own,
    /// Those of steps alone.
    Steps,
    /// All but its own are empty.
    OthersEmpty,
    /// The last so many.
    Last(usize),
    /// The first so many, and its own.
    First(usize),
}

impl OtherEntries {
    /// Which entries are read as keys, and as values, `None` for an empty one. There are `entries`, the first `prompt` of them
    /// the prompt's and the last `own` those of the chunk.
    pub(super) fn read(self, prompt: usize, entries: usize, own: usize) -> [Vec<Option<usize>>; 2] {
        let history = entries - own;
        let some = |range: std::ops::Range<usize>| range.map(Some).collect::<Vec<_>>();
        let empty = |count: usize| vec![None; count];
        let mine = some(history..entries);
        let keys = match self {
            Self::WrittenOff { by, every } => written_off(prompt, entries, by, every),
            Self::SeenEarlier(by) => {
                let by = usize::try_from(by).unwrap_or(0).min(history);
                [empty(by), some(0..history - by), mine].concat()
            }
            Self::ValuesRotated(by) => {
                let turned = |entry: usize| (entry as i64 - by).rem_euclid(entries as i64) as usize;
                return [some(0..entries), (0..entries).map(|entry| Some(turned(entry))).collect()];
            }
            Self::OwnEmpty => [some(0..history), empty(own)].concat(),
            Self::OwnIsPrevious => [some(0..history), vec![Some(history.saturating_sub(1)); own]].concat(),
            Self::PreviousEmpty => [some(0..history.saturating_sub(1)), empty(1), mine].concat(),
            Self::StepsEmpty => [some(0..prompt), empty(history.saturating_sub(prompt)), mine].concat(),
            Self::Own => mine,
            Self::Steps => some(prompt.min(history)..entries),
            Self::OthersEmpty => [empty(history), mine].concat(),
            Self::Last(count) => some(entries - count.max(own).min(entries)..entries),
            Self::First(count) => [some(0..count.min(history)), mine].concat(),
        };
        [keys.clone(), keys]
    }
}

/// What the last `entries` places hold when the place of the next entry is off by `by`.
fn written_off(prompt: usize, entries: usize, by: i64, every: bool) -> Vec<Option<usize>> {
    let mut memory: BTreeMap<i64, usize> = (0..prompt).map(|entry| (entry as i64, entry)).collect();
    let mut next = prompt as i64;
    for entry in prompt..entries {
        // Where it is off before every step, the first still goes where it should.
        if every != (entry == prompt) {
            next += by;
        }
        memory.insert(next, entry);
        next += 1;
    }
    (next - entries as i64..next).map(|place| memory.get(&place).copied()).collect()
}

impl BlockWiring {
    /// Whether attention itself differs; RoPE and the cache come before it.
    pub(super) fn rewires_attention(&self) -> bool {
        let Self { softmax, mask, heads, q_rotation: _, k_rotation: _, memory: _, first_row_is_nan: _ } = self;
        (softmax, mask, heads) != (&SoftmaxOver::Keys, &MaskOverHeads::Tiled, &[HeadMap::Repeat; 2])
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
            matches!(
                intervention.fault,
                Fault::MaskRepeated | Fault::MaskMissing | Fault::MaskOffsetLost | Fault::RopeTableTiledTwice
            )
        })
    }

    /// Where a token stands whose position is a learned row; `prompt` is how many tokens the prompt had, of a step.
    pub(super) fn learned_place(&self, position: u32, prompt: Option<u32>) -> i64 {
        let shift = self.interventions.iter().find(|it| it.fault == Fault::PositionShift);
        match (shift.map(|it| (it.value, StepsAt::by(it))), prompt) {
            (Some((Some(FaultValue::Named(_, by)), _)), _) => i64::from(position) + by,
            (Some((_, steps)), Some(prompt)) => steps.place(position, prompt),
            _ => i64::from(position),
        }
    }

    pub(super) fn block(&self, index: u32, rope: Option<&Rope>) -> BlockWiring {
        let turning = rope.map(|rope| Turning {
            rope: rope.clone(),
            of_steps: None,
            steps_at: StepsAt::Shifted(0),
            times: 1.0,
            magnitude: 1.0,
            precision: TablePrecision::Full,
        });
        let rotation = Rotation { pairs: RopePairs::HalfSplit, copied: false, row_by_row: false, table: turning };
        let mut wiring = BlockWiring {
            softmax: SoftmaxOver::Keys,
            mask: MaskOverHeads::Tiled,
            heads: [HeadMap::Repeat; 2],
            q_rotation: rotation.clone(),
            k_rotation: rotation,
            memory: Remembered::All,
            first_row_is_nan: false,
        };
        for intervention in self.interventions.iter().filter(|intervention| intervention.acts_in(index)) {
            match intervention.fault {
                Fault::SoftmaxAcrossHeads if intervention.word() == "each_key" => wiring.softmax = SoftmaxOver::Heads,
                Fault::SoftmaxAcrossHeads => wiring.softmax = SoftmaxOver::HeadsAndKeys,
                Fault::MaskRepeated if intervention.word() == "keys" => wiring.mask = MaskOverHeads::KeysRepeated,
                Fault::MaskRepeated => wiring.mask = MaskOverHeads::Repeated,
                Fault::MaskMissing => wiring.mask = MaskOverHeads::Missing,
                Fault::MaskOffsetLost => wiring.mask = MaskOverHeads::FromFirstKey,
                Fault::GqaTile => {
                    let word = intervention.word();
                    let map = |other: &str| if word == other { HeadMap::Repeat } else { HeadMap::Tile };
                    wiring.heads = [map("values"), map("keys")];
                }
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
                | Fault::PositionShift => {
                    let word = intervention.word();
                    if word != "keys" {
                        wiring.q_rotation.turn_wrongly(intervention);
                    }
                    if word != "queries" {
                        wiring.k_rotation.turn_wrongly(intervention);
                    }
                }
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

    fn feeding(&mut self, chunks: &[Chunk<'_>]) {
        self.then.feeding(chunks);
    }

    fn tapped(&self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        self.then.tapped(site, tensor)
    }
}

impl Rotation {
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
            Fault::RopeScalingIgnored => {
                let magnitude = turning.rope.magnitude();
                match (intervention.word(), turning.rope.scaling.factor()) {
                    ("as_linear", Some(factor)) => turning.rope.scaling = RopeScaling::Linear { factor },
                    (word, _) => {
                        turning.rope.scaling = RopeScaling::None;
                        if word == "magnitude_kept" {
                            turning.magnitude = magnitude;
                        }
                    }
                }
            }
            Fault::RopeMagnitude => turning.magnitude = number.unwrap_or_else(|| 1.0 / turning.rope.magnitude()),
            Fault::RopeTableTiledTwice => {
                self.row_by_row = intervention.word() == "rows";
                self.copied = !self.row_by_row;
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
            Fault::PositionShift => turning.steps_at = StepsAt::by(intervention),
            _ => {}
        }
    }
}

fn remembered(intervention: &Intervention) -> Remembered {
    let word = intervention.word();
    let number = match intervention.value {
        Some(FaultValue::Named(_, number)) => Some(number),
        _ => intervention.number().map(|number| number as i64),
    };
    Remembered::Other(match intervention.fault {
        Fault::KvLayout => {
            return Remembered::OtherLayout {
                keys: !word.starts_with("values"),
                values: !word.starts_with("keys"),
                by_channel: word.ends_with("by_channel"),
                entries: number.unwrap_or(0),
            };
        }
        Fault::KvOffset => OtherEntries::WrittenOff { by: number.unwrap_or(1), every: word == "every" },
        Fault::KvRotated if word == "ring" => OtherEntries::SeenEarlier(number.unwrap_or(1)),
        Fault::KvRotated => OtherEntries::ValuesRotated(number.unwrap_or(1)),
        Fault::KvStale => match word {
            "previous" => OtherEntries::OwnIsPrevious,
            "lag" => OtherEntries::PreviousEmpty,
            "steps_lost" => OtherEntries::StepsEmpty,
            _ => OtherEntries::OwnEmpty,
        },
        Fault::KvHistoryLost => match word {
            "prompt" => OtherEntries::Steps,
            "zeros" => OtherEntries::OthersEmpty,
            _ => OtherEntries::Own,
        },
        Fault::KvTruncated => match number.unwrap_or(8) {
            last @ 1.. => OtherEntries::Last(last as usize),
            first => OtherEntries::First(first.unsigned_abs() as usize),
        },
        _ => return Remembered::All,
    })
}
