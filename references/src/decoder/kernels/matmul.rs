//! Products of two activations, by the `gemm` crate.

#![expect(unsafe_code, reason = "gemm takes pointers; `product` checks every bound before `block` calls it")]

use super::tile::SUM_BLOCK;

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
    /// Rows of a matrix whose columns are neighbours.
    #[inline(always)]
    pub(super) fn each_row(self) -> impl Iterator<Item = &'a [f32]> {
        self.values.chunks(self.row_stride.max(1)).take(self.rows).map(move |row| &row[..self.columns])
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
    for start in (0..a.columns).step_by(SUM_BLOCK) {
        block(into, a, b, scale, start, start > 0);
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

#[cfg(test)]
mod tests {
    use super::*;

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
