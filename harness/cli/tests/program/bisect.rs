//! `fidelity bisect`.

use serde_json::Value;

use crate::support::{Answer, Desk, json};

const SHORT: [&str; 4] = ["--recipe", "none", "--new-tokens", "4"];

fn bisected(desk: &Desk, more: &[&str]) -> (Answer, Value) {
    let answer = desk.fidelity(&[&["bisect", "--json", "--out", "out"][..], &SHORT, more].concat());
    let bisection = serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    (answer, bisection)
}

#[test]
fn the_block_with_the_fault_is_found_and_the_network_is_good_without_it() {
    let desk = Desk::new();
    let (answer, bisection) = bisected(&desk, &["--by", "block", "--fault", "gqa_tile@2"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(bisection["finding"], "threshold", "{bisection:#}");
    assert_eq!((&bisection["last_good"], &bisection["first_bad"]), (&2.into(), &3.into()));
    assert_eq!(bisection["sentence"], "good with the first 2 blocks, bad with the first 3 blocks: look at block 2");
    assert_eq!(bisection["skipped"]["standing"], "good", "{bisection:#}");
    assert_eq!(bisection, json(&desk.path("out/bisection.json")));

    // What was measured is there already: nothing is forged or run again.
    std::fs::remove_dir_all(desk.path("out/checkpoints")).expect("there");
    let (_, again) = bisected(&desk, &["--by", "block", "--fault", "gqa_tile@2"]);
    assert_eq!(again, bisection);
    assert!(!desk.path("out/checkpoints").exists());
}

#[test]
fn the_first_head_that_reads_another_key_is_found() {
    let desk = Desk::new();
    let (answer, bisection) =
        bisected(&desk, &["--by", "head", "--block", "1", "--fault", "gqa_tile@1", "--threshold", "0.99999"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    // Tiled and repeated, head 0 reads the same key and value head; head 1 does not.
    assert_eq!((&bisection["last_good"], &bisection["first_bad"]), (&1.into(), &2.into()), "{bisection:#}");
    assert!(bisection["sentence"].as_str().is_some_and(|it| it.ends_with("look at head 1")), "{bisection:#}");
}

#[test]
fn the_first_position_that_is_wrong_is_found() {
    let desk = Desk::new();
    let (answer, bisection) = bisected(&desk, &["--by", "position", "--fault", "rope_missing"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    // Alone at position 0, a token needs no rotation.
    assert!(bisection["last_good"].as_u64().is_some_and(|good| good >= 1), "{bisection:#}");
    assert_eq!(bisection["compiles"], 0);
}

#[test]
fn a_faithful_arm_leaves_nothing_to_bisect() {
    let desk = Desk::new();
    let answer = desk.fidelity(&[&["bisect", "--by", "block", "--out", "out"][..], &SHORT].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(
        answer.last_line().starts_with("bisect block: good with the first 4 blocks: nothing to bisect"),
        "{answer:?}"
    );
}

#[test]
fn the_width_from_which_an_arm_is_wrong_is_found_on_a_ladder() {
    let desk = Desk::new();
    let made = desk.fidelity(&["forge", "--ladder", "hidden=160..256:32", "--out", "ladder", "--quiet"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let fine =
        desk.fidelity(&[&["bisect", "--by", "hidden", "--ladder", "ladder", "--out", "out"][..], &SHORT].concat());
    assert_eq!(fine.code, Some(0), "{fine:?}");
    let (answer, bisection) =
        bisected(&Desk::new(), &["--by", "block", "--fault", "rope_twice", "--budget", "2", "--threshold", "0.99999"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(bisection["measured"].as_array().map(Vec::len), Some(2), "{bisection:#}");
}

#[test]
fn what_cannot_be_bisected_is_said() {
    let desk = Desk::new();
    for (arguments, said) in [
        (vec!["--by", "head"], "--block"),
        (vec!["--by", "hidden"], "--ladder"),
        (vec!["--by", "hidden", "--ladder", "."], "no checkpoint is there"),
        (vec!["--by", "head", "--block", "9"], "counted from 0"),
        (vec!["--by", "block", "--device", "replay=x"], "cannot be run again"),
        (vec!["--by", "position", "--prompt", "Once"], "needs 4 prompts"),
        (vec!["--by", "block", "--device", "hailo"], "--hef"),
    ] {
        let answer = desk.fidelity(&[&["bisect"][..], &arguments].concat());
        assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(said), "{arguments:?}: {answer:?}");
    }
    let device = ["bisect", "--by", "head", "--block", "1", "--device", "hailo", "--hefs", "hefs", "--out", "out"];
    let answer = desk.fidelity(&device);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.stderr.contains("block-1-heads-") && answer.stderr.contains("compile"), "{answer:?}");
}
