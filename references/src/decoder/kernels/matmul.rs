//! Matrix products by the `gemm` crate.

#![expect(unsafe_code, reason = "gemm takes pointers; `product` checks every bound before `block` calls it")]

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

    /// Whether the last element lies inside the slice; a matrix without elements has none.
    fn fits(&self) -> bool {
        let reach = |count: usize, stride: usize| count.checked_sub(1).and_then(|steps| steps.checked_mul(stride));
        let last = reach(self.rows, self.row_stride).zip(reach(self.columns, self.column_stride));
        last.and_then(|(rows, columns)| rows.checked_add(columns)).is_some_and(|last| last < self.values.len())
    }
}

/// Writes scale · a·b into zeros, row-major.
pub(super) fn product(into: &mut [f32], a: Matrix<'_>, b: Matrix<'_>, scale: f32) {
    if into.is_empty() || a.columns == 0 {
        return;
    }
    assert!(a.fits() && b.fits() && a.columns == b.rows && into.len() == a.rows * b.columns, "matrices do not fit");
    if a.rows > 1 {
        for start in (0..a.columns).step_by(SUM_BLOCK) {
            block(into, a, b, scale, start, start > 0);
        }
        return;
    }
    // A product of one row would carry the sum of all earlier blocks through every term.
    block(into, a, b, scale, 0, false);
    let mut sums = vec![0.0; if a.columns > SUM_BLOCK { into.len() } else { 0 }];
    for start in (SUM_BLOCK..a.columns).step_by(SUM_BLOCK) {
        block(&mut sums, a, b, scale, start, false);
        into.iter_mut().zip(&sums).for_each(|(value, sum)| *value += sum);
    }
}

/// The terms `start..start + SUM_BLOCK` of [`product`], which checked the bounds, added to `into` or written over it.
fn block(into: &mut [f32], a: Matrix<'_>, b: Matrix<'_>, scale: f32, start: usize, add: bool) {
    let length = SUM_BLOCK.min(a.columns - start);
    // SAFETY: `product` asserted that the last element of either matrix lies inside its slice and that `into` holds
    // rows × columns values; `start + length` does not pass a.columns = b.rows; `into` is borrowed mutably, so it overlaps
    // neither.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            length,
            into.as_mut_ptr(),
            1,
            b.columns as isize,
            add,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (f64::from(state) / f64::from(u32::MAX) - 0.5) as f32
        };
        (0..count).map(|_| next()).collect()
    }

    fn exact(x: &[f32], w: &[f32], (rows, inputs, outputs): (usize, usize, usize)) -> Vec<f64> {
        let value = |index: usize| {
            let (row, column) = (index / outputs, index % outputs);
            (0..inputs).map(|k| f64::from(x[row * inputs + k]) * f64::from(w[k * outputs + column])).sum()
        };
        (0..rows * outputs).map(value).collect()
    }

    fn on(threads: usize, work: impl FnOnce() -> Vec<f32> + Send) -> Vec<f32> {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(work)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn linear_is_the_product_on_any_number_of_threads(rows in 1_usize..200, inputs in 1_usize..300, outputs in 1_usize..70, seed: u32) {
            let (x, w) = (noise(rows * inputs, seed), noise(inputs * outputs, !seed));
            let (left, right) = (tensor(x.clone(), (rows, inputs)).expect("fits"), tensor(w.clone(), (inputs, outputs)).expect("fits"));
            let run = |threads| {
                on(threads, || linear(&left, &right, None).and_then(|y| y.flatten_all()?.to_vec1()).expect("computes"))
            };
            let one = run(1);
            let bound = 1e-6 * (inputs as f64).sqrt();
            for (found, exact) in one.iter().zip(exact(&x, &w, (rows, inputs, outputs))) {
                prop_assert!((f64::from(*found) - exact).abs() <= bound, "{found} is not {exact}");
            }
            for threads in [2, 3, 7] {
                prop_assert!(run(threads) == one, "{threads} threads");
            }
        }

        #[test]
        fn turning_twice_gives_the_matrix_back(rows in 1_usize..70, columns in 1_usize..70, seed: u32) {
            let values = noise(rows * columns, seed);
            let matrix = tensor(values.clone(), (rows, columns)).expect("fits");
            let once = turned(&matrix).expect("turns");
            prop_assert_eq!(once.to_vec2::<f32>().expect("2-D"), matrix.t().and_then(|t| t.to_vec2::<f32>()).expect("2-D"));
            let twice = turned(&once).and_then(|matrix| matrix.flatten_all()?.to_vec1::<f32>());
            prop_assert_eq!(twice.expect("turns"), values);
        }
    }

    #[test]
    fn a_product_without_rows_or_terms_writes_nothing() {
        let empty = Matrix { values: &[], rows: 0, columns: 300, row_stride: 300, column_stride: 1 };
        let other = Matrix { values: &[1.0; 300], rows: 300, columns: 1, row_stride: 1, column_stride: 1 };
        product(&mut [], empty, other, 1.0);
        let no_terms = Matrix { values: &[], rows: 1, columns: 0, row_stride: 0, column_stride: 1 };
        let mut into = [0.0; 2];
        product(&mut into, no_terms, Matrix { values: &[], rows: 0, columns: 2, row_stride: 2, column_stride: 1 }, 1.0);
        assert_eq!(into.map(f32::to_bits), [0, 0]);
    }
}
