//! Each fault changes the logits that it says, and leaves the others alone.

use fidelity_mock_soc::{Fault, Groups, HefOptions};

use crate::support::{Host, Pace, distance, hef, ids, start};

/// The last row of each step: six tokens in two prefill runs of four rows (the first padded), then six of tbt; the ring has 8
/// entries, so that tbt wraps it after two tokens.
fn steps(faults: &[Fault]) -> Vec<Vec<f32>> {
    let mock = start(|options| options.faults = faults.to_vec());
    let mut host = Host::open(mock.address(), &hef(&HefOptions::precise(4, 8))).expect("it opens");
    let ids = ids(12);
    let mut steps = host.feed(&ids[..6], Pace::Prefill).expect("prefill runs");
    steps.extend(host.feed(&ids[6..], Pace::Tbt).expect("tbt runs"));
    steps
}

/// The steps that a fault changes.
fn changed(fault: Fault) -> Vec<usize> {
    let (right, wrong) = (steps(&[]), steps(&[fault]));
    let pairs = right.iter().zip(&wrong).enumerate();
    let far = |(one, other): (&Vec<f32>, &Vec<f32>)| {
        let off = distance(one, other);
        // Without effect, bit for bit; with one, far beyond rounding.
        assert!(off.to_bits() == 0 || off > 0.2, "{fault:?}: {off}");
        off > 0.0
    };
    pairs.filter(|(_, pair)| far(*pair)).map(|(step, _)| step).collect()
}

#[test]
fn what_is_wrong_from_the_first_step_on() {
    for fault in [Fault::MaskInverted, Fault::ThetaSign, Fault::RopeTiledTwice, Fault::ShardsSwapped] {
        assert_eq!(changed(fault), [0, 1, 2, 3, 4, 5, 6, 7], "{fault:?}");
    }
}

#[test]
fn another_layout_in_tbt_shows_where_tbt_reads_what_prefill_wrote() {
    assert_eq!(changed(Fault::CacheLayout)[..5], [2, 3, 4, 5, 6]);
    assert!(!changed(Fault::CacheLayout).iter().any(|step| *step < 2));
}

#[test]
fn a_ring_that_does_not_move_shows_from_the_second_step_on() {
    assert_eq!(changed(Fault::OffsetNotAdvanced), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_ring_that_does_not_wrap_shows_after_it_should_have() {
    // The eighth token, in step 3, moves the offset to 0.
    assert_eq!(changed(Fault::RingWrap), [3, 4, 5, 6, 7]);
}

#[test]
fn swapped_shards_are_the_same_numbers_elsewhere() {
    let (right, wrong) = (steps(&[]), steps(&[Fault::ShardsSwapped]));
    for (right, wrong) in right.iter().zip(&wrong) {
        assert_eq!([&right[..128], &right[256..]].concat(), [&wrong[128..256], &wrong[256..]].concat());
    }
}

#[test]
fn a_fault_that_cannot_happen_is_no_silent_pass() {
    for (fault, options) in [
        (Fault::ShardsSwapped, HefOptions { shards: 1, ..HefOptions::precise(4, 8) }),
        (Fault::CacheLayout, HefOptions { groups: Groups::Prefill, ..HefOptions::precise(4, 8) }),
        (Fault::RingWrap, HefOptions::base(8)),
        (Fault::OffsetNotAdvanced, HefOptions::base(8)),
    ] {
        let mock = start(|mock| mock.faults = vec![fault]);
        assert_eq!(Host::open(mock.address(), &hef(&options)).err(), Some(6), "{fault:?}");
    }
}
