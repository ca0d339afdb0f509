//! How often values of each size were seen: percentiles in one pass and without keeping the values.

use rayon::prelude::*;

use crate::values::TASK;

/// A bin holds the values that agree in sign, exponent and the first six bits of the mantissa: it is 1.6 % wide.
const DROPPED_BITS: u32 = 17;
const BINS: usize = 1 << (32 - DROPPED_BITS);

/// Counts of values by size.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BINS], total: 0 }
    }
}

impl Histogram {
    /// Counts more values; NaN is left out.
    pub fn add(&mut self, values: &[f32]) {
        let counted = values.par_chunks(8 * TASK).map(|values| {
            let mut counts = vec![0_u32; BINS];
            values.iter().filter(|value| !value.is_nan()).for_each(|value| counts[bin(*value)] += 1);
            counts
        });
        // Whole numbers: the order of the sums does not matter.
        let counts = counted.reduce_with(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        });
        for (all, more) in self.counts.iter_mut().zip(counts.into_iter().flatten()) {
            *all += u64::from(more);
            self.total += u64::from(more);
        }
    }

    /// How many values were counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The value below which `percent` of all lie, to 1.6 %: the middle of its bin. `None` of no values.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<f32> {
        let last = self.total.checked_sub(1)?;
        let rank = (percent / 100.0 * last as f64).round() as u64;
        let mut before = 0;
        let found = self.counts.iter().position(|count| {
            before += count;
            before > rank
        });
        found.map(middle)
    }
}

impl Histogram {
    /// The magnitude below which `percent` of all magnitudes lie, to 1.6 %. `None` of no values.
    #[must_use]
    pub fn magnitude_percentile(&self, percent: f64) -> Option<f32> {
        let last = self.total.checked_sub(1)?;
        let rank = (percent / 100.0 * last as f64).round() as u64;
        let mut before = 0;
        let half = BINS / 2;
        let found = (0..half).find(|offset| {
            before += self.counts[half + offset] + self.counts[half - 1 - offset];
            before > rank
        });
        found.map(|offset| middle(half + offset))
    }
}

/// Bins ascend as values do.
const fn bin(value: f32) -> usize {
    let bits = value.to_bits() >> DROPPED_BITS;
    let half = BINS as u32 / 2;
    (if bits >= half { BINS as u32 - 1 - bits } else { bits + half }) as usize
}

fn middle(bin: usize) -> f32 {
    let (bin, half) = (bin as u32, BINS as u32 / 2);
    let bits = if bin >= half { bin - half } else { BINS as u32 - 1 - bin };
    let value = f32::from_bits((bits << DROPPED_BITS) | (1 << (DROPPED_BITS - 1)));
    // The bins at both sides of zero hold it.
    if bits == 0 || bits == half { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_of_known_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50.0), None);
        let values: Vec<f32> = (-500..=500).map(|value| value as f32).collect();
        histogram.add(&values);
        histogram.add(&[f32::NAN]);
        assert_eq!((histogram.total(), histogram.percentile(50.0)), (1001, Some(0.0)));
        for (percent, expected) in [(0.0, -500.0), (10.0, -400.0), (99.0, 490.0), (100.0, 500.0_f32)] {
            let found = histogram.percentile(percent).expect("counted");
            assert!((found - expected).abs() <= 0.016 * expected.abs(), "{percent} %: {found}");
        }
        for (percent, expected) in [(50.0, 250.0), (100.0, 500.0_f32)] {
            let found = histogram.magnitude_percentile(percent).expect("counted");
            assert!((found - expected).abs() <= 0.016 * expected, "{percent} %: {found}");
        }
    }

    proptest! {
        #[test]
        fn bins_ascend_and_hold_their_middle(a in any::<f32>(), b in any::<f32>()) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert!(a.total_cmp(&b).is_gt() || bin(a) <= bin(b));
            let near = middle(bin(a));
            prop_assert!(!near.is_finite() || (near - a).abs() <= 0.016 * a.abs() + 1e-37);
        }
    }
}
