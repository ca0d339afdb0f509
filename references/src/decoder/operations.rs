//! The operations of a decoder. In float32 they run on the kernels, in float64 plain and obvious.

use std::sync::Arc;

use candle_core::{D, DType, Result, Tensor};

use super::kernels;
use crate::Activation;

/// Values of a weight that are widened to float64 at a time: 128 MiB of them.
const WIDENED_AT_ONCE: usize = 1 << 24;

/// y = x·Wᵀ + b with W `[out, in]`.
#[derive(Clone)]
pub(super) struct Linear {
    weight: Arc<kernels::Packed>,
    bias: Option<Tensor>,
}

impl Linear {
    /// `weight` is `[out, in]`.
    pub(super) fn new(weight: &Tensor, bias: Option<Tensor>) -> Result<Self> {
        Ok(Self { weight: Arc::new(kernels::Packed::new(weight)?), bias })
    }

    /// Rows of W, `[row, in]`.
    pub(super) fn rows(&self, outputs: &[u32]) -> Result<Tensor> {
        self.weight.rows(outputs)
    }

    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let [y] = Self::together([self], x)?;
        Ok(y)
    }

    /// What several make of the same input.
    pub(super) fn together<const N: usize>(linears: [&Self; N], x: &Tensor) -> Result<[Tensor; N]> {
        let y = match x.dtype() {
            DType::F32 => kernels::products(x, &linears.map(|linear| (&*linear.weight, linear.bias.as_ref())))?,
            _ => linears.iter().map(|linear| linear.apply_plain(x)).collect::<Result<_>>()?,
        };
        Ok(y.try_into().expect("as many as there are linears"))
    }

    fn apply_plain(&self, x: &Tensor) -> Result<Tensor> {
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        let part = |start: usize, length: usize| {
            let weight = self.weight.turned(start, length, x.dtype())?;
            x.narrow(1, start, length)?.contiguous()?.matmul(&weight)
        };
        let length = (WIDENED_AT_ONCE / outputs).clamp(1, inputs);
        let first = part(0, length)?;
        let y = (length..inputs)
            .step_by(length)
            .try_fold(first, |sum, start| sum + part(start, length.min(inputs - start))?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(&bias.to_dtype(x.dtype())?),
            None => Ok(y),
        }
    }
}

/// A norm over the last axis.
#[derive(Clone)]
pub(super) enum Norm {
    Rms { weight: Tensor, eps: f64 },
    Layer { weight: Tensor, bias: Tensor, eps: f64 },
}

impl Norm {
    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        if x.dtype() == DType::F32 {
            return match self {
                Self::Rms { weight, eps } => kernels::rms_norm(x, weight, *eps),
                Self::Layer { weight, bias, eps } => kernels::layer_norm(x, weight, bias, *eps),
            };
        }
        let scaled = |x: &Tensor, weight: &Tensor, eps: f64| {
            let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
            x.broadcast_div(&(mean_square + eps)?.sqrt()?)?.broadcast_mul(&weight.to_dtype(x.dtype())?)
        };
        match self {
            Self::Rms { weight, eps } => scaled(x, weight, *eps),
            Self::Layer { weight, bias, eps } => {
                let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
                scaled(&centred, weight, *eps)?.broadcast_add(&bias.to_dtype(x.dtype())?)
            }
        }
    }
}

impl Activation {
    pub(super) fn apply(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Silu if x.dtype() == DType::F32 => kernels::silu(x),
            Self::Silu => x.silu(),
            Self::GeluErf => x.gelu_erf(),
            Self::GeluTanh => x.gelu(),
            // silu(1.702 x) / 1.702
            Self::GeluQuick => (x * 1.702)?.silu()? / 1.702,
            Self::Relu => x.relu(),
        }
    }

    /// activation(gate) · up
    pub(super) fn gated(self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        match self {
            Self::Silu if gate.dtype() == DType::F32 => kernels::gated_silu(gate, up),
            _ => self.apply(gate)? * up,
        }
    }
}

/// a + b
pub(super) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dtype() == DType::F32 { kernels::add(a, b) } else { a + b }
}

/// Softmax over the last axis, the row's maximum subtracted first.
pub(super) fn softmax(scores: &Tensor) -> Result<Tensor> {
    let shifted = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)
}
