//! The grid of an activation: quantise and back, so that the value stays a float32, but one that the grid holds.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use crate::values::{TASK, shaped, with_values};

/// Values compared side by side, so that the compiler can use vectors.
const LANES: usize = 16;

/// 1.5 · 2²³: what is added to it is rounded to a whole number, halves to even, for |x| below 2²².
const ROUNDING: f32 = 12_582_912.0;

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
    inverse: f32,
}

impl Grid {
    /// The grid of `bits` bits (at most 16) that spans `min..=max` and 0.
    #[must_use]
    pub fn spanning(min: f32, max: f32, bits: u32) -> Self {
        let (min, max) = (f64::from(min.min(0.0)), f64::from(max.max(0.0)));
        let levels = ((1_u64 << bits) - 1) as f32;
        // A tensor that is all zero has no range; any step holds it. A step that float32 cannot divide by has no inverse.
        let step = if max > min { ((max - min) / f64::from(levels)) as f32 } else { 1.0 };
        let step = step.max(f32::MIN_POSITIVE);
        let zero = (-min / f64::from(step)).round_ties_even() as f32;
        Self { step, zero, levels, inverse: 1.0 / step }
    }

    /// The grid's value nearest to `x`; values outside the range go to its ends, NaN stays NaN.
    #[must_use]
    pub fn nearest(&self, x: f32) -> f32 {
        let code = (x * self.inverse).clamp(-self.zero, self.levels - self.zero);
        ((code + ROUNDING) - ROUNDING) * self.step
    }

    /// A tensor of the grid's values.
    ///
    /// # Errors
    /// Out of memory.
    pub fn apply(&self, tensor: &Tensor) -> Result<Tensor> {
        self.apply_within(tensor, f32::NEG_INFINITY, f32::INFINITY).map(|(tensor, _)| tensor)
    }

    /// A tensor of the grid's values, and how many values of the given one lie outside `min..=max`, in one pass.
    ///
    /// # Errors
    /// Out of memory.
    pub fn apply_within(&self, tensor: &Tensor, min: f32, max: f32) -> Result<(Tensor, Beyond)> {
        with_values(tensor, |values| {
            let mut quantised = vec![0.0; values.len()];
            let beyond = if values.len() <= TASK {
                self.fill(values, &mut quantised, min, max)
            } else {
                let tasks = values.par_chunks(TASK).zip(quantised.par_chunks_mut(TASK));
                let each = tasks.map(|(values, quantised)| self.fill(values, quantised, min, max));
                each.reduce(Beyond::default, Beyond::with)
            };
            Ok((shaped(quantised, tensor)?, beyond))
        })
    }

    fn fill(&self, values: &[f32], quantised: &mut [f32], min: f32, max: f32) -> Beyond {
        let (lanes, rest) = values.as_chunks::<LANES>();
        let (into_lanes, into_rest) = quantised.as_chunks_mut::<LANES>();
        let (mut lowest, mut highest) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        for (values, into) in lanes.iter().zip(into_lanes) {
            for lane in 0..LANES {
                into[lane] = self.nearest(values[lane]);
                lowest[lane] = if values[lane] < lowest[lane] { values[lane] } else { lowest[lane] };
                highest[lane] = if values[lane] > highest[lane] { values[lane] } else { highest[lane] };
            }
        }
        for (value, into) in rest.iter().zip(into_rest) {
            *into = self.nearest(*value);
            lowest[0] = lowest[0].min(*value);
            highest[0] = highest[0].max(*value);
        }
        let (lowest, highest) = (lowest.into_iter().fold(0.0, f32::min), highest.into_iter().fold(0.0, f32::max));
        let outside = match lowest < min || highest > max {
            true => values.iter().filter(|value| **value < min || **value > max).count(),
            false => 0,
        };
        Beyond { values: values.len() as u64, outside: outside as u64, lowest, highest }
    }
}

/// What was seen of values against a range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beyond {
    /// How many values.
    pub values: u64,
    /// How many of them outside.
    pub outside: u64,
    /// The lowest, at most 0.
    pub lowest: f32,
    /// The highest, at least 0.
    pub highest: f32,
}

impl Beyond {
    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            values: self.values + other.values,
            outside: self.outside + other.outside,
            lowest: self.lowest.min(other.lowest),
            highest: self.highest.max(other.highest),
        }
    }
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
        assert!((grid.nearest(f32::INFINITY) - 3.0).abs() < grid.step);
        assert!(grid.nearest(f32::NAN).is_nan());
        assert!(Grid::spanning(0.0, 0.0, 8).nearest(0.0).abs() < f32::EPSILON);
    }

    #[test]
    fn ranges_at_the_ends_of_float32_have_a_grid() {
        for (min, max) in [(-3e38, 3e38), (0.0, 1e-44), (-1e-44, 1e-44)] {
            let grid = Grid::spanning(min, max, 16);
            assert!(grid.nearest(max).is_finite() && grid.nearest(0.0).abs() < f32::EPSILON, "{grid:?}");
        }
    }

    #[test]
    fn halves_go_to_even_as_in_ieee_754() {
        let grid = Grid::spanning(-32768.0, 32767.0, 16);
        for x in [0.5_f32, 1.5, 2.5, -0.5, -1.5, 100.5, 32766.5, -32767.5] {
            assert!((grid.nearest(x) - x.round_ties_even()).abs() < f32::EPSILON, "{x} → {}", grid.nearest(x));
        }
    }

    #[test]
    fn values_outside_are_counted_however_many_there_are() {
        let mut values: Vec<f32> = (0..3 * TASK + 5).map(|index| (index % 7) as f32 - 3.0).collect();
        values[TASK + 1] = 40.0;
        values[3 * TASK + 4] = -9.0;
        let tensor = Tensor::from_vec(values.clone(), values.len(), &Device::Cpu).expect("fits");
        let (quantised, beyond) = Grid::spanning(-3.0, 3.0, 16).apply_within(&tensor, -3.0, 3.0).expect("fits");
        assert_eq!((beyond.values, beyond.outside), (values.len() as u64, 2));
        assert!((beyond.lowest + 9.0).abs() < f32::EPSILON && (beyond.highest - 40.0).abs() < f32::EPSILON);
        let clipped = quantised.to_vec1::<f32>().expect("a vector");
        assert!((clipped[TASK + 1] - 3.0).abs() < 1e-3 && (clipped[3] - values[3]).abs() < 1e-3);
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
    }
}
