//! eˣ without branches, so that loops over it fill vector registers.

use std::f32::consts::LOG2_E;

/// ln 2 in two parts; the first has nine bits, so that its product with a power is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// 1.5 · 2²³: what it is added to is rounded to an integer, which stands in the lowest bits.
const ROUNDING: f32 = 12_582_912.0;

/// eˣ to two units in the last place; 0 where it is below 4.5e-38.
///
/// x = n · ln 2 + r with |r| ≤ ln 2 / 2, and eˣ = 2ⁿ · eʳ by Taylor's series up to r⁷, whose rest is below 6e-9.
#[inline(always)]
pub(super) fn exponential(x: f32) -> f32 {
    let rounded = x * LOG2_E + ROUNDING;
    let n = rounded - ROUNDING;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let series = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let power = series.into_iter().fold(1.0 / 5040.0, |sum, coefficient| sum * r + coefficient);
    // 2ⁿ⁻¹, since 2ⁿ itself may lie above the largest number while eˣ does not.
    let half = f32::from_bits(rounded.to_bits().wrapping_add(126) << 23);
    let value = power * half * 2.0;
    if x < -86.0 {
        0.0
    } else if x > 88.722_83 {
        f32::INFINITY
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every 1009th of all numbers.
    #[test]
    fn agrees_with_float64() {
        let mut worst = 0.0_f64;
        for bits in (0..=u32::MAX).step_by(1009) {
            let x = f32::from_bits(bits);
            let (found, exact) = (exponential(x), f64::from(x).exp());
            match x {
                _ if x.is_nan() => assert!(found.is_nan()),
                _ if x < -86.0 => assert!(found.to_bits() == 0 && exact < 4.5e-38),
                _ if exact > f64::from(f32::MAX) => assert!(found == f32::INFINITY, "{x}: {found}"),
                _ => worst = worst.max((f64::from(found) - exact).abs() / exact),
            }
        }
        // A unit in the last place is 1.2e-7 at most.
        assert!(worst < 2.4e-7, "{worst}");
    }

    #[test]
    fn of_zero_is_one_and_the_ends_are_whole() {
        assert_eq!([0.0, -0.0].map(|x| exponential(x).to_bits()), [1.0_f32.to_bits(); 2]);
        assert!(exponential(88.722_83).is_finite() && exponential(88.7229).is_infinite());
        assert!(exponential(-86.0) > 0.0 && exponential(f32::NEG_INFINITY).to_bits() == 0);
    }
}
