//! The few operations of a decoder on plain slices.

/// `[rows, out]` = `[rows, in]` x `[out, in]`ᵀ + bias.
pub(super) fn linear(input: &[f32], weight: &[f32], bias: Option<&[f32]>, input_width: usize) -> Vec<f32> {
    let (rows, width) = (input.len() / input_width, weight.len() / input_width);
    let mut output = vec![0.0; rows * width];
    for (out, weights) in weight.chunks_exact(input_width).enumerate() {
        let shift = bias.map_or(0.0, |bias| bias[out]);
        for (row, values) in input.chunks_exact(input_width).enumerate() {
            output[row * width + out] = dot(values, weights) + shift;
        }
    }
    output
}

/// Summed in sixteen lanes.
pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut lanes = [0.0_f32; LANES];
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    for (one, other) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            lanes[lane] += one[lane] * other[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(one, other)| one * other).sum();
    lanes.iter().sum::<f32>() + rest
}

/// RMSNorm of each row (Zhang and Sennrich 2019).
pub(super) fn rms_norm(input: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let normed = input.chunks_exact(weight.len()).flat_map(|row| {
        let factor = 1.0 / (dot(row, row) / row.len() as f32 + epsilon).sqrt();
        row.iter().zip(weight).map(move |(value, weight)| value * factor * weight)
    });
    normed.collect()
}

/// `silu(gate) x up`.
pub(super) fn gated(gate: &[f32], up: &[f32]) -> Vec<f32> {
    gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect()
}

/// In place.
pub(super) fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in &mut *scores {
        *score = (*score - largest).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

pub(super) fn add(residual: &mut [f32], term: &[f32]) {
    residual.iter_mut().zip(term).for_each(|(sum, term)| *sum += term);
}
