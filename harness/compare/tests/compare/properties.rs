//! What holds for any traces.

use fidelity_trace::{PromptTrace, Scope, Site};
use fidelity_verdict::{Outcome, SiteResult, Summary, Verdict};
use proptest::prelude::*;

use crate::traces::{base, base_logits, logits, map, random_rows, verdict, verdict_of};

/// Rows of logits, none constant.
fn rows() -> impl Strategy<Value = Vec<Vec<f32>>> {
    (1_usize..24, 2_usize..24).prop_flat_map(|(rows, width)| {
        let row = prop::collection::vec(-1e3_f32..1e3, width)
            .prop_filter("constant", |row| row.iter().any(|value| (value - row[0]).abs() > 1e-3));
        prop::collection::vec(row, rows)
    })
}

/// The reference's rows, and the arm's of the same shape.
fn pairs() -> impl Strategy<Value = (Vec<Vec<f32>>, Vec<Vec<f32>>)> {
    (rows(), any::<u64>()).prop_map(|(reference, seed)| {
        let device = random_rows(seed % 1000, reference.len(), reference[0].len());
        (reference, device)
    })
}

fn metrics(site: &SiteResult) -> [Option<Summary>; 7] {
    let SiteResult { cosine, pearson, relative_l2, nmse, sqnr_db, max_abs, norm_ratio, .. } = site;
    [*cosine, *pearson, *relative_l2, *nmse, *sqnr_db, *max_abs, *norm_ratio]
}

/// Equal up to rounding in everything but the interval.
fn alike(a: Option<Summary>, b: Option<Summary>) -> Result<(), TestCaseError> {
    let numbers = |summary: Summary| [summary.mean, summary.min, summary.max, summary.p05, summary.p50, summary.p95];
    prop_assert_eq!(a.map(|summary| summary.n), b.map(|summary| summary.n));
    for (a, b) in a.into_iter().flat_map(numbers).zip(b.into_iter().flat_map(numbers)) {
        prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(1e-3), "{a} is not {b}");
    }
    Ok(())
}

fn reordered(trace: &PromptTrace, order: &[usize]) -> PromptTrace {
    let mut trace = trace.clone();
    let scope = trace.scopes.get_mut(&Scope::Base).expect("base");
    scope.positions = order.iter().map(|row| scope.positions[*row]).collect();
    scope.token_ids = order.iter().map(|row| scope.token_ids[*row]).collect();
    let tensor = scope.sites.get_mut(&Site::Logits).expect("logits");
    tensor.values = order.iter().flat_map(|row| tensor.row(*row).to_vec()).collect();
    trace
}

