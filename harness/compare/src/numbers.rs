//! Numbers as they are stored and as they are printed: "perfect" and "almost" must differ in both.

/// Significant digits of a stored row.
const DIGITS: usize = 6;

/// Decimals beyond which f64 near 1 has nothing to show.
const MAX_DECIMALS: usize = 17;

/// The value rounded to 6 significant digits, for rows: they make up most of a verdict's size.
pub(crate) fn rounded(value: f64) -> f64 {
    parse(&format!("{value:.*e}", DIGITS - 1))
}

/// A similarity at most 1, rounded so that its distance from 1 keeps 6 significant digits.
pub(crate) fn rounded_near_one(value: f64) -> f64 {
    parse(&format!("{value:.*}", decimals_near_one(value, DIGITS).min(MAX_DECIMALS)))
}

/// Prints a similarity or a rate with at least `decimals` decimals, and as many more as two significant digits of its
/// distance from 1 take. Only 1 prints as 1.
pub(crate) fn near_one(value: f64, decimals: usize) -> String {
    let decimals = decimals.max(decimals_near_one(value, 2)).min(MAX_DECIMALS);
    format!("{value:.decimals$}")
}

/// [`near_one`] of a value below `limit`, with as many decimals as it takes to print below it.
pub(crate) fn below(value: f64, limit: f64, decimals: usize) -> String {
    let mut printed = (decimals..=MAX_DECIMALS).map(|decimals| near_one(value, decimals));
    printed.find(|text| parse(text) < limit).unwrap_or_else(|| value.to_string())
}

/// Prints a threshold as it was written, with two decimals at least.
pub(crate) fn threshold(value: f64) -> String {
    let (shortest, two) = (value.to_string(), format!("{value:.2}"));
    if shortest.len() > two.len() { shortest } else { two }
}

/// A number of rows, in words.
pub(crate) fn rows(count: usize) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

/// Decimals that show `digits` significant digits of 1 − value.
fn decimals_near_one(value: f64, digits: usize) -> usize {
    let distance = (1.0 - value).abs();
    let leading_zeros = if distance > 0.0 { -distance.log10().floor() } else { 0.0 };
    // Between −308 and 16: the cast keeps the value.
    (digits as i64 - 1 + leading_zeros as i64).max(0) as usize
}

fn parse(text: &str) -> f64 {
    text.parse().expect("a printed number reads back")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_six_digits() {
        let stored = |value| rounded(value).to_string();
        assert_eq!(stored(1.234_567_89e-7), "0.000000123457");
        assert_eq!(stored(-22_345.678), "-22345.7");
        assert_eq!(stored(0.0), "0");
    }

    #[test]
    fn similarities_keep_six_digits_of_their_distance_from_one() {
        let stored = |value| rounded_near_one(value).to_string();
        assert_eq!(stored(1.0), "1");
        assert_eq!(stored(0.999_999_987_654_321), "0.9999999876543");
        assert_eq!(stored(-0.5), "-0.5");
        assert_eq!(stored(0.123_456_789), "0.123457");
        assert_eq!(stored(1.0 - f64::EPSILON / 2.0), "0.9999999999999999");
    }

    #[test]
    fn only_one_prints_as_one() {
        assert_eq!(near_one(1.0, 4), "1.0000");
        assert_eq!(near_one(0.999_81, 4), "0.99981");
        assert_eq!(near_one(0.999_999_997, 4), "0.9999999970");
        assert_eq!(near_one(0.3211, 4), "0.3211");
        assert_eq!(near_one(-0.11, 4), "-0.1100");
        assert_eq!(near_one(0.912, 3), "0.912");
        assert_ne!(near_one(1.0 - f64::EPSILON / 2.0, 4).parse::<f64>(), Ok(1.0));
    }

    #[test]
    fn what_is_below_prints_below() {
        assert_eq!(below(0.3211, 0.9, 4), "0.3211");
        assert_eq!(below(0.899_999_6, 0.9, 4), "0.8999996");
    }

    #[test]
    fn thresholds_print_as_written() {
        assert_eq!([0.9, 0.95, 0.985, 1.0].map(threshold), ["0.90", "0.95", "0.985", "1.00"]);
    }
}
