//! Encoders: judged by hidden rows, of which each depends on every token.

use fidelity_compare::conclude;
use fidelity_trace::{Network, PromptTrace, Scope, Site};
use fidelity_verdict::{Outcome, Verdict};

use crate::traces::{base, header, map, measure_of, prompt, random_rows, scope, tensor};

const ROWS: usize = 20;

/// A prompt of these last hidden states and their mean.
fn hidden(rows: &[Vec<f32>]) -> PromptTrace {
    with_pooled(rows, &mean(rows))
}

fn with_pooled(rows: &[Vec<f32>], pooled: &[f32]) -> PromptTrace {
    let mut scope = scope(&[(Site::FinalNorm, rows.to_vec())]);
    scope.sites.insert(Site::Pooled, tensor(&[pooled.to_vec()]));
    prompt([(Scope::Base, scope)])
}

fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at]).sum::<f32>() / rows.len() as f32).collect()
}

fn verdict(pairs: &[(PromptTrace, PromptTrace)]) -> Verdict {
    let mut header = header(pairs.len());
    header.network = Network::Encoder;
    let compared = pairs.iter().map(|(reference, device)| measure_of(Network::Encoder, reference, device));
    conclude(header, compared.collect())
}

fn verdict_of(reference: PromptTrace, device: PromptTrace) -> Verdict {
    verdict(&[(reference, device)])
}

#[test]
fn an_encoder_is_judged_by_its_hidden_rows() {
    let rows = random_rows(3, ROWS, 40);
    let found = verdict_of(hidden(&rows), hidden(&rows));
    assert_eq!((found.verdict, found.exit_code), (Outcome::Faithful, 0));
    assert_eq!(found.reason, "base: centred cosine 1.0000");
    let scope = base(&found);
    assert_eq!((scope.judged_site, scope.coverage.rows_compared, scope.rows.len()), (Site::FinalNorm, ROWS, ROWS));
    let row = &scope.rows[0];
    assert_eq!((row.centred_cosine, row.top1, row.reference_choice, row.kl), (Some(1.0), None, None, None));
    assert_eq!(scope.sites[&Site::Pooled].rows, 1, "a prompt has one");
    assert!(!scope.profile.sites.contains_key(&Site::Pooled), "it is at no position");
    let again = Verdict::parse(&found.to_json().expect("finite"), "verdict.json").expect("reads");
    assert_eq!(again, found);
}

#[test]
fn a_decoder_without_logits_is_not_judged_by_its_hidden_rows() {
    let rows = random_rows(3, ROWS, 40);
    let measured = measure_of(Network::Decoder, &hidden(&rows), &hidden(&rows));
    let found = conclude(header(1), vec![measured]);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    assert_eq!(found.reason, "base: the reference holds no logits");
}

#[test]
fn what_all_rows_have_in_common_does_not_count() {
    // Rows of a strong common direction: any row resembles any other.
    let common: Vec<f32> = (0..40).map(|at| if at % 3 == 0 { 90.0 } else { -30.0 }).collect();
    let add = |rows: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
        rows.into_iter().map(|row| row.iter().zip(&common).map(|(x, c)| x + c).collect()).collect()
    };
    let rows = add(random_rows(3, ROWS, 40));
    let mut shuffled = rows.clone();
    shuffled.rotate_left(1);
    let found = verdict_of(hidden(&rows), hidden(&shuffled));
    let site = &base(&found).sites[&Site::FinalNorm];
    assert!(site.pearson.is_some_and(|plain| plain.mean > 0.98), "{:?}", site.pearson);
    assert!(site.centred_cosine.is_some_and(|centred| centred.mean < 0.3), "{:?}", site.centred_cosine);
    assert_eq!(found.verdict, Outcome::Broken);
    assert!(found.reason.starts_with("base: mean centred cosine "), "{}", found.reason);
}

#[test]
fn a_constant_offset_is_seen() {
    // A dropped bias moves every row by one vector, which centring both arms by themselves would hide.
    let rows = random_rows(3, ROWS, 40);
    let offset: Vec<f32> = (0..40).map(|at| if at % 2 == 0 { 12.0 } else { -12.0 }).collect();
    let moved: Vec<Vec<f32>> = rows.iter().map(|row| row.iter().zip(&offset).map(|(x, o)| x + o).collect()).collect();
    assert_eq!(verdict_of(hidden(&rows), hidden(&moved)).verdict, Outcome::Broken);
}

#[test]
fn one_offset_in_every_channel_is_seen() {
    let prompts: Vec<_> = (0..16).map(|seed| random_rows(seed, 4, 40)).collect();
    let raised = |rows: &[Vec<f32>]| map(rows, |value| value + 100.0);
    let found = verdict(&prompts.iter().map(|rows| (hidden(rows), hidden(&raised(rows)))).collect::<Vec<_>>());
    assert_eq!((found.verdict, found.exit_code), (Outcome::Broken, 1));
    assert!(found.reason.starts_with("base: mean centred cosine "), "{}", found.reason);
    let only_pooled = |rows: &Vec<Vec<f32>>| (hidden(rows), with_pooled(rows, &raised(&[mean(rows)])[0]));
    let found = verdict(&prompts.iter().map(only_pooled).collect::<Vec<_>>());
    assert_eq!((found.verdict, found.exit_code), (Outcome::Broken, 1));
    assert!(found.reason.starts_with("base: mean pooled cosine "), "{}", found.reason);
}

