//! Choices, ties and probabilities, through the public door.

use std::collections::BTreeMap;

use fidelity_compare::{PromptSettings, compare_prompt, conclude};
use fidelity_trace::{Network, PromptTrace, Scope};
use fidelity_verdict::Agreement::{self, Agree, Flip, Tie};

use crate::traces::{base, base_logits, header, logits, verdict_of};

/// Whether one row of the arm makes the reference's choice.
fn choice(
    reference: &PromptTrace,
    device: &[f32],
    noise_floor: Option<f64>,
    logits_step: Option<&[f64]>,
) -> (Agreement, Agreement) {
    let noise_floor: BTreeMap<String, f64> =
        noise_floor.map(|floor| ("logits".to_owned(), floor)).into_iter().collect();
    let settings = PromptSettings { noise_floor: &noise_floor, logits_step, network: Network::Decoder };
    let compared = compare_prompt(reference, &base_logits(&[device.to_vec()]), None, &settings);
    let found = conclude(header(1), vec![compared]);
    let row = &base(&found).rows[0];
    (row.top1.expect("of logits"), row.top5.expect("of logits"))
}

fn with_noise(row: &[f32], noise: f32) -> PromptTrace {
    let mut trace = base_logits(&[row.to_vec()]);
    trace.scopes.get_mut(&Scope::Base).expect("base").logits_noise = Some(vec![noise]);
    trace
}

#[test]
fn noise_comes_from_the_row_or_else_from_the_floor() {
    // A gap of 0.5 between the two ids. ‖row‖ / √V = 500 / 2, and a thousandth of the spread is 0.5.
    let (row, device) = ([3.0, 3.5, 0.0, -499.978_75], [4.0, 3.0, 0.0, 1.0]);
    let trace = base_logits(&[row.to_vec()]);
    assert_eq!(choice(&trace, &device, None, None).0, Flip);
    assert_eq!(choice(&trace, &device, Some(0.001_01), None).0, Tie);
    assert_eq!(choice(&trace, &device, Some(0.000_99), None).0, Flip);
    assert_eq!(choice(&with_noise(&row, 0.26), &device, None, None).0, Tie);
    assert_eq!(choice(&with_noise(&row, 0.24), &device, Some(0.5), None).0, Flip, "the row's own noise counts");
    assert_eq!(choice(&with_noise(&row, f32::NAN), &device, None, None).0, Flip);
}

#[test]
fn a_grid_of_eight_bits_ties_on_one_code_and_not_on_two() {
    let reference = base_logits(&[vec![0.0, 9.0, 8.0, 1.0]]);
    let step = 0.25_f32;
    let device = |codes: [i16; 4]| codes.map(|code| f32::from(code) * step);
    let grid = [f64::from(step)];
    assert_eq!(choice(&reference, &device([0, 35, 35, 4]), None, Some(&grid)).0, Agree);
    assert_eq!(choice(&reference, &device([35, 35, 0, 4]), None, Some(&grid)).0, Tie);
    assert_eq!(choice(&reference, &device([36, 35, 0, 4]), None, Some(&grid)).0, Flip);
    // Saturation: every id on the highest code.
    let wide = base_logits(&[(0..9).map(|id| if id == 8 { 9.0 } else { 0.1 * id as f32 }).collect()]);
    let saturated = [31.75, 31.75, 31.75, 31.75, 31.75, 31.75, 31.75, 0.0, 31.75];
    assert_eq!(choice(&wide, &saturated, None, Some(&grid)), (Flip, Flip));
}

#[test]
fn a_reference_that_cannot_decide_is_a_tie() {
    assert_eq!(choice(&base_logits(&[vec![0.0, 5.0, 5.0]]), &[0.0, 4.0, 5.0], None, None).0, Tie);
}

#[test]
fn perplexity_is_of_the_tokens_fed_next() {
    // Tokens fed: 0, 1, 2. p_reference(1 | row 0) = 0.8, arm 0.5; p_reference(2 | row 1) = 0.5, arm 0.25.
    let ln = |row: [f32; 3]| row.map(f32::ln).to_vec();
    let last = ln([0.2, 0.2, 0.6]);
    let reference = base_logits(&[ln([0.1, 0.8, 0.1]), ln([0.25, 0.25, 0.5]), last.clone()]);
    let device = base_logits(&[ln([0.25, 0.5, 0.25]), ln([0.5, 0.25, 0.25]), last]);
    let found = verdict_of(&reference, &device);
    let ratio = logits(&found).1.perplexity_ratio.expect("two rows are followed by a token");
    let expected = ((0.8_f64 / 0.5).ln() / 2.0 + (0.5_f64 / 0.25).ln() / 2.0).exp();
    assert!((ratio - expected).abs() < 1e-6, "{ratio} is not {expected}");
}

#[test]
fn one_row_has_no_perplexity() {
    let trace = base_logits(&[vec![1.0, 2.0]]);
    assert_eq!(logits(&verdict_of(&trace, &trace)).1.perplexity_ratio, None);
}

#[test]
fn rank_and_log_probability_are_of_the_references_choice() {
    let found = verdict_of(&base_logits(&[vec![0.0, 0.0, 9.0]]), &base_logits(&[vec![1.0, 1.0, 0.0]]));
    let row = &base(&found).rows[0];
    assert_eq!((row.reference_choice, row.device_choice, row.rank, row.top1), (Some(2), Some(0), Some(2), Some(Flip)));
    let (e, e9) = (1.0_f64.exp(), 9.0_f64.exp());
    let expected = (1.0 / (2.0 * e + 1.0)).ln() - (e9 / (e9 + 2.0)).ln();
    let stored = row.delta_log_prob.expect("finite");
    assert!((stored - expected).abs() < 1e-5 * expected.abs(), "{stored} is not {expected}");
}
