//! Rotary position embedding (Su et al. 2021).

use candle_core::{DType, Device, Result, Tensor};

use super::wiring::RopePairs;
use crate::Architecture;

/// cos and sin of one chunk's positions, `[position, 1, head_dim / 2]`.
pub(super) struct Rope {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// In float32, the angles are products of float32 numbers, as in transformers; in float64 they are exact to float64.
    pub(super) fn new(architecture: &Architecture, positions: &[u32], dtype: DType) -> Result<Self> {
        let pairs = architecture.head_dim / 2;
        let angles = positions.iter().flat_map(|position| {
            (0..pairs).map(move |pair| {
                let exponent = (2 * pair) as f64 / architecture.head_dim as f64;
                if dtype == DType::F64 {
                    return f64::from(*position) / architecture.rope_theta.powf(exponent);
                }
                let power = architecture.rope_theta.powf(f64::from(exponent as f32)) as f32;
                f64::from(*position as f32 * (1.0 / power))
            })
        });
        let angles = Tensor::from_iter(angles, &Device::Cpu)?.reshape((positions.len(), 1, pairs))?;
        Ok(Self { cos: angles.cos()?.to_dtype(dtype)?, sin: angles.sin()?.to_dtype(dtype)? })
    }

    /// Rotates `x` `[position, head, head_dim]`.
    pub(super) fn apply(&self, x: &Tensor, pairs: RopePairs) -> Result<Tensor> {
        let (positions, heads, head_dim) = x.dims3()?;
        let half = head_dim / 2;
        let rotated = |a: &Tensor, b: &Tensor| -> Result<(Tensor, Tensor)> {
            let first = (a.broadcast_mul(&self.cos)? - b.broadcast_mul(&self.sin)?)?;
            let second = (b.broadcast_mul(&self.cos)? + a.broadcast_mul(&self.sin)?)?;
            Ok((first, second))
        };
        match pairs {
            RopePairs::HalfSplit => {
                let (first, second) = rotated(&x.narrow(2, 0, half)?, &x.narrow(2, half, half)?)?;
                Tensor::cat(&[first, second], 2)
            }
            RopePairs::Adjacent => {
                let x = x.reshape((positions, heads, half, 2))?;
                let side = |index| x.narrow(3, index, 1)?.squeeze(3);
                let (first, second) = rotated(&side(0)?, &side(1)?)?;
                Tensor::stack(&[first, second], 3)?.reshape((positions, heads, head_dim))
            }
        }
    }
}