#[test]
fn rows_of_another_scale_are_no_pass() {
    let rows = random_rows(3, ROWS, 40);
    // About the reference's centre, so that the centred cosine is 1.
    let centre = mean(&rows);
    let spread = |row: &Vec<f32>| row.iter().zip(&centre).map(|(x, mean)| mean + 50.0 * (x - mean)).collect();
    let device: Vec<Vec<f32>> = rows.iter().map(spread).collect();
    let found = verdict_of(hidden(&rows), hidden(&device));
    assert_eq!((found.verdict, found.exit_code), (Outcome::Degraded, 1));
    assert!(found.reason.starts_with("base: norms of final_norm rows are "), "{}", found.reason);
    let scaled = verdict_of(hidden(&rows), hidden(&map(&rows, |value| value * 50.0)));
    assert_eq!(scaled.exit_code, 1, "{}", scaled.reason);
}

#[test]
fn clipping_degrades_and_a_nan_breaks() {
    let rows = random_rows(3, ROWS, 40);
    let clipped = verdict_of(hidden(&rows), hidden(&map(&rows, |value| value.min(4.0))));
    assert_eq!((clipped.verdict, clipped.exit_code), (Outcome::Degraded, 1));
    let bad = verdict_of(hidden(&rows), hidden(&map(&rows, |value| if value > 7.99 { f32::NAN } else { value })));
    assert_eq!(bad.verdict, Outcome::Broken);
    assert!(bad.reason.contains("final_norm rows hold a NaN or an infinity"), "{}", bad.reason);
}

#[test]
fn few_rows_are_inconclusive() {
    let rows = random_rows(3, 15, 40);
    let found = verdict_of(hidden(&rows), hidden(&rows));
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    assert_eq!(found.reason, "base: only 15 rows compared, 16 needed");
}

#[test]
fn prompts_of_one_token_define_no_centred_cosine() {
    let prompts: Vec<_> = (0..20).map(|seed| random_rows(seed, 1, 40)).collect();
    let found = verdict(&prompts.iter().map(|rows| (hidden(rows), hidden(rows))).collect::<Vec<_>>());
    assert_eq!(found.verdict, Outcome::Inconclusive);
    assert_eq!(
        found.reason,
        "base: centred cosine is undefined: the reference's final_norm is the same in every row of a prompt"
    );
}

#[test]
fn a_wrong_pooled_row_forbids_a_pass_and_many_break_it() {
    let prompt = |seed: u64| {
        let rows = random_rows(seed, 4, 40);
        // The first row instead of the mean of all.
        (hidden(&rows), with_pooled(&rows, &rows[0]))
    };
    let few = verdict(&(0..4).map(prompt).collect::<Vec<_>>());
    assert_eq!((few.verdict, few.exit_code), (Outcome::Inconclusive, 3));
    assert!(few.reason.contains(" in only 4 rows; centred cosine 1.0000"), "{}", few.reason);
    let many = verdict(&(0..16).map(prompt).collect::<Vec<_>>());
    assert_eq!((many.verdict, many.exit_code), (Outcome::Broken, 1));
    assert!(many.reason.starts_with("base: mean pooled cosine 0."), "{}", many.reason);
    let nan = verdict(&[(hidden(&random_rows(1, ROWS, 40)), with_pooled(&random_rows(1, ROWS, 40), &[f32::NAN; 40]))]);
    assert_eq!(nan.verdict, Outcome::Broken);
}

#[test]
fn pooled_rows_that_cannot_be_compared_are_no_pass() {
    let rows = random_rows(3, ROWS, 40);
    let found = verdict_of(hidden(&rows), with_pooled(&rows, &mean(&rows)[..39]));
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    let reason = "base: the pooled rows cannot be compared: the arm has 39 values a row, the reference 40; centred";
    assert!(found.reason.starts_with(reason), "{}", found.reason);
    let found = verdict_of(with_pooled(&rows, &[f32::NAN; 40]), hidden(&rows));
    assert_eq!(found.verdict, Outcome::Inconclusive, "{}", found.reason);
    let longer = mean(&rows).iter().map(|value| value * 2.0).collect::<Vec<_>>();
    let found = verdict_of(hidden(&rows), with_pooled(&rows, &longer));
    assert_eq!(found.verdict, Outcome::Degraded, "{}", found.reason);
}

#[test]
fn an_arm_without_pooled_rows_is_noted() {
    let rows = random_rows(3, ROWS, 40);
    let mut device = hidden(&rows);
    device.scopes.get_mut(&Scope::Base).expect("there").sites.remove(&Site::Pooled);
    let found = verdict_of(hidden(&rows), device);
    assert_eq!(found.verdict, Outcome::Faithful);
    assert_eq!(found.notes, ["base/pooled: the arm holds none in 1 of 1 prompts"]);
}

#[test]
fn the_pooled_row_alone_is_no_pass() {
    let rows = random_rows(3, ROWS, 40);
    let mut device = hidden(&rows);
    device.scopes.get_mut(&Scope::Base).expect("there").sites.remove(&Site::FinalNorm);
    let found = verdict_of(hidden(&rows), device);
    assert_eq!((found.verdict, found.reason.as_str()), (Outcome::Inconclusive, "base: the arm holds no final_norm"));
    assert_eq!(base(&found).coverage.rows_missing, ROWS);
}

#[test]
fn one_other_token_makes_every_row_another() {
    let rows = random_rows(3, ROWS, 40);
    let mut device = hidden(&rows);
    device.scopes.get_mut(&Scope::Base).expect("there").token_ids[ROWS - 1] = 999;
    let found = verdict_of(hidden(&rows), device);
    assert_eq!(found.verdict, Outcome::Inconclusive);
    assert_eq!((base(&found).coverage.rows_compared, base(&found).coverage.rows_other_token), (0, ROWS));
    assert_eq!(base(&found).sites[&Site::Pooled].rows, 0);
}
