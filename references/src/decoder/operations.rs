//! The operations of a decoder, plain and obvious, in the dtype of their input.

use candle_core::{D, DType, Result, Tensor};

/// Terms of a dot product that are summed in one go.
const SUM_BLOCK: usize = 128;

/// y = x·Wᵀ + b with W `[out, in]`.
pub(super) struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    pub(super) fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self { weight, bias }
    }

    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.product(x)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }

    /// x·Wᵀ. In float32, terms are summed in blocks of [`SUM_BLOCK`] and the blocks' sums added, which keeps the error of long
    /// sums small (Higham 1993): on SmolLM2-135M it halves the worst row's distance from float64.
    fn product(&self, x: &Tensor) -> Result<Tensor> {
        let inputs = x.dim(1)?;
        if x.dtype() == DType::F64 || inputs <= SUM_BLOCK {
            return x.matmul(&self.weight.t()?);
        }
        let part = |start: usize| {
            let length = SUM_BLOCK.min(inputs - start);
            x.narrow(1, start, length)?.contiguous()?.matmul(&self.weight.narrow(1, start, length)?.t()?)
        };
        (SUM_BLOCK..inputs).step_by(SUM_BLOCK).try_fold(part(0)?, |sum, start| sum + part(start)?)
    }

    pub(super) fn to_dtype(&self, dtype: DType) -> Result<Self> {
        let bias = self.bias.as_ref().map(|bias| bias.to_dtype(dtype)).transpose()?;
        Ok(Self { weight: self.weight.to_dtype(dtype)?, bias })
    }
}

/// RMSNorm: x / √(mean(x²) + ε) · w (Zhang & Sennrich 2019), ε inside the root.
pub(super) struct Norm {
    weight: Tensor,
    eps: f64,
}

impl Norm {
    pub(super) fn new(weight: Tensor, eps: f64) -> Self {
        Self { weight, eps }
    }

    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
        x.broadcast_div(&(mean_square + self.eps)?.sqrt()?)?.broadcast_mul(&self.weight)
    }

    pub(super) fn to_dtype(&self, dtype: DType) -> Result<Self> {
        Ok(Self { weight: self.weight.to_dtype(dtype)?, eps: self.eps })
    }
}

/// silu(gate) · up (Shazeer 2020).
pub(super) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.silu()? * up
}

/// Softmax over the last axis, the row's maximum subtracted first.
pub(super) fn softmax(scores: &Tensor) -> Result<Tensor> {
    let shifted = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)
}
