//! Outcomes, reasons and exit codes.

use std::collections::BTreeMap;

use fidelity_compare::{BOOTSTRAP, Header, NotComputed, PromptComparison, conclude, generated};
use fidelity_trace::{BlockSite, PromptTrace, Scope, Site, Status};
use fidelity_verdict::{Outcome, Verdict};

use crate::traces::{base, base_logits, header, logits, map, measure, prompt, random_rows, scope, verdict, verdict_of};

/// 20 rows of reference logits and what the arm makes of them.
fn with(change: impl Fn(f32) -> f32) -> (PromptTrace, PromptTrace) {
    let rows = random_rows(1, 20, 40);
    (base_logits(&rows), base_logits(&map(&rows, change)))
}

/// Concludes one prompt with a changed header.
fn concluded((reference, device): &(PromptTrace, PromptTrace), change: impl FnOnce(&mut Header)) -> Verdict {
    let mut header = header(1);
    change(&mut header);
    conclude(header, vec![measure(reference, device)])
}

#[test]
fn a_trace_is_faithful_to_itself() {
    let (reference, _) = with(|value| value);
    let found = verdict_of(&reference, &reference);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Faithful, 0));
    assert_eq!(found.reason, "base: Pearson 1.0000, top-1 1.000");
    let (site, own) = logits(&found);
    assert_eq!((site.rows, site.exact_rows, site.sqnr_db), (20, 20, None));
    let mean = |summary: Option<fidelity_verdict::Summary>| summary.map(|summary| summary.mean);
    assert_eq!((mean(site.pearson), mean(site.relative_l2), mean(own.kl)), (Some(1.0), Some(0.0), Some(0.0)));
    assert_eq!((own.top1.agree, own.top1.rate_strict, own.perplexity_ratio), (20, Some(1.0), Some(1.0)));
    assert!(found.notes.is_empty());
}

#[test]
fn a_sign_flip_is_broken_and_a_clip_is_degraded() {
    let flipped = concluded(&with(|value| -value), |_| ());
    assert_eq!((flipped.verdict, flipped.exit_code), (Outcome::Broken, 1));
    assert_eq!(flipped.reason, "base: mean logits Pearson -1.0000 is below 0.90; first bad site logits");
    let clipped = concluded(&with(|value| value.min(3.0)), |_| ());
    assert_eq!((clipped.verdict, clipped.exit_code), (Outcome::Degraded, 1));
    assert!(clipped.reason.starts_with("base: mean logits Pearson 0.9"), "{}", clipped.reason);
    assert!(clipped.reason.contains(" and top-1 "), "{}", clipped.reason);
}

#[test]
fn rows_of_another_scale_are_no_pass() {
    for scale in [50.0, 0.02, 1.3, 0.75] {
        let found = concluded(&with(|value| value * scale), |_| ());
        assert_eq!((found.verdict, found.exit_code), (Outcome::Degraded, 1), "{scale}");
        assert!(found.reason.starts_with("base: norms of logits rows are "), "{}", found.reason);
    }
    assert_eq!(concluded(&with(|value| value * 1.2), |_| ()).verdict, Outcome::Faithful);
    // In the mean these have the right norm.
    let rows = random_rows(1, 20, 40);
    let scaled = |(index, row): (usize, &Vec<f32>)| {
        row.iter().map(|value| value * if index % 2 == 0 { 0.1 } else { 1.9 }).collect()
    };
    let device: Vec<Vec<f32>> = rows.iter().enumerate().map(scaled).collect();
    assert_eq!(verdict_of(&base_logits(&rows), &base_logits(&device)).verdict, Outcome::Degraded);
}

#[test]
fn one_row_that_is_not_finite_is_broken_however_few_rows() {
    let device = |bad| base_logits(&[vec![1.0, bad, 2.0]]);
    for bad in [f32::NAN, f32::INFINITY] {
        let found = verdict_of(&base_logits(&[vec![1.0, 2.0, 3.0]]), &device(bad));
        assert_eq!((found.verdict, found.exit_code), (Outcome::Broken, 1));
        let reason = "base: 1 of 1 logits rows hold a NaN or an infinity; first bad site logits";
        assert_eq!(found.reason, reason);
        let row = &base(&found).rows[0];
        assert_eq!((row.finite, row.device_choice, row.pearson, row.max_abs), (false, None, None, None));
        assert_eq!(logits(&found).1.top1.flips, 1);
        assert_eq!(logits(&found).0.pearson, None);
    }
}

#[test]
fn a_nan_in_both_is_no_match() {
    let both = base_logits(&[vec![1.0, f32::NAN, 3.0]]);
    let found = verdict_of(&both, &both);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    assert_eq!(base(&found).coverage.rows_reference_not_finite, 1);
    assert_eq!(base(&found).coverage.rows_compared, 0);
    assert_eq!(found.notes, ["base/logits: 1 row not compared, the reference holds a NaN or an infinity there"]);
}

