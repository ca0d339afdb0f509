//! Matrix products by the `gemm` crate.

#![expect(unsafe_code, reason = "gemm takes pointers; `product` checks every bound before it calls it")]

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::{Values, fill_rows, tensor};

/// Terms of a dot product that are summed in one go; the sums of blocks are then added, which keeps the error of long sums
/// small (Higham 1993).
const SUM_BLOCK: usize = 128;

/// Rows that keep a core busy; with fewer, the cores share output channels instead.
const ROWS_A_TASK: usize = 64;

/// Output channels of a task are a multiple of a cache line.
const LINE: usize = 16;

/// A matrix inside a slice.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> Matrix<'a> {
    fn row_major(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    fn fits(&self) -> bool {
        let last = self.rows.saturating_sub(1) * self.row_stride + self.columns.saturating_sub(1) * self.column_stride;
        self.rows == 0 || self.columns == 0 || last < self.values.len()
    }
}

/// Writes scale · a·b into zeros, row-major.
pub(super) fn product(into: &mut [f32], a: Matrix<'_>, b: Matrix<'_>, scale: f32) {
    assert!(a.fits() && b.fits() && a.columns == b.rows && into.len() == a.rows * b.columns, "matrices do not fit");
    for start in (0..a.columns).step_by(SUM_BLOCK) {
        let length = SUM_BLOCK.min(a.columns - start);
        // SAFETY: the last element either matrix reaches lies inside its slice and `into` holds rows × columns values, as
        // asserted; `into` is borrowed mutably, so it overlaps neither.
        unsafe {
            gemm::gemm(
                a.rows,
                b.columns,
                length,
                into.as_mut_ptr(),
                1,
                b.columns as isize,
                start > 0,
                a.values.as_ptr().add(start * a.column_stride),
                a.column_stride as isize,
                a.row_stride as isize,
                b.values.as_ptr().add(start * b.row_stride),
                b.column_stride as isize,
                b.row_stride as isize,
                1.0,
                scale,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

/// x·W + b with x `[row, in]` and W `[in, out]`.
pub(in super::super) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let ((rows, inputs), (_, outputs)) = (x.dims2()?, weight.dims2()?);
    let (x, weight) = (x.contiguous()?, Values::of(weight)?);
    let x = Values::of(&x)?;
    let mut y = vec![0.0; rows * outputs];
    let cores = rayon::current_num_threads();
    if rows >= ROWS_A_TASK * cores {
        let rows_a_task = rows.div_ceil(cores);
        y.par_chunks_mut(rows_a_task * outputs).zip(x.par_chunks(rows_a_task * inputs)).for_each(|(y, x)| {
            let rows = x.len() / inputs;
            product(y, Matrix::row_major(x, rows, inputs), Matrix::row_major(&weight, inputs, outputs), 1.0);
        });
    } else {
        let width = outputs.div_ceil(cores).next_multiple_of(LINE);
        let starts: Vec<usize> = (0..outputs).step_by(width).collect();
        let panel = |start: &usize| {
            let columns = width.min(outputs - start);
            let part =
                Matrix { values: &weight[*start..], rows: inputs, columns, row_stride: outputs, column_stride: 1 };
            let mut y = vec![0.0; rows * columns];
            product(&mut y, Matrix::row_major(&x, rows, inputs), part, 1.0);
            y
        };
        let panels: Vec<Vec<f32>> = starts.par_iter().map(panel).collect();
        for (start, panel) in starts.iter().zip(&panels) {
            let columns = width.min(outputs - start);
            for (to, from) in y.chunks_exact_mut(outputs).zip(panel.chunks_exact(columns)) {
                to[*start..start + columns].copy_from_slice(from);
            }
        }
    }
    if let Some(bias) = bias {
        let bias = Values::of(bias)?;
        fill_rows(outputs, &mut y, |_, row| row.iter_mut().zip(&*bias).for_each(|(value, bias)| *value += bias));
    }
    tensor(y, (rows, outputs))
}

/// The transpose of a matrix, in memory.
pub(in super::super) fn turned(matrix: &Tensor) -> Result<Tensor> {
    let (rows, columns) = matrix.dims2()?;
    let matrix = matrix.contiguous()?;
    let from = Values::of(&matrix)?;
    let mut to = vec![0.0; rows * columns];
    // Tiles, so that both sides stay in the cache.
    to.par_chunks_mut(LINE * rows.max(1)).enumerate().for_each(|(task, to)| {
        for tile in (0..rows).step_by(LINE) {
            for row in tile..rows.min(tile + LINE) {
                for (index, to) in to.chunks_exact_mut(rows).enumerate() {
                    to[row] = from[row * columns + task * LINE + index];
                }
            }
        }
    });
    tensor(to, (columns, rows))
}
