//! An orthogonal rotation of the residual stream (QuaRot, Ashkboos et al. 2024): R = H ⊗ O, H the normalised Hadamard matrix of
//! the largest power of two that divides the width, O a seeded random orthogonal matrix of the odd part. In float64. With a
//! seed of its own, D·R with random signs D, so that widths without an odd part turn by their seed too.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Any seed; a fixed one, so that a run can be repeated.
const SEED: u64 = 0x5EED;

/// R, never written out.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Order of H.
    hadamard: usize,
    /// O, row-major.
    odd: Vec<f64>,
    /// Order of O.
    order: usize,
    /// The diagonal of D; empty where D is the identity.
    signs: Vec<f64>,
}

impl Rotation {
    /// The rotation of rows of `width` values.
    #[must_use]
    pub fn of_width(width: usize) -> Self {
        Self::drawn(width, &mut ChaCha8Rng::seed_from_u64(SEED))
    }

    /// A rotation of rows of `width` values of its own for every seed.
    #[must_use]
    pub fn seeded(width: usize, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let signs = (0..width).map(|_| if random.next_u32() & 1 == 0 { 1.0 } else { -1.0 }).collect();
        Self { signs, ..Self::drawn(width, &mut random) }
    }

    fn drawn(width: usize, random: &mut impl Rng) -> Self {
        let hadamard = if width == 0 { 1 } else { 1 << width.trailing_zeros() };
        let order = width / hadamard;
        Self { hadamard, odd: orthogonal(order, random), order, signs: Vec::new() }
    }

    /// x ← x·R
    ///
    /// # Panics
    /// When `row` has another width.
    pub fn apply(&self, row: &mut [f64]) {
        self.sign(row);
        self.turn(row, |from, to| self.odd[from * self.order + to]);
    }

    /// x ← x·Rᵀ, the inverse.
    ///
    /// # Panics
    /// When `row` has another width.
    pub fn undo(&self, row: &mut [f64]) {
        self.turn(row, |from, to| self.odd[to * self.order + from]);
        self.sign(row);
    }

    fn sign(&self, row: &mut [f64]) {
        row.iter_mut().zip(&self.signs).for_each(|(value, sign)| *value *= sign);
    }

    /// x as a matrix `[hadamard, order]`: H·x·O. H is symmetric.
    fn turn(&self, row: &mut [f64], odd: impl Fn(usize, usize) -> f64) {
        let Self { hadamard, order, .. } = *self;
        assert_eq!(row.len(), hadamard * order, "a row of the rotation's width");
        let mut half = 1;
        while half < hadamard {
            for start in (0..hadamard).step_by(2 * half) {
                for index in start * order..(start + half) * order {
                    let (a, b) = (row[index], row[index + half * order]);
                    (row[index], row[index + half * order]) = (a + b, a - b);
                }
            }
            half *= 2;
        }
        let scale = (hadamard as f64).sqrt().recip();
        let mut turned = vec![0.0; order];
        for part in row.chunks_exact_mut(order) {
            for (to, turned) in turned.iter_mut().enumerate() {
                *turned = part.iter().enumerate().map(|(from, value)| value * odd(from, to)).sum::<f64>() * scale;
            }
            part.copy_from_slice(&turned);
        }
    }
}

/// Rows of normal numbers, made orthonormal by modified Gram–Schmidt, twice against rounding.
fn orthogonal(order: usize, random: &mut impl Rng) -> Vec<f64> {
    if order <= 1 {
        return vec![1.0; order];
    }
    let mut rows: Vec<Vec<f64>> = (0..order).map(|_| (0..order).map(|_| normal(random)).collect()).collect();
    for index in 0..order {
        for _ in 0..2 {
            let (before, from) = rows.split_at_mut(index);
            let row = &mut from[0];
            for other in before.iter() {
                let along: f64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
                row.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
            let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            row.iter_mut().for_each(|value| *value /= norm);
        }
    }
    rows.concat()
}

/// A standard normal number (Box & Muller 1958).
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

/// A number from 0 to below 1.
pub(crate) fn uniform(random: &mut impl Rng) -> f64 {
    f64::from(random.next_u32()) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_of_any_width_keep_norms_and_are_undone() {
        let seeded = |width| Rotation::seeded(width, 3);
        let rotations = [1, 2, 9, 12, 64, 312, 576].map(|width| (width, Rotation::of_width(width)));
        for (width, rotation) in rotations.into_iter().chain([2, 9, 64, 320].map(|width| (width, seeded(width)))) {
            let before: Vec<f64> = (0..width).map(|index| ((index * 37) % 11) as f64 - 4.0).collect();
            let mut row = before.clone();
            rotation.apply(&mut row);
            let norm = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>().sqrt();
            assert!((norm(&row) - norm(&before)).abs() < 1e-11 * norm(&before), "{width}");
            assert!(width == 1 || row.iter().zip(&before).any(|(a, b)| (a - b).abs() > 0.1), "{width}: it turns");
            rotation.undo(&mut row);
            assert!(row.iter().zip(&before).all(|(a, b)| (a - b).abs() < 1e-11), "{width}");
        }
    }

    #[test]
    fn every_seed_has_its_own_rotation() {
        let turned = |seed| {
            let mut row: Vec<f64> = (0..64).map(f64::from).collect();
            Rotation::seeded(64, seed).apply(&mut row);
            row.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(turned(1), turned(1));
        assert_ne!(turned(1), turned(2));
    }

    #[test]
    fn one_large_channel_is_spread_over_all() {
        let rotation = Rotation::of_width(576);
        let mut row = vec![0.0; 576];
        row[7] = 1.0;
        rotation.apply(&mut row);
        let largest = row.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        assert!(largest < 0.13 && row.iter().filter(|value| value.abs() > 1e-4).count() == 576, "{largest}");
    }
}
