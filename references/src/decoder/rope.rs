//! Rotary position embedding (Su et al. 2021) and its variants for longer sequences.
//!
//! In float32, frequencies and angles are rounded step by step as transformers rounds them, since angles at far positions
//! carry that rounding; in float64 nothing is rounded.

use std::rc::Rc;

use candle_core::{DType, Device, Result, Tensor};
use half::bf16;

use super::{
    Feed, kernels,
    wiring::{RopePairs, Rotation, TablePrecision, Turning},
};
use crate::{Rope, RopeScaling};

/// cos and sin of the positions of all chunks, `[position, 1, rotated dimensions / 2]`.
pub(super) struct RopeTable {
    cos: Tensor,
    sin: Tensor,
    dims: usize,
}

/// The tables of one forward pass, one for each way in which its blocks rotate.
pub(super) struct RopeTables<'a> {
    rope: Option<&'a Rope>,
    chunks: Vec<RotatedChunk<'a>>,
    dtype: DType,
    /// With how many rows of the table a position has.
    made: Vec<(Turning, usize, Rc<RopeTable>)>,
}

/// Positions of a chunk, and whether it comes after others in a cache.
#[derive(Clone, Copy)]
struct RotatedChunk<'a> {
    positions: &'a [u32],
    /// Of a chunk after others in a cache, how many tokens the first of them had.
    prompt: Option<u32>,
}

impl<'a> RopeTables<'a> {
    pub(super) fn new(rope: Option<&'a Rope>, feeds: &[Feed<'a>], dtype: DType) -> Self {
        let chunks =
            feeds.iter().map(|feed| RotatedChunk { positions: feed.chunk.positions, prompt: feed.after_prompt_of() });
        Self { rope, chunks: chunks.collect(), dtype, made: Vec::new() }
    }

    /// The embedding as the checkpoint has it.
    pub(super) fn rope(&self) -> Option<&'a Rope> {
        self.rope
    }

    /// The table for `heads` heads, if anything is rotated.
    pub(super) fn table(&mut self, rotation: &Rotation, heads: usize) -> Result<Option<Rc<RopeTable>>> {
        let Some(turning) = &rotation.table else { return Ok(None) };
        let rows = if rotation.row_by_row { heads } else { 1 };
        if let Some((_, _, table)) = self.made.iter().find(|(made, by, _)| made == turning && *by == rows) {
            return Ok(Some(table.clone()));
        }
        let table = Rc::new(RopeTable::new(turning, &self.chunks, rows, self.dtype)?);
        self.made.push((turning.clone(), rows, table.clone()));
        Ok(Some(table))
    }
}

impl RopeTable {
    /// Under dynamic RoPE each chunk has its own frequencies. A table with `rows` rows a position that is read as if it had one
    /// gives row r the angles of position r / rows.
    fn new(turning: &Turning, chunks: &[RotatedChunk<'_>], rows: usize, dtype: DType) -> Result<Self> {
        let single = dtype != DType::F64;
        let dims = turning.rope.dims;
        let angles = chunks.iter().flat_map(|chunk| {
            let rope = turning.of_steps.as_ref().filter(|_| chunk.prompt.is_some()).unwrap_or(&turning.rope);
            let mut frequencies = frequencies(rope, chunk.positions, single);
            if turning.precision == TablePrecision::FrequenciesBf16 {
                frequencies.iter_mut().for_each(|frequency| *frequency = bf16::from_f64(*frequency).to_f64());
            }
            let angle = move |row: usize| {
                let position = chunk.positions[row / rows];
                let place = chunk.prompt.map_or(i64::from(position), |prompt| turning.steps_at.place(position, prompt));
                let position = place as f64;
                let angle = |frequency: &f64| turning.times * turning.angle(round(position * frequency, single));
                frequencies.iter().map(angle).collect::<Vec<_>>()
            };
            (0..chunk.positions.len()).flat_map(angle)
        });
        let angles = Tensor::from_iter(angles, &Device::Cpu)?.reshape(((), 1, dims / 2))?;
        let magnitude = (turning.rope.magnitude() * turning.magnitude).powf(turning.times.abs());
        // cos and sin are rounded before they are scaled, as in transformers.
        let table = |values: Tensor| turning.rounded(&values)?.to_dtype(dtype)? * magnitude;
        Ok(Self { cos: table(angles.cos()?)?, sin: table(angles.sin()?)?, dims })
    }

    /// Rotates the leading dimensions of `x` `[position, head, head_dim]`.
    pub(super) fn apply(&self, x: &Tensor, rotation: &Rotation) -> Result<Tensor> {
        let Rotation { pairs, copied, .. } = *rotation;
        let head_dim = x.dim(2)?;
        if self.dims == head_dim {
            return self.rotate(x, pairs, copied);
        }
        let rotated = self.rotate(&x.narrow(2, 0, self.dims)?, pairs, copied)?;
        Tensor::cat(&[rotated, x.narrow(2, self.dims, head_dim - self.dims)?], 2)
    }

    fn rotate(&self, x: &Tensor, pairs: RopePairs, copied: bool) -> Result<Tensor> {
        let (positions, heads, dims) = x.dims3()?;
        let half = dims / 2;
        if copied {
            // Entry j of a row of all heads is entry j / heads of the row that is copied over them.
            let entries = (0..heads * dims).map(|entry| ((entry / heads) % half) as u32);
            let entries = Tensor::from_iter(entries, &Device::Cpu)?;
            let wide = |table: &Tensor| table.squeeze(1)?.index_select(&entries, 1)?.reshape((positions, heads, dims));
            let turned = Tensor::cat(&[x.narrow(2, half, half)?.neg()?, x.narrow(2, 0, half)?], 2)?;
            return (x * wide(&self.cos)?)? + (turned * wide(&self.sin)?)?;
        }
        let rotated = |a: &Tensor, b: &Tensor| -> Result<(Tensor, Tensor)> {
            let first = (a.broadcast_mul(&self.cos)? - b.broadcast_mul(&self.sin)?)?;
            let second = (b.broadcast_mul(&self.cos)? + a.broadcast_mul(&self.sin)?)?;
            Ok((first, second))
        };
        match pairs {
            RopePairs::HalfSplit if x.dtype() == DType::F32 => kernels::rotate(x, &self.cos, &self.sin),
            RopePairs::HalfSplit => {
                let (first, second) = rotated(&x.narrow(2, 0, half)?, &x.narrow(2, half, half)?)?;
                Tensor::cat(&[first, second], 2)
            }
            RopePairs::Adjacent => {
                let x = x.contiguous()?.reshape((positions, heads, half, 2))?;
                let side = |index| x.narrow(3, index, 1)?.squeeze(3);
                let (first, second) = rotated(&side(0)?, &side(1)?)?;
                Tensor::stack(&[first, second], 3)?.reshape((positions, heads, dims))
            }
        }
    }
}

impl Turning {
    fn angle(&self, angle: f64) -> f64 {
        if self.precision == TablePrecision::AnglesBf16 { bf16::from_f64(angle).to_f64() } else { angle }
    }

