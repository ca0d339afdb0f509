//! Codes and values of a stream.

/// The grid of a stream: value = (code - zero point) x scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grid {
    pub(crate) scale: f32,
    pub(crate) zero_point: f32,
    /// Smallest and largest value that is not clipped.
    pub(crate) limits: [f32; 2],
    /// 255 or 65535.
    pub(crate) largest_code: u16,
}

impl Grid {
    /// The grid of so many bits over an interval, which is widened to hold 0. The zero point is a whole number.
    pub(crate) fn over([low, high]: [f32; 2], bytes: usize) -> Self {
        let largest_code = largest_code(bytes);
        let (low, high) = (f64::from(low.min(0.0)), f64::from(high.max(0.0)));
        let span = if high > low { high - low } else { 1.0 };
        let scale = (span / f64::from(largest_code)) as f32;
        let zero_point = (-low / f64::from(scale)).round_ties_even() as f32;
        Self { scale, zero_point, limits: [low as f32, high as f32], largest_code }
    }

    /// The code of a value: clipped to the limits, divided, shifted, rounded half to even, as `HailoRT` does
    /// (`include/hailo/quantization.hpp`, `quantize_input`). What is beyond the codes is the nearest of them, where `HailoRT`
    /// would wrap; NaN is 0.
    pub(crate) fn code(&self, value: f32) -> u16 {
        let [low, high] = self.limits;
        let clipped = if value >= high {
            high
        } else if value <= low {
            low
        } else {
            value
        };
        let code = (clipped / self.scale + self.zero_point).round_ties_even();
        code.clamp(0.0, f32::from(self.largest_code)) as u16
    }

    /// The nearest code without limits, divided in float64: what a compiler stores of a table.
    pub(crate) fn nearest_code(&self, value: f32) -> u16 {
        let code = (f64::from(value) / f64::from(self.scale) + f64::from(self.zero_point)).round_ties_even();
        code.clamp(0.0, f64::from(self.largest_code)) as u16
    }

    /// The value of a code.
    pub(crate) fn value(&self, code: u16) -> f32 {
        (f32::from(code) - self.zero_point) * self.scale
    }
}

/// The largest code of a type of one or two bytes.
pub(crate) const fn largest_code(bytes: usize) -> u16 {
    if bytes == 1 { 255 } else { 65535 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(scale: f32, zero_point: f32, limits: [f32; 2]) -> Grid {
        Grid { scale, zero_point, limits, largest_code: 255 }
    }

    #[test]
    fn codes_of_one_are_those_of_the_two_mask_conventions() {
        assert_eq!(mask(1.0 / 128.0, 0.0, [0.0, 1.0]).code(1.0), 128);
        assert_eq!(mask(100.0 / 255.0, 255.0, [-100.0, 0.0]).code(1.0), 255);
    }

    #[test]
    fn halves_go_to_the_even_code_and_nothing_leaves_the_grid() {
        let grid = mask(1.0, 0.0, [-10.0, 300.0]);
        assert_eq!([0.5, 1.5, 2.5, -3.0, 299.0].map(|value| grid.code(value)), [0, 2, 2, 0, 255]);
        assert_eq!(grid.code(f32::NAN), 0);
    }

    #[test]
    fn a_grid_over_an_interval_holds_it_and_zero() {
        for (interval, bytes) in [([-3.0, 9.0], 1), ([2.0, 5.0], 2), ([0.0, 0.0], 1)] {
            let grid = Grid::over(interval, bytes);
            for value in interval.into_iter().chain([0.0]) {
                let back = grid.value(grid.code(value));
                assert!((back - value).abs() <= grid.scale, "{value} -> {back} in {grid:?}");
            }
        }
    }
}
