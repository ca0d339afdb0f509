//! What a recipe costs, and what a device adds.

use fidelity_compare::attribute;
use fidelity_trace::{PromptTrace, Scope};
use fidelity_verdict::Attribution;

use crate::traces::{base_logits, random_rows, verdict};

/// The rows and a share of others that are unrelated.
fn disturbed(rows: &[Vec<f32>], seed: u64, share: f32) -> Vec<Vec<f32>> {
    let noise = random_rows(seed, rows.len(), rows[0].len());
    let sum = |(row, noise): (&Vec<f32>, &Vec<f32>)| row.iter().zip(noise).map(|(a, b)| a + share * b).collect();
    rows.iter().zip(&noise).map(sum).collect()
}

/// Prompts whose emulator and device are each disturbed by a share of their own.
fn attributed(prompts: u64, emulator: f32, device: f32) -> Attribution {
    let of = |prompt: u64| {
        let rows = random_rows(prompt, 20, 40);
        let [emulated, found] =
            [(1000, emulator), (2000, device)].map(|(seed, share)| disturbed(&rows, seed + prompt, share));
        [rows, emulated, found].map(|rows| base_logits(&rows))
    };
    let all: Vec<[PromptTrace; 3]> = (0..prompts).map(of).collect();
    let pair =
        |a: usize, b: usize| verdict(&all.iter().map(|arms| (arms[a].clone(), arms[b].clone())).collect::<Vec<_>>());
    attribute(&pair(0, 2), &pair(0, 1), &pair(1, 2))
}

#[test]
fn a_device_as_far_off_as_its_recipe_adds_nothing() {
    let found = attributed(6, 0.3, 0.3);
    let base = &found.scopes[&Scope::Base];
    assert_eq!((base.rows, base.device_not_finite), (120, 0));
    assert!((base.recipe - base.device).abs() < 0.01 && base.implementation.is_some_and(|it| it < base.device));
    assert!(found.sentence.starts_with("the recipe alone predicts Pearson 0.9"), "{}", found.sentence);
    assert!(found.sentence.ends_with(": the device adds nothing measurable"), "{}", found.sentence);
    // Nor does one that is nearer to the reference than its emulator, but it hardly was compiled that way.
    let nearer = attributed(6, 0.4, 0.2).sentence;
    assert!(nearer.contains("nearer to float32 than this recipe predicts"), "{nearer}");
}

#[test]
fn what_a_device_adds_is_said_with_its_interval() {
    let found = attributed(6, 0.2, 0.4);
    let base = &found.scopes[&Scope::Base];
    let [low, high] = base.excess_interval.expect("six prompts");
    assert!(low > 0.0 && low < base.excess && base.excess < high, "{base:?}");
    assert!(found.sentence.contains(": toolchain, host or silicon take another 0.0"), "{}", found.sentence);
    assert!((base.excess - (base.recipe - base.device)).abs() < 1e-12);
}

#[test]
fn a_recipe_that_breaks_the_model_hides_the_rest_and_one_prompt_tells_nothing() {
    let broken = attributed(6, 1.5, 1.5);
    assert!(broken.sentence.ends_with("by itself hides what else is wrong"), "{}", broken.sentence);
    let one = attributed(1, 0.2, 0.4);
    assert_eq!(one.scopes[&Scope::Base].excess_interval, None);
    assert!(one.sentence.contains("with one prompt there is no telling"), "{}", one.sentence);
}

#[test]
fn rows_that_only_the_device_loses_are_not_the_recipes() {
    let rows = random_rows(3, 20, 40);
    let mut lost = rows.clone();
    lost[4][2] = f32::NAN;
    let [exact, device] = [&rows, &lost].map(|rows| base_logits(rows));
    let pair = |a: &PromptTrace, b: &PromptTrace| verdict(&[(a.clone(), b.clone()), (a.clone(), b.clone())]);
    let found = attribute(&pair(&exact, &device), &pair(&exact, &exact), &pair(&exact, &device));
    assert_eq!(found.scopes[&Scope::Base].device_not_finite, 2);
    assert!(found.sentence.ends_with("and 2 of its rows are not finite, which the recipe does not explain"));
    let nothing = attribute(&pair(&exact, &device), &verdict(&[]), &verdict(&[]));
    assert!(nothing.scopes.is_empty() && nothing.sentence.contains("nothing can be attributed"));
}
