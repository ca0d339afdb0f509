//! Row-wise operations with their own gradient. Candle's fused forms have none, and composed from plain operations they
//! cost most of the training time.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp3, Layout, Result, Shape, Tensor};

/// A function of one row of the last axis, and its gradient. `row` counts rows from the start of the tensor.
trait RowWise: Send + Sync + 'static {
    const NAME: &'static str;

    fn forward(&self, row: usize, x: &[f32], y: &mut [f32]);

    /// Writes the gradient of `x` given the gradient `dy` of `y = forward(x)`.
    fn backward(&self, row: usize, at: Point<'_>, dx: &mut [f32]);
}

/// Where a gradient is taken.
struct Point<'a> {
    x: &'a [f32],
    y: &'a [f32],
    dy: &'a [f32],
}

/// `x / sqrt(mean(x²) + epsilon)`: RMSNorm without its weight.
pub(crate) fn normalise(x: &Tensor, epsilon: f32) -> Result<Tensor> {
    apply(x, Normalise { epsilon })
}

/// Rotary embedding in the half-split pairing, on `[batch, head, position, head_dim]`.
pub(crate) fn rotate(x: &Tensor, theta: f64) -> Result<Tensor> {
    let (_, _, positions, width) = x.dims4()?;
    let half = width / 2;
    let angle = |at: usize| {
        let (position, pair) = (at / half, at % half);
        // transformers takes the frequency and the angle in f32.
        position as f32 * (theta.powf(2.0 * pair as f64 / width as f64) as f32).recip()
    };
    let turns = (0..positions * half).map(angle).map(|angle| (angle.cos(), angle.sin())).collect();
    apply(x, Rotate { turns, half })
}

/// Softmax of `scale · x` over the last axis of `[…, position, key]`, each position seeing keys up to itself. More than
/// one block of positions may follow each other in a matrix.
pub(crate) fn causal_softmax(x: &Tensor, scale: f32) -> Result<Tensor> {
    apply(x, CausalSoftmax { scale })
}

/// `x · sigmoid(x)`.
pub(crate) fn silu(x: &Tensor) -> Result<Tensor> {
    apply(x, Silu)
}

/// Logarithm of the softmax over the last axis.
pub(crate) fn log_softmax(x: &Tensor) -> Result<Tensor> {
    apply(x, LogSoftmax)
}

struct Normalise {
    epsilon: f32,
}

impl RowWise for Normalise {
    const NAME: &'static str = "normalise";

    fn forward(&self, _row: usize, x: &[f32], y: &mut [f32]) {
        let scale = (dot(x, x) / x.len() as f32 + self.epsilon).sqrt().recip();
        for (y, x) in y.iter_mut().zip(x) {
            *y = x * scale;
        }
    }

    fn backward(&self, _row: usize, at: Point<'_>, dx: &mut [f32]) {
        let scale = (dot(at.x, at.x) / at.x.len() as f32 + self.epsilon).sqrt().recip();
        let along = dot(at.dy, at.y) / at.y.len() as f32;
        for ((dx, dy), y) in dx.iter_mut().zip(at.dy).zip(at.y) {
            *dx = scale * (dy - y * along);
        }
    }
}

struct Rotate {
    /// Cosine and sine, `[position, pair]`.
    turns: Arc<[(f32, f32)]>,
    half: usize,
}

impl Rotate {
    fn turn(&self, row: usize, sign: f32, from: &[f32], to: &mut [f32]) {
        let start = row * self.half % self.turns.len();
        for (pair, (cos, sin)) in self.turns[start..start + self.half].iter().enumerate() {
            let (first, second) = (from[pair], from[pair + self.half]);
            to[pair] = first * cos - sign * second * sin;
            to[pair + self.half] = second * cos + sign * first * sin;
        }
    }
}

impl RowWise for Rotate {
    const NAME: &'static str = "rotate";

    fn forward(&self, row: usize, x: &[f32], y: &mut [f32]) {
        self.turn(row, 1.0, x, y);
    }

    fn backward(&self, row: usize, at: Point<'_>, dx: &mut [f32]) {
        self.turn(row, -1.0, at.dy, dx);
    }
}

struct CausalSoftmax {
    scale: f32,
}