    /// cos or sin in the precision of the table.
    fn rounded(&self, values: &Tensor) -> Result<Tensor> {
        match self.precision {
            TablePrecision::Full | TablePrecision::FrequenciesBf16 | TablePrecision::AnglesBf16 => Ok(values.clone()),
            TablePrecision::Bf16 => values.to_dtype(DType::BF16)?.to_dtype(values.dtype()),
            TablePrecision::F16 => values.to_dtype(DType::F16)?.to_dtype(values.dtype()),
            TablePrecision::U8 => (values * 127.5)?.round()? / 127.5,
        }
    }
}

impl Rope {
    /// Angle per position of each pair of dimensions, radians, as in float32; under dynamic scaling those of a sequence that is
    /// no longer than the checkpoint was made for.
    #[must_use]
    pub fn frequencies(&self) -> Vec<f64> {
        frequencies(self, &[], true)
    }

    /// What cos and sin are multiplied by.
    #[must_use]
    pub fn magnitude(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn { attention_factor, .. } => attention_factor,
            _ => 1.0,
        }
    }
}

fn round(value: f64, single: bool) -> f64 {
    if single { f64::from(value as f32) } else { value }
}

/// Angle per position of each pair of dimensions, radians.
fn frequencies(rope: &Rope, positions: &[u32], single: bool) -> Vec<f64> {
    let round = |value| round(value, single);
    let dims = rope.dims as f64;
    let theta = match rope.scaling {
        RopeScaling::Dynamic { factor, max_positions } => dynamic_theta(rope, factor, max_positions, positions),
        _ => rope.theta,
    };
    let powers = (0..rope.dims / 2).map(|pair| round(theta.powf(round(2.0 * pair as f64 / dims))));
    match rope.scaling {
        RopeScaling::None | RopeScaling::Dynamic { .. } => powers.map(|power| round(1.0 / power)).collect(),
        RopeScaling::Linear { factor } => powers.map(|power| round(round(1.0 / power) / factor)).collect(),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original } => powers
            .map(|power| round(1.0 / power))
            .map(|kept| {
                let wavelength = std::f64::consts::TAU / kept;
                // 1 keeps the frequency, 0 divides it by the factor.
                let smooth = (original as f64 / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                let smooth = round(smooth.clamp(0.0, 1.0));
                round((1.0 - smooth) * kept / factor + smooth * kept)
            })
            .collect(),
        RopeScaling::Yarn { factor, beta_fast, beta_slow, original, truncate, .. } => {
            let (low, high) = yarn_range(rope, beta_fast, beta_slow, original, truncate);
            powers
                .enumerate()
                .map(|(pair, power)| {
                    let divided = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    round(round(1.0 / (factor * power)) * divided + round(1.0 / power) * (1.0 - divided))
                })
                .collect()
        }
    }
}

/// The base for a sequence as long as the chunk reaches. Keys already in the cache keep their old angle, as in transformers.
fn dynamic_theta(rope: &Rope, factor: f64, max_positions: usize, positions: &[u32]) -> f64 {
    let length = positions.iter().max().map_or(0, |last| *last as usize + 1).max(max_positions);
    let dims = rope.dims as f64;
    let growth = factor * length as f64 / max_positions as f64 - (factor - 1.0);
    rope.theta * growth.powf(dims / (dims - 2.0))
}

/// The pairs between which YaRN blends: those that turn `beta_fast` and `beta_slow` times in the original length.
fn yarn_range(rope: &Rope, beta_fast: f64, beta_slow: f64, original: usize, truncate: bool) -> (f64, f64) {
    let dims = rope.dims as f64;
    let pair =
        |rotations: f64| dims * (original as f64 / (rotations * std::f64::consts::TAU)).ln() / (2.0 * rope.theta.ln());
    let (low, high) = (pair(beta_fast), pair(beta_slow));
    let (low, high) = if truncate { (low.floor(), high.ceil()) } else { (low, high) };
    let (low, high) = (low.max(0.0), high.min(dims - 1.0));
    // Equal ends would divide by zero.
    if (high - low).abs() < f64::EPSILON { (low, high + 0.001) } else { (low, high) }
}
