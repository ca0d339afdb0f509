//! What two rows of any site have in common, in one pass.

/// The metrics of one row; absent where not defined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowMetrics {
    /// r·d / (‖r‖ ‖d‖). Absent when ‖r‖ = 0; 0 when only ‖d‖ = 0.
    pub cosine: Option<f64>,
    /// Cosine of the two rows about their means. Absent when r is constant; 0 when only d is.
    pub pearson: Option<f64>,
    /// ‖d − r‖ / ‖r‖. Absent when only ‖r‖ = 0; 0 when both are.
    pub relative_l2: Option<f64>,
    /// ‖d − r‖² / ‖r − mean(r)‖². Absent when r is constant.
    pub nmse: Option<f64>,
    /// 10 log₁₀(‖r‖² / ‖d − r‖²), dB. Absent when ‖r‖ = 0, and when the rows are equal (infinite).
    pub sqnr_db: Option<f64>,
    /// max |d − r|.
    pub max_abs: f64,
    /// ‖d‖ / ‖r‖. Absent when ‖r‖ = 0.
    pub norm_ratio: Option<f64>,
    /// Every value of d equals that of r.
    pub exact: bool,
    /// d is one constant and r is not.
    pub constant: bool,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// The reference holds a NaN or an infinity: nothing to compare with.
    ReferenceNotFinite,
    /// The arm holds a NaN or an infinity.
    DeviceNotFinite,
    /// Both are finite.
    Finite(RowMetrics),
}

/// Measures a row of the arm against the reference's; both of the same length, at least 1.
#[must_use]
pub fn measure(reference: &[f32], device: &[f32]) -> Measured {
    let sums = Sums::over(reference, device);
    // Squares of finite f32 cannot overflow f64, so these sums are finite exactly when every value is.
    if !sums.reference_energy.is_finite() {
        Measured::ReferenceNotFinite
    } else if !sums.device_energy.is_finite() {
        Measured::DeviceNotFinite
    } else {
        Measured::Finite(sums.metrics())
    }
}

/// Cosine of two finite rows less `centre`; absent when the reference's row is the centre, 0 when only the arm's is.
///
/// No other mean is taken off: one offset in every value of the arm's row is an error like any other.
pub(crate) fn centred_cosine(reference: &[f32], device: &[f32], centre: &[f64]) -> Option<f64> {
    let (mut product, mut reference_energy, mut device_energy, mut error) = (0.0, 0.0, 0.0, 0.0);
    for ((r, d), c) in reference.iter().zip(device).zip(centre) {
        let (r, d) = (f64::from(*r) - c, f64::from(*d) - c);
        product += r * d;
        reference_energy += r * r;
        device_energy += d * d;
        error += (d - r).abs();
    }
    let norms = reference_energy.sqrt() * device_energy.sqrt();
    (reference_energy > 0.0).then(|| match norms > 0.0 {
        _ if error <= 0.0 => 1.0,
        true => (product / norms).clamp(-1.0, 1.0),
        false => 0.0,
    })
}

/// The mean of the finite rows; all 0 when there are none.
pub(crate) fn mean_row<'a>(rows: impl Iterator<Item = &'a [f32]>, width: usize) -> Vec<f64> {
    let (mut sum, mut count) = (vec![0.0; width], 0.0);
    for row in rows.filter(|row| row.iter().all(|value| value.is_finite())) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
        count += 1.0;
    }
    sum.iter_mut().for_each(|sum| *sum /= f64::max(count, 1.0));
    sum
}

