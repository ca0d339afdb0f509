//! What counts as near enough, in relative L2 of a row.

/// float32 against float64, at any site: a thousandth of the error from which a site of an arm is bad. A reference noisier than this
/// is no judge. Measured: at most 1.4e-5, on SmolLM2-135M.
pub(super) const NOISE_BAR: f64 = 1e-4;

/// How far two computations in float32 may be apart, each of which has noise of its own.
pub(super) struct Bar {
    /// Near enough whatever the noise.
    floor: f64,
    /// Near enough up to so many times the noise that was measured.
    noise_factor: f64,
}

/// The other implementation sums in another order and longer, so that it is noisier. Measured on the goldens, the demo and
/// SmolLM2-135M: at most 8.4 times the row's noise. A norm epsilon of 1e-5 for 1e-6 is 48 to 83 times it in the worst rows of the goldens, one
/// of 1e-6 for 1e-5 393 times in the demo; what is not seen is 1e-7 for 1e-6, at most 10 times. The floor is for rows that happen to have
/// next to no noise.
pub(super) const OPINION_BAR: Bar = Bar { floor: 2e-6, noise_factor: 20.0 };

/// Steps use other kernels than whole passes, whose noise is their own: a row's bar is made of its noise or the median of its site, whichever
/// is more. Measured on the same: at most 4 times that.
pub(super) const CHUNK_BAR: Bar = Bar { floor: 2e-6, noise_factor: 20.0 };

impl Bar {
    /// The bar of a row with this noise.
    pub(super) fn at(&self, noise: f64) -> f64 {
        self.floor.max(self.noise_factor * noise)
    }
}
