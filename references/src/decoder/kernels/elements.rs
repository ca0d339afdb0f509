//! Norms, activations, sums and rotations, row by row.

use candle_core::{D, Result, Tensor};
use pulp::Arch;

use super::{Values, exponential::exponential, fill_rows, tensor};

/// Σ of f(value) in float64. Eight partial sums: a single one would wait for itself.
fn sum(row: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let (eights, rest) = row.as_chunks::<8>();
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, value)| *sum += f(f64::from(*value)));
    }
    sums.iter().sum::<f64>() + rest.iter().map(|value| f(f64::from(*value))).sum::<f64>()
}

/// Rows of `x` through `f`, which fills the second slice from the first.
fn by_row(x: &Tensor, f: impl Fn(&[f32], &mut [f32]) + Sync) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    let contiguous = x.contiguous()?;
    let values = Values::of(&contiguous)?;
    let mut y = vec![0.0; values.len()];
    fill_rows(width, &mut y, |index, row| f(&values[index * width..(index + 1) * width], row));
    tensor(y, x.shape())
}

/// Values of `a` and `b`, of one shape, through `f`.
fn zipped(a: &Tensor, b: &Tensor, f: impl Fn(f32, f32) -> f32 + Sync) -> Result<Tensor> {
    let width = b.dim(D::Minus1)?;
    let arch = Arch::new();
    let other = b.contiguous()?;
    let other = Values::of(&other)?;
    let contiguous = a.contiguous()?;
    let values = Values::of(&contiguous)?;
    let mut y = vec![0.0; values.len()];
    assert_eq!(values.len(), other.len(), "tensors of one shape");
    fill_rows(width, &mut y, |index, row| {
        let range = index * width..(index + 1) * width;
        let (a, b) = (&values[range.clone()], &other[range]);
        arch.dispatch(
            #[inline(always)]
            || row.iter_mut().zip(a).zip(b).for_each(|((y, a), b)| *y = f(*a, *b)),
        );
    });
    tensor(y, a.shape())
}

pub(in super::super) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zipped(a, b, |a, b| a + b)
}

/// x · sigmoid(x)
#[inline(always)]
fn sigmoid_weighted(x: f32) -> f32 {
    x / (1.0 + exponential(-x))
}

pub(in super::super) fn silu(x: &Tensor) -> Result<Tensor> {
    let arch = Arch::new();
    by_row(x, |x, y| {
        arch.dispatch(
            #[inline(always)]
            || y.iter_mut().zip(x).for_each(|(y, x)| *y = sigmoid_weighted(*x)),
        );
    })
}

/// silu(gate) · up
pub(in super::super) fn gated_silu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    zipped(gate, up, |gate, up| sigmoid_weighted(gate) * up)
}

/// Mean square in float64; what is divided by it is rounded once.
pub(in super::super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let weight = Values::of(weight)?;
    by_row(x, |x, y| {
        let mean_square = sum(x, |value| value * value) / x.len() as f64;
        let scale = 1.0 / (mean_square + eps).sqrt();
        for ((y, x), weight) in y.iter_mut().zip(x).zip(&*weight) {
            *y = (f64::from(*x) * scale) as f32 * weight;
        }
    })
}

pub(in super::super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    let (weight, bias) = (Values::of(weight)?, Values::of(bias)?);
    by_row(x, |x, y| {
        let mean = sum(x, |value| value) / x.len() as f64;
        let variance = sum(x, |value| (value - mean) * (value - mean)) / x.len() as f64;
        let scale = 1.0 / (variance + eps).sqrt();
        for (((y, x), weight), bias) in y.iter_mut().zip(x).zip(&*weight).zip(&*bias) {
            *y = ((f64::from(*x) - mean) * scale) as f32 * weight + bias;
        }
    })
}

/// Rotates pairs (i, i + d/2) of `x` `[row, head, d]` by cos and sin `[row, 1, d/2]`.
pub(in super::super) fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let (_, heads, dims) = x.dims3()?;
    let half = dims / 2;
    let (cos, sin) = (Values::of(cos)?, Values::of(sin)?);
    let contiguous = x.contiguous()?;
    let values = Values::of(&contiguous)?;
    let mut y = vec![0.0; values.len()];
    fill_rows(dims, &mut y, |index, y| {
        let (a, b) = values[index * dims..(index + 1) * dims].split_at(half);
        let angles = index / heads * half..(index / heads + 1) * half;
        let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
        let (first, second) = y.split_at_mut(half);
        for pair in 0..half {
            first[pair] = a[pair] * cos[pair] - b[pair] * sin[pair];
            second[pair] = b[pair] * cos[pair] + a[pair] * sin[pair];
        }
    });
    tensor(y, x.shape())
}