impl RowWise for CausalSoftmax {
    const NAME: &'static str = "causal-softmax";

    fn forward(&self, row: usize, x: &[f32], y: &mut [f32]) {
        let seen = row % x.len() + 1;
        let largest = x[..seen].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for (y, x) in y[..seen].iter_mut().zip(x) {
            *y = ((x - largest) * self.scale).exp();
            total += *y;
        }
        for y in &mut y[..seen] {
            *y /= total;
        }
    }

    fn backward(&self, row: usize, at: Point<'_>, dx: &mut [f32]) {
        let seen = row % at.y.len() + 1;
        let along = dot(&at.dy[..seen], &at.y[..seen]);
        for ((dx, dy), y) in dx[..seen].iter_mut().zip(at.dy).zip(at.y) {
            *dx = self.scale * y * (dy - along);
        }
    }
}

struct Silu;

impl RowWise for Silu {
    const NAME: &'static str = "silu";

    fn forward(&self, _row: usize, x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = x / (1.0 + (-x).exp());
        }
    }

    fn backward(&self, _row: usize, at: Point<'_>, dx: &mut [f32]) {
        for (((dx, dy), x), y) in dx.iter_mut().zip(at.dy).zip(at.x).zip(at.y) {
            let sigmoid = (1.0 + (-x).exp()).recip();
            *dx = dy * (sigmoid + y * (1.0 - sigmoid));
        }
    }
}

struct LogSoftmax;

impl RowWise for LogSoftmax {
    const NAME: &'static str = "log-softmax";

    fn forward(&self, _row: usize, x: &[f32], y: &mut [f32]) {
        let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = x.iter().map(|x| (x - largest).exp()).sum();
        let shift = largest + total.ln();
        for (y, x) in y.iter_mut().zip(x) {
            *y = x - shift;
        }
    }

    fn backward(&self, _row: usize, at: Point<'_>, dx: &mut [f32]) {
        let total: f32 = at.dy.iter().sum();
        for ((dx, dy), y) in dx.iter_mut().zip(at.dy).zip(at.y) {
            *dx = dy - y.exp() * total;
        }
    }
}

/// In eight running sums, which the compiler turns into vector instructions.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (left, right) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(l, r)| l * r).sum();
    for (left, right) in left.zip(right) {
        for lane in 0..8 {
            sums[lane] += left[lane] * right[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

fn apply<T: RowWise>(x: &Tensor, function: T) -> Result<Tensor> {
    x.contiguous()?.apply_op1(Forward(Arc::new(function)))
}

struct Forward<T>(Arc<T>);

struct Backward<T>(Arc<T>);

impl<T: RowWise> CustomOp1 for Forward<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = values(storage, layout)?;
        let width = row_width(layout)?;
        let mut y = vec![0.0; x.len()];
        for (row, (x, y)) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).enumerate() {
            self.0.forward(row, x, y);
        }
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, arg: &Tensor, res: &Tensor, grad_res: &Tensor) -> Result<Option<Tensor>> {
        let gradient = grad_res.contiguous()?;
        arg.apply_op3_no_bwd(res, &gradient, &Backward(Arc::clone(&self.0))).map(Some)
    }
}

impl<T: RowWise> CustomOp3 for Backward<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
        dy: &CpuStorage,
        dy_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, y, dy) = (values(x, x_layout)?, values(y, y_layout)?, values(dy, dy_layout)?);
        let width = row_width(x_layout)?;
        let mut dx = vec![0.0; x.len()];
        let rows = x.chunks_exact(width).zip(y.chunks_exact(width)).zip(dy.chunks_exact(width));
        for (row, (((x, y), dy), dx)) in rows.zip(dx.chunks_exact_mut(width)).enumerate() {
            self.0.backward(row, Point { x, y, dy }, dx);
        }
        Ok((CpuStorage::F32(dx), x_layout.shape().clone()))
    }
}

fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => candle_core::bail!("a row-wise operation needs a contiguous tensor, not {layout:?}"),
    }
}

fn row_width(layout: &Layout) -> Result<usize> {
    match layout.dims().last() {
        Some(&width) if width > 0 => Ok(width),
        _ => candle_core::bail!("a row-wise operation needs rows, not {layout:?}"),
    }
}

#[cfg(test)]
mod tests;
