//! Which of several comparisons changed.

/// The p-values adjusted by Holm (1979, *A simple sequentially rejective multiple test procedure*, Scand. J. Stat. 6: 65–70), in
/// their order: what is at or below a level is named with at most that chance that any name is wrong, however the comparisons depend
/// on each other.
///
/// Only for the question which metric changed. A gate passes where every metric does (an intersection–union test: Berger 1982,
/// Technometrics 24: 295–300), which needs no correction.
pub(super) fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max((p.len() - rank) as f64 * p[index]).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_by_hand() {
        let found = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn none_and_one_are_as_they_were() {
        assert!(adjusted(&[]).is_empty());
        assert!((adjusted(&[0.2])[0] - 0.2).abs() < 1e-12 && (adjusted(&[1.0, 0.9])[0] - 1.0).abs() < 1e-12);
    }
}
