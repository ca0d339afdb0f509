//! Quantise and back: the value stays a float32, but one that the grid holds.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

/// Values a task quantises at a time.
const CHUNK: usize = 1 << 14;

/// The uniform grid of an asymmetric per-tensor quantisation: x ≈ (q − zero) · step with q in 0..=levels
/// (Jacob et al. 2018). The zero point is an integer, so that 0 is on the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Distance of neighbours.
    pub step: f32,
    /// The code of 0.
    pub zero: f32,
    /// Highest code, 2^bits − 1.
    pub levels: f32,
}

impl Grid {
    /// The grid of `bits` bits that spans `min..=max` and 0.
    #[must_use]
    pub fn spanning(min: f32, max: f32, bits: u32) -> Self {
        let (min, max) = (min.min(0.0), max.max(0.0));
        let levels = ((1_u64 << bits) - 1) as f32;
        // A tensor that is all zero has no range; any step holds it.
        let step = if max > min { (max - min) / levels } else { 1.0 };
        Self { step, zero: (-min / step).round_ties_even(), levels }
    }

    /// The grid's value nearest to `x`; values outside the range go to its ends, NaN stays NaN.
    #[must_use]
    pub fn nearest(&self, x: f32) -> f32 {
        ((x / self.step).round_ties_even() + self.zero).clamp(0.0, self.levels) * self.step - self.zero * self.step
    }

    /// A tensor of the grid's values.
    ///
    /// # Errors
    /// Out of memory.
    pub fn apply(&self, tensor: &Tensor) -> Result<Tensor> {
        let mut values = tensor.flatten_all()?.to_vec1::<f32>()?;
        values.par_chunks_mut(CHUNK).for_each(|chunk| chunk.iter_mut().for_each(|value| *value = self.nearest(*value)));
        Tensor::from_vec(values, tensor.shape(), tensor.device())
    }
}

/// Symmetric quantisation per output channel: each row w of a matrix `[out, in]` goes to q · max|w| / (2^(bits−1) − 1), q a
/// whole number from −(2^(bits−1) − 1) up.
///
/// # Errors
/// Not a matrix, or out of memory.
pub fn quantise_rows(weight: &Tensor, bits: u32) -> Result<Tensor> {
    let (_, inputs) = weight.dims2()?;
    let levels = ((1_u32 << (bits - 1)) - 1) as f32;
    let mut values = weight.flatten_all()?.to_vec1::<f32>()?;
    values.par_chunks_mut(inputs.max(1)).for_each(|row| {
        let largest = row.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        if largest > 0.0 {
            let step = largest / levels;
            row.iter_mut().for_each(|value| *value = (*value / step).round_ties_even() * step);
        }
    });
    Tensor::from_vec(values, weight.shape(), weight.device())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zero_is_on_every_grid_and_the_ends_clip() {
        let grid = Grid::spanning(-1.0, 3.0, 8);
        assert!(grid.nearest(0.0).abs() < f32::EPSILON);
        assert!((grid.nearest(10.0) - 3.0).abs() < grid.step);
        assert!((grid.nearest(-10.0) + 1.0).abs() < grid.step);
        assert!(grid.nearest(f32::NAN).is_nan());
        assert!(Grid::spanning(0.0, 0.0, 8).nearest(0.0).abs() < f32::EPSILON);
    }

    proptest! {
        #[test]
        fn inside_the_range_the_error_is_at_most_half_a_step(min in -100.0_f32..0.0, width in 0.1_f32..200.0, at in 0.0_f32..1.0, wide in any::<bool>()) {
            let grid = Grid::spanning(min, min + width, if wide { 16 } else { 8 });
            let x = min + at * width;
            // One more step: the range's ends move by up to half a step when the zero point is rounded to a whole number.
            prop_assert!((grid.nearest(x) - x).abs() <= grid.step * 1.01 + x.abs() * 1e-6);
            prop_assert!((grid.nearest(grid.nearest(x)) - grid.nearest(x)).abs() <= grid.step * 1e-2);
        }

        #[test]
        fn rows_keep_their_largest_value_and_their_error_is_half_a_step(row in prop::collection::vec(-2.0_f32..2.0, 1..40), four in any::<bool>()) {
            let bits = if four { 4 } else { 8 };
            let weight = Tensor::from_vec(row.clone(), (1, row.len()), &Device::Cpu).expect("fits");
            let quantised = quantise_rows(&weight, bits).and_then(|q| q.flatten_all()?.to_vec1::<f32>()).expect("fits");
            let largest = row.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let step = largest / ((1_u32 << (bits - 1)) - 1) as f32;
            for (before, after) in row.iter().zip(&quantised) {
                prop_assert!((before - after).abs() <= step * 0.5 + largest * 1e-6);
            }
        }
    }
}
