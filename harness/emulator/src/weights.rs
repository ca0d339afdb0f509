//! Quantised weights.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use crate::{
    WeightGrid,
    values::{shaped, with_values},
};

/// 1.5 · 2²³, as in [`crate::Grid`].
const ROUNDING: f32 = 12_582_912.0;

/// Symmetric quantisation of a matrix `[out, in]`: the weights of an output channel, or of each `group` inputs of it, go to
/// q · max|w| / (2^(bits−1) − 1) with whole q.
///
/// # Errors
/// Not a matrix, or out of memory.
pub fn quantise_rows(weight: &Tensor, grid: WeightGrid) -> Result<Tensor> {
    let (_, inputs) = weight.dims2()?;
    let levels = ((1_u32 << (grid.bits - 1)) - 1) as f32;
    let group = grid.group.unwrap_or(inputs).max(1);
    with_values(weight, |values| {
        let mut quantised = vec![0.0; values.len()];
        let rows = quantised.par_chunks_mut(inputs.max(1)).zip(values.par_chunks(inputs.max(1)));
        rows.for_each(|(into, row)| {
            for (into, group) in into.chunks_mut(group).zip(row.chunks(group)) {
                let largest = group.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
                // All zero, or so small that float32 has no inverse of the step.
                let step = (largest / levels).max(f32::MIN_POSITIVE);
                let inverse = 1.0 / step;
                into.iter_mut().zip(group).for_each(|(into, w)| *into = ((w * inverse + ROUNDING) - ROUNDING) * step);
            }
        });
        shaped(quantised, weight)
    })
}

/// Whether more than 90 % of a kernel are zeros, which decides whether it is worth 4 bits.
pub(crate) fn is_sparse(weight: &Tensor) -> Result<bool> {
    with_values(weight, |values| {
        let zeros = values.par_iter().filter(|value| value.abs() <= 0.0).count();
        Ok(zeros * 10 > values.len() * 9)
    })
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use proptest::prelude::*;

    use super::*;

    fn quantised(row: &[f32], bits: u32, group: Option<usize>) -> Vec<f32> {
        let weight = Tensor::from_vec(row.to_vec(), (1, row.len()), &Device::Cpu).expect("fits");
        let quantised = quantise_rows(&weight, WeightGrid { bits, group });
        quantised.and_then(|q| q.flatten_all()?.to_vec1::<f32>()).expect("fits")
    }

    #[test]
    fn a_group_has_its_own_step() {
        let row = [0.01, -0.007, 7.0, 3.1];
        assert_eq!(quantised(&row, 4, None)[..2], [0.0, 0.0]);
        let grouped = quantised(&row, 4, Some(2));
        assert!((grouped[1] + 0.007_142_857).abs() < 1e-6 && (grouped[3] - 3.0).abs() < 1e-6, "{grouped:?}");
        assert_eq!(quantised(&[0.0, 1e-44], 8, None).len(), 2);
    }

    #[test]
    fn only_kernels_that_are_nearly_all_zero_are_sparse() {
        let tensor = |zeros: usize| {
            let values: Vec<f32> = (0..20).map(|index| if index < zeros { 0.0 } else { 1.0 }).collect();
            Tensor::from_vec(values, (4, 5), &Device::Cpu).expect("fits")
        };
        assert!(is_sparse(&tensor(19)).expect("counts") && !is_sparse(&tensor(18)).expect("counts"));
    }

    proptest! {
        #[test]
        fn rows_keep_their_largest_value_and_their_error_is_half_a_step(row in prop::collection::vec(-2.0_f32..2.0, 1..40), bits in prop::sample::select(vec![4_u32, 8, 16])) {
            let largest = row.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let step = largest / ((1_u32 << (bits - 1)) - 1) as f32;
            for (before, after) in row.iter().zip(&quantised(&row, bits, None)) {
                prop_assert!((before - after).abs() <= step * 0.5 + largest * 1e-6);
            }
        }
    }
}
