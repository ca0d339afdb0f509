//! What the arms generated greedily.

use fidelity_verdict::{Generated, Thresholds};

/// Compares generated ids, one entry a prompt; prompts in which either arm generated nothing at all are left out, and
/// `None` is returned when that leaves none. The text fields are the caller's to fill.
#[must_use]
pub fn generated(
    reference: &[Option<Vec<u32>>],
    device: &[Option<Vec<u32>>],
    thresholds: &Thresholds,
) -> Option<Generated> {
    let mut all = Generated::default();
    for (index, pair) in reference.iter().zip(device).enumerate() {
        let (Some(expected), Some(found)) = pair else { continue };
        let prefix = expected.iter().zip(found).take_while(|(expected, found)| expected == found).count();
        let identical = prefix == expected.len() && prefix == found.len();
        let (expected_degenerate, found_degenerate) = (degenerate(expected, thresholds), degenerate(found, thresholds));
        all.prompts.push(index);
        all.reference_ids.push(expected.clone());
        all.device_ids.push(found.clone());
        all.matching_prefix.push(prefix);
        all.first_divergence.push((!identical).then_some(prefix));
        all.reference_degenerate.push(expected_degenerate);
        all.device_degenerate.push(found_degenerate);
        all.degenerate |= found_degenerate && !expected_degenerate;
    }
    (!all.prompts.is_empty()).then_some(all)
}

/// One token repeated at the end of a generation that is long enough to tell.
fn degenerate(ids: &[u32], thresholds: &Thresholds) -> bool {
    let repeats = ids.iter().rev().take_while(|id| Some(*id) == ids.last()).count();
    ids.len() >= thresholds.degenerate_generation_length && repeats >= thresholds.degenerate_repeats
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(reference: &[u32], device: &[u32]) -> Generated {
        let pair = [reference, device].map(|ids| [Some(ids.to_vec())]);
        generated(&pair[0], &pair[1], &Thresholds::compiled_in()).expect("both generated")
    }

    #[test]
    fn the_prefix_ends_where_the_ids_differ_or_one_ends() {
        let divergence = |reference, device| {
            let found = compare(reference, device);
            (found.matching_prefix[0], found.first_divergence[0])
        };
        assert_eq!(divergence(&[1, 2, 3], &[1, 2, 3]), (3, None));
        assert_eq!(divergence(&[1, 2, 3], &[1, 9, 3]), (1, Some(1)));
        assert_eq!(divergence(&[1, 2, 3], &[1, 2]), (2, Some(2)));
        assert_eq!(divergence(&[1], &[1, 2]), (1, Some(1)));
        assert_eq!(divergence(&[], &[]), (0, None));
    }

    #[test]
    fn degenerate_takes_length_and_repeats_at_the_end() {
        let thresholds = Thresholds::compiled_in();
        let ids = |varied: u32, repeated: usize| -> Vec<u32> {
            (0..varied).chain(std::iter::repeat_n(99, repeated)).collect()
        };
        assert!(degenerate(&ids(8, 8), &thresholds));
        assert!(!degenerate(&ids(9, 7), &thresholds));
        assert!(!degenerate(&ids(7, 8), &thresholds), "15 ids are too few to tell");
        assert!(!degenerate(&[ids(4, 12), vec![1]].concat(), &thresholds), "not at the end");
        assert!(!degenerate(&[], &thresholds));
    }

    #[test]
    fn a_reference_that_degenerates_too_excuses_the_arm() {
        let (varied, repeated): (Vec<u32>, Vec<u32>) = ((0..16).collect(), vec![5; 16]);
        assert!(compare(&varied, &repeated).degenerate);
        assert!(!compare(&repeated, &repeated).degenerate);
        assert!(!compare(&repeated, &varied).degenerate);
    }

    #[test]
    fn prompts_without_both_are_left_out() {
        let thresholds = Thresholds::compiled_in();
        let some = || Some(vec![1]);
        let found = generated(&[some(), None, some()], &[None, some(), some()], &thresholds).expect("one");
        assert_eq!(found.prompts, [2]);
        assert_eq!(generated(&[some()], &[None], &thresholds), None);
        assert_eq!(generated(&[], &[], &thresholds), None);
    }
}
