//! The optimiser: Muon for the matrices inside the layers, AdamW for the embedding and the norms.
//!
//! Muon moves a matrix by the same amount in every direction, so the rare ones, which copying a name needs, are not
//! left behind.

use candle_core::backprop::GradStore;
use candle_core::{D, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer as _, ParamsAdamW};

/// AdamW's learning rate after warm-up.
pub(crate) const ADAM_RATE: f64 = 0.003;

/// Muon's: the spectral norm of one update of a square matrix.
pub(crate) const MUON_RATE: f64 = 0.02;

const WEIGHT_DECAY: f64 = 0.01;
const MOMENTUM: f64 = 0.95;

pub(crate) struct Optimiser {
    matrices: Vec<Matrix>,
    others: AdamW,
}

struct Matrix {
    weights: Var,
    momentum: Tensor,
}

impl Optimiser {
    /// For all `variables`, under their Hugging Face names.
    pub(crate) fn new(variables: &[(String, Var)]) -> Result<Self> {
        let in_layer = |(name, variable): &&(String, Var)| name.contains(".layers.") && variable.rank() == 2;
        let matrix = |(_, weights): &(String, Var)| -> Result<Matrix> {
            Ok(Matrix { weights: weights.clone(), momentum: weights.zeros_like()? })
        };
        let matrices = variables.iter().filter(in_layer).map(matrix).collect::<Result<_>>()?;
        let others = variables.iter().filter(|variable| !in_layer(variable)).map(|(_, other)| other.clone()).collect();
        let settings = ParamsAdamW { beta2: 0.98, weight_decay: WEIGHT_DECAY, ..ParamsAdamW::default() };
        Ok(Self { matrices, others: AdamW::new(others, settings)? })
    }

    /// One update; `share` is the part of the full learning rates to use.
    pub(crate) fn step(&mut self, gradients: &GradStore, share: f64) -> Result<()> {
        self.others.set_learning_rate(ADAM_RATE * share);
        self.others.step(gradients)?;
        for matrix in &mut self.matrices {
            if let Some(gradient) = gradients.get(&matrix.weights) {
                matrix.step(gradient, MUON_RATE * share)?;
            }
        }
        Ok(())
    }
}

impl Matrix {
    fn step(&mut self, gradient: &Tensor, rate: f64) -> Result<()> {
        self.momentum = ((&self.momentum * MOMENTUM)? + (gradient * (1.0 - MOMENTUM))?)?.detach();
        let ahead = ((&self.momentum * MOMENTUM)? + (gradient * (1.0 - MOMENTUM))?)?;
        let (rows, columns) = ahead.dims2()?;
        let size = (rows as f64 / columns as f64).max(1.0).sqrt();
        let kept = (self.weights.as_tensor() * (1.0 - rate * WEIGHT_DECAY))?;
        self.weights.set(&(kept - (orthogonal(&ahead)? * (rate * size))?)?)
    }
}

/// About the nearest matrix with all singular values 1: the quintic Newton–Schulz iteration of Jordan et al., "Muon: An
/// optimizer for hidden layers in neural networks" (2024).
fn orthogonal(matrix: &Tensor) -> Result<Tensor> {
    let (rows, columns) = matrix.dims2()?;
    let wide = if rows > columns { matrix.t()?.contiguous()? } else { matrix.contiguous()? };
    let norm = wide.sqr()?.sum_all()?.sqrt()?;
    let mut x = wide.broadcast_div(&(norm + 1e-7)?)?;
    for _ in 0..5 {
        let square = x.matmul(&x.t()?)?;
        let polynomial = ((&square * -4.775)? + (square.matmul(&square)? * 2.0315)?)?;
        x = ((&x * 3.4445)? + polynomial.matmul(&x)?)?;
    }
    if rows > columns { x.transpose(D::Minus1, D::Minus2)?.contiguous() } else { Ok(x) }
}