fn json(verdict: &Verdict) -> String {
    verdict.to_json().expect("finite numbers")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_trace_compared_with_itself_is_perfect(rows in rows()) {
        let trace = base_logits(&rows);
        let found = verdict_of(&trace, &trace);
        let (site, own) = logits(&found);
        let all = |summary: Option<Summary>| summary.map(|summary| (summary.mean, summary.min, summary.max));
        prop_assert_eq!(all(site.pearson), Some((1.0, 1.0, 1.0)));
        prop_assert_eq!(all(site.relative_l2), Some((0.0, 0.0, 0.0)));
        prop_assert_eq!(all(own.kl), Some((0.0, 0.0, 0.0)));
        prop_assert_eq!((site.exact_rows, own.top1.agree, own.top5.agree), (rows.len(), rows.len(), rows.len()));
        let outcome = if rows.len() < 16 { Outcome::Inconclusive } else { Outcome::Faithful };
        prop_assert_eq!(found.verdict, outcome);
    }

    #[test]
    fn the_order_of_rows_changes_not_a_byte((reference, device) in pairs(), seed in any::<u64>()) {
        let (reference, device) = (base_logits(&reference), base_logits(&device));
        let mut order: Vec<usize> = (0..reference.scopes[&Scope::Base].positions.len()).collect();
        order.sort_by_key(|row| (*row as u64 + 1).wrapping_mul(seed | 1));
        let shuffled = reordered(&device, &order);
        prop_assert_eq!(json(&verdict_of(&reference, &device)), json(&verdict_of(&reference, &shuffled)));
        prop_assert_eq!(json(&verdict_of(&reference, &device)), json(&verdict_of(&reordered(&reference, &order), &device)));
    }

    #[test]
    fn the_order_of_prompts_changes_only_the_order_of_rows(
        prompts in prop::collection::vec(pairs(), 2..5),
    ) {
        let width = prompts.iter().map(|(rows, _)| rows[0].len()).min().expect("two at least");
        let cut = |rows: &[Vec<f32>]| base_logits(&rows.iter().map(|row| row[..width].to_vec()).collect::<Vec<_>>());
        let mut traces: Vec<_> = prompts.iter().map(|(reference, device)| (cut(reference), cut(device))).collect();
        let found = verdict(&traces);
        traces.reverse();
        let reversed = verdict(&traces);
        for (a, b) in metrics(logits(&found).0).into_iter().zip(metrics(logits(&reversed).0)) {
            alike(a, b)?;
        }
        prop_assert_eq!(logits(&found).1.top1.flips, logits(&reversed).1.top1.flips);
        let last = prompts.len() - 1;
        let mut rows = base(&reversed).rows.clone();
        rows.iter_mut().for_each(|row| row.prompt = last - row.prompt);
        rows.sort_by_key(|row| (row.prompt, row.position));
        prop_assert_eq!(&base(&found).rows, &rows);
    }

    #[test]
    fn scaling_the_arm_scales_its_norm_and_keeps_its_direction((reference, device) in pairs(), power in -8_i32..8) {
        let scale = 2.0_f32.powi(power);
        let plain = verdict_of(&base_logits(&reference), &base_logits(&device));
        let scaled = verdict_of(&base_logits(&reference), &base_logits(&map(&device, |value| value * scale)));
        let (a, b) = (logits(&plain), logits(&scaled));
        alike(a.0.pearson, b.0.pearson)?;
        alike(a.0.cosine, b.0.cosine)?;
        alike(a.1.rank, b.1.rank)?;
        let norm = |site: &SiteResult| site.norm_ratio.expect("no reference row is zero").mean;
        prop_assert!((norm(a.0) * f64::from(scale) / norm(b.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn scaling_both_arms_changes_no_relative_metric((reference, device) in pairs(), power in -8_i32..8) {
        let scaled = |rows: &[Vec<f32>]| base_logits(&map(rows, |value| value * 2.0_f32.powi(power)));
        let plain = verdict_of(&base_logits(&reference), &base_logits(&device));
        let both = verdict_of(&scaled(&reference), &scaled(&device));
        let (a, b) = (logits(&plain).0, logits(&both).0);
        for (a, b) in [(a.pearson, b.pearson), (a.relative_l2, b.relative_l2), (a.nmse, b.nmse), (a.sqnr_db, b.sqnr_db)] {
            alike(a, b)?;
        }
    }

    #[test]
    fn metrics_keep_their_bounds_and_relations((reference, device) in pairs()) {
        let found = verdict_of(&base_logits(&reference), &base_logits(&device));
        let (site, own) = logits(&found);
        prop_assert!(own.kl.expect("finite").min >= 0.0);
        for similarity in [site.pearson, site.cosine].into_iter().flatten() {
            prop_assert!(-1.0 <= similarity.min && similarity.max <= 1.0);
        }
        let (error, sqnr) = (site.relative_l2.expect("defined"), site.sqnr_db.expect("rows differ"));
        prop_assert!((sqnr.min + 20.0 * error.max.log10()).abs() < 1e-9);
        prop_assert_eq!(own.top1.agree + own.top1.ties + own.top1.flips, reference.len());
        prop_assert_eq!(own.rank.expect("finite").n, reference.len());
        prop_assert_eq!(Verdict::parse(&json(&found), "verdict.json").expect("of this format"), found);
    }
}
