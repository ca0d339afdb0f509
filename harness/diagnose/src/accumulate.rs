//! Statistics of one site, gathered over passes.

use std::collections::BTreeMap;

use fidelity_emulator::Histogram;
use fidelity_trace::Site;
use fidelity_verdict::{ChannelPeak, MagnitudePercentiles, MassiveActivation, Peak, SiteActivations, Sqnr};
use rayon::prelude::*;

/// How far above the median magnitude of its site a row's largest value must be to be listed.
const MASSIVE_RATIO: f64 = 100.0;
/// Channels kept by site.
const MOST_CHANNELS: usize = 16;

/// Where a row is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) prompt: usize,
    pub(crate) position: u32,
}

/// What was seen of a site so far.
#[derive(Default)]
pub(crate) struct Accumulator {
    histogram: Histogram,
    values: u64,
    non_finite: u64,
    /// Σx, Σx², Σx³, Σx⁴ of finite values.
    powers: [f64; 4],
    min: f32,
    max: f32,
    /// By row: its largest value and its mean square.
    rows: Vec<(Peak, f64)>,
    by_position: Vec<Option<f32>>,
    channels: Vec<f32>,
}

/// One row by itself.
struct RowStatistics {
    powers: [f64; 4],
    min: f32,
    max: f32,
    largest: (usize, f32),
    non_finite: u64,
}

impl Accumulator {
    /// Adds rows of `width` values; `place` says where row `index` is.
    pub(crate) fn add(&mut self, values: &[f32], width: usize, place: impl Fn(usize) -> Place) {
        if width == 0 || values.is_empty() {
            return;
        }
        self.histogram.add(values);
        self.channels.resize(width.max(self.channels.len()), 0.0);
        let rows: Vec<RowStatistics> = values.par_chunks_exact(width).map(RowStatistics::of).collect();
        // One after another, so that sums do not depend on the number of cores.
        for (index, row) in rows.iter().enumerate() {
            self.take(row, width, place(index));
        }
        self.channels.par_chunks_mut(64).enumerate().for_each(|(part, channels)| {
            for row in values.chunks_exact(width) {
                let own = row.get(part * 64..).unwrap_or_default();
                for (largest, value) in channels.iter_mut().zip(own).filter(|(_, value)| value.is_finite()) {
                    *largest = largest.max(value.abs());
                }
            }
        });
    }

    fn take(&mut self, row: &RowStatistics, width: usize, place: Place) {
        let first = self.values == self.non_finite;
        let finite = width as u64 - row.non_finite;
        self.values += width as u64;
        self.non_finite += row.non_finite;
        if finite == 0 {
            return;
        }
        self.powers.iter_mut().zip(row.powers).for_each(|(sum, more)| *sum += more);
        (self.min, self.max) = if first { (row.min, row.max) } else { (self.min.min(row.min), self.max.max(row.max)) };
        let (channel, value) = row.largest;
        let peak = Peak { value: f64::from(value), prompt: place.prompt, position: place.position, channel };
        self.rows.push((peak, row.powers[1] / finite as f64));
        let position = place.position as usize;
        if self.by_position.len() <= position {
            self.by_position.resize(position + 1, None);
        }
        let largest = &mut self.by_position[position];
        *largest = Some(largest.unwrap_or(0.0).max(value.abs()));
    }

    /// Mean squares of rows, ascending.
    pub(crate) fn mean_squares(&self) -> Vec<f64> {
        let mut squares: Vec<f64> = self.rows.iter().map(|(_, square)| *square).collect();
        squares.sort_by(f64::total_cmp);
        squares
    }

    pub(crate) fn finish(&self) -> SiteActivations {
        let percentile = |percent| self.histogram.magnitude_percentile(percent).map_or(0.0, f64::from);
        let count = (self.values - self.non_finite) as f64;
        let squares = self.mean_squares();
        let mean_square = (count > 0.0).then(|| self.powers[1] / count);
        let median = squares.get(squares.len() / 2).copied();
        let sqnr = |bits| Sqnr {
            whole_db: mean_square.and_then(|power| self.sqnr(power, bits)),
            median_row_db: median.and_then(|power| self.sqnr(power, bits)),
        };
        let largest = self.rows.iter().map(|(peak, _)| *peak);
        let largest = largest.reduce(|a, b| if b.value.abs() > a.value.abs() { b } else { a });
        SiteActivations {
            values: self.values,
            non_finite: self.non_finite,
            min: self.min.into(),
            max: self.max.into(),
            largest: largest.unwrap_or_default(),
            magnitude: MagnitudePercentiles {
                p50: percentile(50.0),
                p99: percentile(99.0),
                p999: percentile(99.9),
                p9999: percentile(99.99),
            },
            kurtosis: kurtosis(self.powers, count),
            sqnr_8: sqnr(8),
            sqnr_16: sqnr(16),
            by_position: self.by_position.iter().map(|largest| largest.map(f64::from)).collect(),
            channels: self.largest_channels(),
        }
    }

    /// 10 log₁₀(power / (Δ²/12)), Δ the step of a grid that spans the values and 0.
    fn sqnr(&self, power: f64, bits: u32) -> Option<f64> {
        let width = f64::from(self.max.max(0.0)) - f64::from(self.min.min(0.0));
        let step = width / f64::from((1_u32 << bits) - 1);
        (power > 0.0 && step > 0.0).then(|| (10.0 * (power / (step * step / 12.0)).log10()).max(0.0))
    }