/// ‖row‖₂.
pub(crate) fn norm(row: &[f32]) -> f64 {
    row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// Everything one pass adds up.
///
/// The moments about the mean are running ones (Welford 1962; for the product, Chan, Golub & LeVeque 1983), of the values
/// less the first of their row: the shift takes away a large common offset, the running mean an outlier in first place.
#[derive(Default)]
struct Sums {
    /// ‖r‖².
    reference_energy: f64,
    /// ‖d‖².
    device_energy: f64,
    /// r·d.
    product: f64,
    /// ‖d − r‖².
    error_energy: f64,
    /// max |d − r|.
    max_abs: f64,
    /// ‖r − mean(r)‖².
    reference_variation: f64,
    /// ‖d − mean(d)‖².
    device_variation: f64,
    /// (r − mean(r))·(d − mean(d)).
    covariation: f64,
}

impl Sums {
    fn over(reference: &[f32], device: &[f32]) -> Self {
        let first = |row: &[f32]| row.first().copied().map_or(0.0, f64::from);
        let (shift_r, shift_d) = (first(reference), first(device));
        let (mut count, mut mean_r, mut mean_d) = (0.0, 0.0, 0.0);
        let mut sums = Self::default();
        for (r, d) in reference.iter().zip(device) {
            let (r, d) = (f64::from(*r), f64::from(*d));
            sums.reference_energy += r * r;
            sums.device_energy += d * d;
            sums.product += r * d;
            sums.error_energy += (d - r) * (d - r);
            sums.max_abs = sums.max_abs.max((d - r).abs());
            count += 1.0;
            let (before_r, before_d) = (r - shift_r - mean_r, d - shift_d - mean_d);
            mean_r += before_r / count;
            mean_d += before_d / count;
            let (after_r, after_d) = (r - shift_r - mean_r, d - shift_d - mean_d);
            sums.reference_variation += before_r * after_r;
            sums.device_variation += before_d * after_d;
            sums.covariation += before_r * after_d;
        }
        sums
    }

    fn metrics(&self) -> RowMetrics {
        // The difference of two f32 is 0 in f64 only if they are equal, and its square does not underflow: a variation is
        // a sum of such squares and 0 only for a constant row.
        let exact = self.max_abs <= 0.0;
        let reference_varies = self.reference_variation > 0.0;
        let device_varies = self.device_variation > 0.0;
        let reference_norm = Some(self.reference_energy.sqrt()).filter(|norm| *norm > 0.0);
        let error_norm = self.error_energy.sqrt();
        RowMetrics {
            cosine: reference_norm.map(|norm| if exact { 1.0 } else { self.cosine(norm) }),
            pearson: reference_varies.then(|| match (exact, device_varies) {
                (true, _) => 1.0,
                (false, true) => self.pearson(),
                (false, false) => 0.0,
            }),
            relative_l2: if exact { Some(0.0) } else { reference_norm.map(|norm| error_norm / norm) },
            nmse: reference_varies.then(|| self.error_energy / self.reference_variation),
            sqnr_db: reference_norm.filter(|_| !exact).map(|norm| 20.0 * (norm / error_norm).log10()),
            max_abs: self.max_abs,
            norm_ratio: reference_norm.map(|norm| self.device_energy.sqrt() / norm),
            exact,
            constant: reference_varies && !device_varies,
        }
    }

    fn cosine(&self, reference_norm: f64) -> f64 {
        let device_norm = self.device_energy.sqrt();
        if device_norm > 0.0 { (self.product / (reference_norm * device_norm)).clamp(-1.0, 1.0) } else { 0.0 }
    }

    fn pearson(&self) -> f64 {
        (self.covariation / (self.reference_variation.sqrt() * self.device_variation.sqrt())).clamp(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(reference: &[f32], device: &[f32]) -> RowMetrics {
        match measure(reference, device) {
            Measured::Finite(metrics) => metrics,
            other => panic!("{other:?}"),
        }
    }

    fn close(found: Option<f64>, expected: f64) {
        let found = found.expect("defined");
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn a_centred_cosine_by_hand() {
        let centre = [1.0, 1.0];
        assert_eq!(centred_cosine(&[2.0, 1.0], &[2.0, 1.0], &centre), Some(1.0));
        close(centred_cosine(&[2.0, 1.0], &[1.0, 2.0], &centre), 0.0);
        close(centred_cosine(&[2.0, 0.0], &[3.0, 1.0], &centre), 0.5_f64.sqrt());
        close(centred_cosine(&[2.0, 1.0], &[0.0, 1.0], &centre), -1.0);
        assert_eq!(centred_cosine(&[2.0, 1.0], &[1.0, 1.0], &centre), Some(0.0));
        assert_eq!(centred_cosine(&[1.0, 1.0], &[1.0, 1.0], &centre), None);
    }

    #[test]
    fn orthogonal_rows_by_hand() {
        let row = metrics(&[1.0, 0.0], &[0.0, 1.0]);
        close(row.cosine, 0.0);
        close(row.pearson, -1.0);
        close(row.relative_l2, 2.0_f64.sqrt());
        close(row.nmse, 4.0);
        close(row.sqnr_db, -10.0 * 2.0_f64.log10());
        close(Some(row.max_abs), 1.0);
        close(row.norm_ratio, 1.0);
        assert!(!row.exact && !row.constant);
    }

    #[test]
    fn a_scaled_copy_keeps_its_direction() {
        let row = metrics(&[1.0, -2.0, 4.0], &[3.0, -6.0, 12.0]);
        close(row.cosine, 1.0);
        close(row.pearson, 1.0);
        close(row.relative_l2, 2.0);
        close(row.norm_ratio, 3.0);
        close(row.sqnr_db, -20.0 * 2.0_f64.log10());
    }

    #[test]
    fn equal_rows_are_exactly_one() {
        let row = metrics(&[0.1, 0.7, -3.3e8], &[0.1, 0.7, -3.3e8]);
        assert_eq!((row.cosine, row.pearson, row.norm_ratio), (Some(1.0), Some(1.0), Some(1.0)));
        assert_eq!((row.relative_l2, row.nmse, row.sqnr_db), (Some(0.0), Some(0.0), None));
        assert!(row.exact && row.max_abs <= 0.0);
    }

    #[test]
    fn plus_and_minus_zero_are_equal() {
        assert!(metrics(&[0.0, 1.0], &[-0.0, 1.0]).exact);
    }

    #[test]
    fn a_common_offset_does_not_cost_digits() {
        // Steps of 1/16 are exact at 1e6 in f32, so the plain rows give the answer.
        let plain: Vec<f32> = (0..4096).map(|i| ((i * 37) % 101) as f32 / 16.0).collect();
        let other: Vec<f32> = (0..4096).map(|i| ((i * 37) % 101 + i % 7) as f32 / 16.0).collect();
        let raised = |row: &[f32]| row.iter().map(|value| value + 1e6).collect::<Vec<f32>>();
        let (low, high) = (metrics(&plain, &other), metrics(&raised(&plain), &raised(&other)));
        close(high.pearson, low.pearson.expect("varies"));
        close(high.nmse, low.nmse.expect("varies"));
        assert!(low.pearson < Some(0.999));
    }

    #[test]
    fn an_outlier_as_first_value_does_not_cost_digits() {
        let mut reference: Vec<f32> = (0..5000_u16).map(|i| f32::from(i % 13)).collect();
        let mut device: Vec<f32> = reference.iter().map(|value| value * 2.0 - 1.0).collect();
        (reference[0], device[0]) = (1e7, 2e7 - 1.0);
        close(metrics(&reference, &device).pearson, 1.0);
    }

    #[test]
    fn constants_and_zeros_follow_their_rules() {
        let constant_device = metrics(&[1.0, 2.0], &[5.0, 5.0]);
        assert!(constant_device.constant);
        assert_eq!(constant_device.pearson, Some(0.0));

        let constant_reference = metrics(&[2.0, 2.0], &[1.0, 3.0]);
        assert_eq!((constant_reference.pearson, constant_reference.nmse), (None, None));
        assert!(!constant_reference.constant && constant_reference.cosine.is_some());

        let zero_reference = metrics(&[0.0, 0.0], &[1.0, 3.0]);
        assert_eq!((zero_reference.cosine, zero_reference.relative_l2), (None, None));
        assert_eq!((zero_reference.sqnr_db, zero_reference.norm_ratio), (None, None));

        let both_zero = metrics(&[0.0, 0.0], &[0.0, 0.0]);
        assert_eq!((both_zero.cosine, both_zero.relative_l2, both_zero.exact), (None, Some(0.0), true));

        let zero_device = metrics(&[1.0, 2.0], &[0.0, 0.0]);
        assert_eq!((zero_device.cosine, zero_device.norm_ratio), (Some(0.0), Some(0.0)));
        assert_eq!(zero_device.relative_l2, Some(1.0));

        let one_value = metrics(&[2.0], &[3.0]);
        assert_eq!((one_value.pearson, one_value.relative_l2), (None, Some(0.5)));
    }

    #[test]
    fn values_that_are_not_finite_are_found_wherever_they_are() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in 0..3 {
                let mut row = [1.0, 2.0, 3.0];
                row[place] = bad;
                assert_eq!(measure(&[1.0, 2.0, 3.0], &row), Measured::DeviceNotFinite);
                assert_eq!(measure(&row, &[1.0, 2.0, 3.0]), Measured::ReferenceNotFinite);
                assert_eq!(measure(&row, &row), Measured::ReferenceNotFinite);
            }
        }
    }

    #[test]
    fn the_extremes_of_f32_stay_finite() {
        let row = metrics(&[f32::from_bits(1), 0.0], &[f32::MAX, f32::MIN]);
        let all = [row.cosine, row.pearson, row.relative_l2, row.nmse, row.sqnr_db, row.norm_ratio];
        assert!(all.into_iter().flatten().chain([row.max_abs]).all(f64::is_finite), "{row:?}");
    }
}
