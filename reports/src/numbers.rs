//! How numbers are written: always with enough digits that "perfect" and "almost" differ.

use fidelity_verdict::{Interval, Rate, SiteResult, Summary};

/// What is written where there is no number.
pub(crate) const ABSENT: &str = "–";

/// Writes a number that may be absent.
pub(crate) fn or_absent(value: Option<f64>, write: impl FnOnce(f64) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), write)
}

/// A correlation to 6 decimals; nearer to 1 than they can show, its distance from 1.
pub(crate) fn correlation(value: f64) -> String {
    let text = format!("{value:.6}");
    if text == "1.000000" && value < 1.0 { format!("1-{:.1e}", 1.0 - value) } else { text }
}

/// A correlation of a site whose rows may all equal the reference bit for bit.
pub(crate) fn site_correlation(
    site: &SiteResult,
    pearson: Option<&Summary>,
    pick: impl FnOnce(&Summary) -> f64,
) -> String {
    match pearson {
        Some(_) if site.rows > 0 && site.exact_rows == site.rows => "1 (exact)".to_owned(),
        summary => or_absent(summary.map(pick), correlation),
    }
}

/// An interval of correlations.
pub(crate) fn correlation_interval([low, high]: Interval) -> String {
    format!("[{}, {}]", correlation(low), correlation(high))
}

/// An error, a distance or a ratio to 3 significant digits.
#[must_use]
pub fn magnitude(value: f64) -> String {
    let size = value.abs();
    if size <= 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e5).contains(&size) {
        return if value.is_finite() { format!("{value:.2e}") } else { value.to_string() };
    }
    let decimals = match size {
        ..0.01 => 5,
        ..0.1 => 4,
        ..1.0 => 3,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A rate in per cent: 100 % is said only of all.
pub(crate) fn percent(rate: f64) -> String {
    if rate >= 1.0 {
        return "100%".to_owned();
    }
    let text = format!("{:.1}%", rate * 100.0);
    if text == "100.0%" { ">99.9%".to_owned() } else { text }
}

/// A tie-aware rate.
pub(crate) fn rate(rate: &Rate) -> String {
    or_absent(rate.rate, percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_perfect_never_looks_perfect() {
        assert_eq!(correlation(0.999_982), "0.999982");
        assert_eq!(correlation(0.999_999_95), "1-5.0e-8");
        assert_eq!(correlation(1.0), "1.000000");
        assert_eq!(correlation(-0.11), "-0.110000");
        assert_eq!(percent(0.999_99), ">99.9%");
        assert_eq!(percent(0.987), "98.7%");
        assert_eq!(percent(1.0), "100%");
    }

    #[test]
    fn magnitudes_keep_three_digits() {
        let written =
            [0.0, 1.234e-7, 0.001_234, 0.012_34, 0.123_4, 1.234, 12.34, 123.4, 12_345.6, 1.2e9].map(magnitude);
        assert_eq!(written, ["0", "1.23e-7", "0.00123", "0.0123", "0.123", "1.23", "12.3", "123", "12346", "1.20e9"]);
        assert_eq!([-0.5, f64::NAN, f64::INFINITY].map(magnitude), ["-0.500", "NaN", "inf"]);
    }

    #[test]
    fn absent_is_a_dash() {
        assert_eq!(or_absent(None, magnitude), "–");
    }
}