    fn largest_channels(&self) -> Vec<ChannelPeak> {
        let peak = |(channel, magnitude): (usize, &f32)| ChannelPeak { channel, magnitude: f64::from(*magnitude) };
        let mut channels: Vec<ChannelPeak> = self.channels.iter().enumerate().map(peak).collect();
        channels.sort_by(|a, b| b.magnitude.total_cmp(&a.magnitude));
        channels.truncate(MOST_CHANNELS);
        channels
    }

    /// Channels that are some row's largest and far above the site's median magnitude.
    pub(crate) fn massive(&self, site: Site) -> Vec<MassiveActivation> {
        let Some(median) = self.histogram.magnitude_percentile(50.0).map(f64::from).filter(|median| *median > 0.0)
        else {
            return Vec::new();
        };
        let mut by_channel: BTreeMap<usize, MassiveActivation> = BTreeMap::new();
        for (peak, _) in &self.rows {
            let ratio = peak.value.abs() / median;
            if ratio < MASSIVE_RATIO {
                continue;
            }
            let first = MassiveActivation { site, peak: *peak, ratio, rows: 0 };
            let known = by_channel.entry(peak.channel).or_insert(first);
            let rows = known.rows + 1;
            *known = if ratio > known.ratio {
                MassiveActivation { rows, ..first }
            } else {
                MassiveActivation { rows, ..*known }
            };
        }
        by_channel.into_values().collect()
    }
}

impl RowStatistics {
    fn of(row: &[f32]) -> Self {
        let mut found =
            Self { powers: [0.0; 4], min: f32::INFINITY, max: f32::NEG_INFINITY, largest: (0, 0.0), non_finite: 0 };
        for (channel, value) in row.iter().enumerate() {
            if !value.is_finite() {
                found.non_finite += 1;
                continue;
            }
            let (x, square) = (f64::from(*value), f64::from(*value) * f64::from(*value));
            found.powers[0] += x;
            found.powers[1] += square;
            found.powers[2] += square * x;
            found.powers[3] += square * square;
            (found.min, found.max) = (found.min.min(*value), found.max.max(*value));
            if value.abs() > found.largest.1.abs() {
                found.largest = (channel, *value);
            }
        }
        found
    }
}

/// From sums of powers; absent without spread.
fn kurtosis(powers: [f64; 4], count: f64) -> Option<f64> {
    let [first, second, third, fourth] = powers.map(|sum| sum / count.max(1.0));
    let variance = second - first * first;
    let central = fourth - 4.0 * first * third + 6.0 * first * first * second - 3.0 * first.powi(4);
    (count > 0.0 && variance > second * 1e-12).then(|| central / (variance * variance))
}

#[cfg(test)]
mod tests {
    use fidelity_trace::BlockSite;

    use super::*;

    const SITE: Site = Site::Block(0, BlockSite::ResidPost);

    fn accumulated(rows: &[&[f32]]) -> Accumulator {
        let mut accumulator = Accumulator::default();
        for (prompt, row) in rows.iter().enumerate() {
            accumulator.add(row, row.len(), |_| Place { prompt, position: prompt as u32 * 2 });
        }
        accumulator
    }

    #[test]
    fn numbers_by_hand() {
        let found = accumulated(&[&[1.0, -1.0, 1.0, -1.0], &[3.0, -1.0, 1.0, f32::NAN]]).finish();
        assert_eq!((found.values, found.non_finite), (8, 1));
        assert_eq!((found.min, found.max), (-1.0, 3.0));
        assert_eq!(found.largest, Peak { value: 3.0, prompt: 1, position: 2, channel: 0 });
        assert_eq!(found.by_position, [Some(1.0), None, Some(3.0)]);
        assert_eq!(found.channels[0], ChannelPeak { channel: 0, magnitude: 3.0 });
        // Mean square 15/7, a step of 4/255.
        let expected = 10.0 * (15.0 / 7.0 * 12.0 / (4.0_f64 / 255.0).powi(2)).log10();
        assert!((found.sqnr_8.whole_db.expect("a signal") - expected).abs() < 1e-9);
        let two_points = accumulated(&[&[1.0, -1.0, 1.0, -1.0]]).finish();
        assert!((two_points.kurtosis.expect("spread") - 1.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_and_constants_have_no_statistics_that_are_not_defined() {
        let nothing = Accumulator::default().finish();
        assert_eq!((nothing.values, nothing.kurtosis, nothing.sqnr_8.whole_db), (0, None, None));
        let zeros = accumulated(&[&[0.0; 4]]);
        assert_eq!((zeros.finish().kurtosis, zeros.finish().sqnr_16.median_row_db), (None, None));
        assert!(zeros.massive(SITE).is_empty());
        assert_eq!(accumulated(&[&[2.5; 4]]).finish().kurtosis, None);
        assert_eq!(accumulated(&[&[f32::NAN; 4]]).finish().non_finite, 4);
    }

    #[test]
    fn a_large_value_in_one_row_drowns_the_median_row_and_is_listed() {
        let quiet: Vec<f32> = (0..64).map(|index| if index % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let mut loud = quiet.clone();
        loud[7] = -20_000.0;
        let found = accumulated(&[&loud, &quiet, &quiet]);
        let sqnr = found.finish().sqnr_8;
        assert!(sqnr.whole_db.expect("a signal") > 30.0 && sqnr.median_row_db.expect("a signal") <= 0.0, "{sqnr:?}");
        let massive = found.massive(SITE);
        assert_eq!(massive.len(), 1);
        assert_eq!((massive[0].peak.channel, massive[0].peak.position, massive[0].rows), (7, 0, 1));
        assert!((massive[0].ratio - 20_000.0).abs() < 400.0, "{}", massive[0].ratio);
    }
}
