//! What counts as near enough, in relative L2 of a row.

/// float32 against float64, at any site: a thousandth of the error from which a site of an arm is bad. A reference noisier than this
/// is no judge.
pub(super) const NOISE_BAR: f64 = 1e-4;

/// Two computations in float32, each with noise of its own.
pub(super) struct Bar {
    /// Near enough whatever the noise.
    pub(super) floor: f64,
    /// Near enough up to so many times the row's own noise.
    pub(super) noise_factor: f64,
}

pub(super) const OPINION_BAR: Bar = Bar { floor: 2e-6, noise_factor: 20.0 };
pub(super) const CHUNK_BAR: Bar = Bar { floor: 2e-6, noise_factor: 20.0 };

impl Bar {
    pub(super) fn at(&self, noise: f64) -> f64 {
        self.floor.max(self.noise_factor * noise)
    }
}