#[test]
fn a_reference_that_is_not_finite_in_any_row_is_no_judge() {
    let mut rows = random_rows(3, 40, 10);
    let device = base_logits(&rows);
    rows[16..].iter_mut().for_each(|row| row[2] = f32::NAN);
    let found = verdict_of(&base_logits(&rows), &device);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    let reason = "base: the reference itself holds a NaN or an infinity in 24 rows of logits; Pearson 1.0000";
    assert!(found.reason.starts_with(reason), "{}", found.reason);
    let wrong = verdict_of(&base_logits(&rows), &base_logits(&map(&random_rows(3, 40, 10), |value| -value)));
    assert_eq!(wrong.verdict, Outcome::Broken, "what is wrong stays wrong");
}

#[test]
fn constant_logits_are_flips_even_where_the_choice_is_id_0() {
    let mut rows = random_rows(3, 20, 10);
    rows.iter_mut().for_each(|row| row[0] = 100.0);
    let found = verdict_of(&base_logits(&rows), &base_logits(&map(&rows, |_| 4.0)));
    let (site, own) = logits(&found);
    assert_eq!((site.constant_rows, own.top1.flips, own.top5.flips), (20, 20, 20));
    assert_eq!(found.verdict, Outcome::Broken);
    assert_eq!(found.reason, "base: mean logits Pearson 0.0000 is below 0.90; first bad site logits");
}

#[test]
fn a_constant_reference_decides_nothing() {
    let found = concluded(&(base_logits(&vec![vec![2.0; 8]; 20]), base_logits(&random_rows(1, 20, 8))), |_| ());
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    assert!(found.reason.contains("Pearson is undefined"), "{}", found.reason);
}

#[test]
fn too_few_rows_decide_nothing() {
    let rows = random_rows(1, 7, 10);
    let found = verdict_of(&base_logits(&rows), &base_logits(&map(&rows, |value| -value)));
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    assert_eq!(found.reason, "base: only 7 rows compared, 16 needed; first bad site logits");
}

#[test]
fn an_empty_comparison_is_inconclusive_whatever_is_expected() {
    for found in [conclude(header(0), vec![]), verdict(&[]), verdict_of(&prompt([]), &prompt([]))] {
        assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
        assert_eq!(found.reason, "nothing was compared");
    }
    let found = concluded(&(prompt([]), prompt([])), |header| header.expect = vec!["inconclusive".into()]);
    assert_eq!((found.exit_code, found.reason.as_str()), (3, "nothing was compared"));
}

#[test]
fn an_arm_that_failed_is_a_device_failure_where_too_little_is_left() {
    let failed = |device: NotComputed| {
        let mut header = header(2);
        header.prompts.iter_mut().for_each(|prompt| prompt.status = Status::Failed);
        header.device_not_computed = device;
        conclude(header, vec![PromptComparison::default(); 2])
    };
    let found = failed(NotComputed::count([Status::Failed, Status::Skipped]));
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 4));
    assert_eq!(found.notes, ["1 of 2 prompts failed in the arm", "1 of 2 prompts were not run by the arm"]);
    assert_eq!(failed(NotComputed::count([Status::Skipped, Status::Skipped])).exit_code, 3);
    assert_eq!(failed(NotComputed::count([Status::Failed, Status::Ok])).exit_code, 4);
}

#[test]
fn what_is_expected_exits_0_and_says_so() {
    let broken = with(|value| -value);
    let found = concluded(&broken, |header| header.expect = vec!["broken".into()]);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Broken, 0));
    assert!(found.reason.ends_with("; as expected"), "{}", found.reason);
    let found = concluded(&broken, |header| header.expect = vec!["degraded".into()]);
    assert_eq!(
        (found.exit_code, found.notes.as_slice()),
        (1, ["expected degraded, found broken".to_owned()].as_slice())
    );
    let found = concluded(&with(|value| value), |header| header.expect = vec!["broken".into()]);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Faithful, 0));
    assert_eq!(found.notes, ["expected broken, found faithful"]);
}

#[test]
fn degenerate_text_is_broken_and_joins_the_scopes_reason() {
    let text = |header: &mut Header| {
        let (varied, repeated) = (Some((0..16).collect()), Some(vec![7; 16]));
        header.generated = generated(&[varied], &[repeated], &header.thresholds);
    };
    let faithful = concluded(&with(|value| value), text);
    assert_eq!((faithful.verdict, faithful.exit_code), (Outcome::Broken, 1));
    assert_eq!(faithful.reason, "greedy text degenerates into one repeated token in 1 of 1 prompts");
    let broken = concluded(&with(|value| -value), text);
    assert!(broken.reason.starts_with("base: mean logits Pearson -1"), "{}", broken.reason);
    assert!(broken.reason.ends_with("; greedy text degenerates into one repeated token in 1 of 1 prompts"));
}

