//! How alike two arrays of rows are.

use ndarray::{ArrayViewD, Axis};

/// Rows looked at, spread over all: enough to tell a layout from another.
const ROWS: usize = 16;

/// A row of an arranged array, `[prompt, row, …]`, and the reference's row that it should be like.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) prompt: usize,
    pub(crate) row: usize,
    pub(crate) reference: &'a [f32],
}

/// Mean over rows of Pearson correlation, in f64; rows that are not finite, constant or of another width are left out. `None`
/// when none is left.
pub(crate) fn correlation(arranged: &ArrayViewD<'_, f32>, pairs: &[Pair<'_>]) -> Option<f64> {
    let step = pairs.len().div_ceil(ROWS).max(1);
    let spread = pairs.iter().step_by(step);
    let inside = spread.filter(|pair| pair.prompt < arranged.shape()[0] && pair.row < arranged.shape()[1]);
    let defined: Vec<f64> = inside
        .filter_map(|pair| {
            let row = arranged.index_axis(Axis(0), pair.prompt).index_axis_move(Axis(0), pair.row);
            let values: Vec<f32> = row.iter().copied().collect();
            pearson(&values, pair.reference)
        })
        .collect();
    (!defined.is_empty()).then(|| defined.iter().sum::<f64>() / defined.len() as f64)
}

/// Pearson correlation of two rows, `None` where it is not defined.
fn pearson(a: &[f32], b: &[f32]) -> Option<f64> {
    if a.len() != b.len() || a.is_empty() || !a.iter().chain(b).all(|value| value.is_finite()) {
        return None;
    }
    let mean = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut own_a, mut own_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (f64::from(*a) - mean_a, f64::from(*b) - mean_b);
        both += a * b;
        own_a += a * a;
        own_b += b * b;
    }
    (own_a > 0.0 && own_b > 0.0).then(|| both / (own_a * own_b).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{ArrayD, IxDyn};

    fn of(values: &[f32], rows: usize, reference: &[&[f32]]) -> Option<f64> {
        let shape = IxDyn(&[1, rows, values.len() / rows]);
        let array = ArrayD::from_shape_vec(shape, values.to_vec()).expect("as many");
        let pairs: Vec<_> =
            reference.iter().enumerate().map(|(row, reference)| Pair { prompt: 0, row, reference }).collect();
        correlation(&array.view(), &pairs)
    }

    #[test]
    fn correlation_by_hand_and_where_there_is_none() {
        let same = of(&[1., 2., 3., 4.], 2, &[&[1., 2.], &[3., 4.]]).expect("defined");
        assert!((same - 1.0).abs() < 1e-12);
        let turned = of(&[2., 1.], 1, &[&[1., 2.]]).expect("defined");
        assert!((turned + 1.0).abs() < 1e-12);
        let half = of(&[1., 2., 2., 1.], 2, &[&[1., 2.], &[1., 2.]]).expect("defined");
        assert!(half.abs() < 1e-12, "one row of 1, one of -1");
        assert_eq!(of(&[1., 1.], 1, &[&[1., 2.]]), None, "constant");
        assert_eq!(of(&[1., f32::NAN], 1, &[&[1., 2.]]), None, "not finite");
        assert_eq!(of(&[1., 2.], 1, &[&[1., 2., 3.]]), None, "another width");
        assert_eq!(of(&[1., 2.], 1, &[]), None, "other rows");
    }
}