#[test]
fn the_run_is_its_worst_scope_and_names_those_alike() {
    let rows = random_rows(5, 20, 30);
    let of = |rows: &[Vec<f32>]| scope(&[(Site::Logits, rows.to_vec())]);
    let (good, bad) = (of(&rows), of(&map(&rows, |value| -value)));
    let reference = prompt([Scope::Base, Scope::Prefill, Scope::Tbt].map(|scope| (scope, good.clone())));
    let device = prompt([(Scope::Base, good), (Scope::Prefill, bad.clone()), (Scope::Tbt, bad)]);
    let found = verdict_of(&reference, &device);
    assert_eq!(found.verdict, Outcome::Broken);
    let reason = "prefill: mean logits Pearson -1.0000 is below 0.90; first bad site logits; tbt also broken";
    assert_eq!(found.reason, reason);
    assert_eq!(base(&found).verdict, Outcome::Faithful);
}

#[test]
fn the_first_bad_site_is_named_with_its_numbers() {
    let site = |block| Site::Block(block, BlockSite::ResidPost);
    let (good, after) = (random_rows(2, 20, 12), random_rows(3, 20, 12));
    let reference = [(Site::Embed, good.clone()), (site(0), good.clone()), (site(1), good), (Site::Logits, after)];
    let mut device = reference.clone();
    for (_, rows) in &mut device[1..] {
        *rows = map(rows, |value| value * 1.5);
    }
    let base_of = |sites: &[_]| prompt([(Scope::Base, scope(sites))]);
    let pair = (base_of(&reference), base_of(&device));
    let found = concluded(&pair, |_| ());
    let detail = base(&found).first_bad_site_detail.clone().expect("bad");
    assert_eq!((detail.site, detail.after, detail.median_relative_l2), (site(0), Some(Site::Embed), Some(0.5)));
    let noisy = BTreeMap::from([("blocks.0.resid_post".to_owned(), 0.06)]);
    let found = concluded(&pair, |header| header.noise_floor = noisy);
    assert_eq!(base(&found).first_bad_site, Some(site(1)));
}

#[test]
fn a_reference_far_from_its_own_float64_cannot_judge() {
    let rows = random_rows(2, 20, 12);
    let z = Site::Block(3, BlockSite::Z);
    let trace = prompt([(Scope::Base, scope(&[(z, rows.clone()), (Site::Logits, rows)]))]);
    let with_floor = |site: &str, floor| {
        let noise_floor = BTreeMap::from([(site.to_owned(), floor)]);
        concluded(&(trace.clone(), trace.clone()), |header| header.noise_floor = noise_floor)
    };
    let found = with_floor("blocks.3.z", 0.2);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    let reason = "base: the reference is 2.00e-1 away from its own float64 at blocks.3.z and cannot judge (limit 1e-3)";
    assert!(found.reason.starts_with(reason), "{}", found.reason);
    assert_eq!(with_floor("blocks.3.z", 1e-3).verdict, Outcome::Faithful);
    assert_eq!(with_floor("blocks.4.z", 0.2).verdict, Outcome::Faithful, "not compared");
}

#[test]
fn the_same_traces_give_the_same_bytes_and_they_read_back() {
    let pairs: Vec<_> = (0..3)
        .map(|seed| {
            let rows = random_rows(seed, 9, 20);
            let mut device = map(&rows, |value| value + 0.3 * (value * 7.0).sin());
            device[2][3] = f32::NAN;
            (base_logits(&rows), base_logits(&device))
        })
        .collect();
    let (once, again) = (verdict(&pairs), verdict(&pairs));
    let text = once.to_json().expect("finite numbers");
    assert_eq!(text, again.to_json().expect("finite numbers"));
    assert_eq!(Verdict::parse(&text, "verdict.json").expect("of this format"), once);
    assert_eq!((once.bootstrap, once.bootstrap.resamples), (BOOTSTRAP, 2000));
}

#[test]
fn extreme_logits_still_read_back() {
    let (low, high) = (vec![-1e38, 1e38, 0.0], vec![1e38, -1e38, 0.0]);
    let found = verdict_of(&base_logits(&vec![low; 20]), &base_logits(&vec![high; 20]));
    let text = found.to_json().expect("finite numbers");
    assert_eq!(Verdict::parse(&text, "verdict.json").expect("of this format"), found);
}

#[test]
fn one_prompt_has_no_interval_and_two_have() {
    let (reference, device) = with(|value| value + 0.1 * value.sin());
    assert_eq!(logits(&verdict_of(&reference, &device)).0.pearson.expect("rows").interval, None);
    let pair = (reference, device);
    let found = verdict(&[pair.clone(), pair]);
    let (site, own) = logits(&found);
    assert!(site.pearson.expect("rows").interval.is_some() && own.top1.interval.is_some());
}
