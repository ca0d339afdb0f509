//! What is compared, what is not, and that it is said.

use fidelity_trace::{BlockSite, PromptTrace, Scope, ScopeTrace, Site, Tensor};
use fidelity_verdict::{Coverage, Outcome};

use crate::traces::{base, base_logits, header, measure, prompt, random_rows, scope, verdict, verdict_of};

const RESID: Site = Site::Block(0, BlockSite::ResidPost);

fn edited(trace: &PromptTrace, edit: impl FnOnce(&mut ScopeTrace)) -> PromptTrace {
    let mut trace = trace.clone();
    edit(trace.scopes.get_mut(&Scope::Base).expect("base"));
    trace
}

fn coverage_of(reference: &PromptTrace, device: &PromptTrace) -> Coverage {
    base(&verdict_of(reference, device)).coverage.clone()
}

#[test]
fn every_row_of_the_reference_is_accounted_for() {
    let mut rows = random_rows(1, 6, 8);
    rows[3][0] = f32::NAN;
    let reference = base_logits(&rows);
    let device = edited(&base_logits(&random_rows(1, 6, 8)), |scope| {
        scope.positions[0] = 77;
        scope.token_ids[4] = 77;
    });
    let coverage = coverage_of(&reference, &device);
    let counted = (coverage.rows_compared, coverage.rows_missing, coverage.rows_other_token);
    assert_eq!((counted, coverage.rows_reference_not_finite), ((2, 1, 2), 1));
    assert_eq!((coverage.prompts_compared, coverage.prompts_missing), (1, 0));
    let note = "base: 2 rows not compared, the arm was fed another token there or before";
    assert_eq!(verdict_of(&reference, &device).notes[0], note);
    let note = "base: 1 row of the arm ignored, the reference has none there";
    assert_eq!(verdict_of(&reference, &device).notes[1], note);
}

#[test]
fn an_arm_with_the_last_row_only_is_compared_there() {
    let rows = random_rows(1, 30, 8);
    let last = edited(&base_logits(&rows[29..]), |scope| {
        scope.positions = vec![29];
        scope.token_ids = vec![29];
    });
    let found = verdict_of(&base_logits(&rows), &last);
    assert_eq!((base(&found).coverage.rows_compared, base(&found).coverage.rows_missing), (1, 29));
    assert_eq!(found.reason, "base: only 1 row compared, 16 needed");
    assert_eq!(base(&found).rows[0].position, 29);
    assert_eq!(base(&found).profile.positions, [29]);
}

#[test]
fn of_two_rows_at_one_position_the_first_counts() {
    let rows = random_rows(1, 2, 8);
    let twice = edited(&base_logits(&rows), |scope| {
        scope.positions = vec![4, 4];
        scope.token_ids = vec![9, 9];
    });
    let found = verdict_of(&twice, &twice);
    assert_eq!((base(&found).coverage.rows_compared, base(&found).coverage.rows_missing), (1, 0));
}

#[test]
fn rows_of_another_width_are_never_trimmed() {
    let found = verdict_of(&base_logits(&random_rows(1, 20, 512)), &base_logits(&random_rows(1, 20, 500)));
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    assert_eq!(found.notes, ["base/logits: the arm has 500 values a row, the reference 512"]);
    let reason = "base: the logits cannot be compared: the arm has 500 values a row, the reference 512";
    assert_eq!(found.reason, reason);
    let coverage = &base(&found).coverage;
    assert_eq!((coverage.rows_compared, coverage.rows_missing), (0, 20));
    assert_eq!((coverage.sites_compared, coverage.sites_missing), (0, 1));
}

#[test]
fn attention_over_another_number_of_keys_is_another_shape() {
    let pattern = Site::Block(0, BlockSite::Pattern);
    let with = |shape: Vec<usize>| {
        edited(&base_logits(&random_rows(1, 2, 8)), |scope| {
            scope.sites.insert(pattern, Tensor { values: vec![0.5; shape.iter().product()], shape });
        })
    };
    let found = verdict_of(&with(vec![2, 2, 6]), &with(vec![2, 3, 4]));
    assert_eq!(found.notes, ["base/blocks.0.pattern: a row of the arm has shape [3, 4], of the reference [2, 6]"]);
    assert!(!base(&found).sites.contains_key(&pattern));
}

#[test]
fn rows_without_values_are_not_compared() {
    let empty = |rows| {
        edited(&base_logits(&random_rows(1, rows, 8)), |scope| {
            scope.sites.insert(Site::Logits, Tensor { shape: vec![rows, 0], values: vec![] });
        })
    };
    let found = verdict_of(&empty(20), &empty(20));
    assert_eq!(found.verdict, Outcome::Inconclusive);
    assert_eq!(found.notes, ["base/logits: the rows hold no values"]);
}

#[test]
fn sites_of_the_reference_alone_are_counted() {
    let rows = random_rows(1, 20, 8);
    let reference = prompt([(Scope::Base, scope(&[(RESID, rows.clone()), (Site::Logits, rows.clone())]))]);
    let coverage = coverage_of(&reference, &base_logits(&rows));
    assert_eq!((coverage.sites_compared, coverage.sites_missing), (1, 1));
}

#[test]
fn an_arm_without_logits_is_inconclusive() {
    let rows = random_rows(1, 20, 8);
    let both = scope(&[(RESID, rows.clone()), (Site::Logits, rows.clone())]);
    let hidden = scope(&[(RESID, rows)]);
    let trace = |scope: &ScopeTrace| prompt([(Scope::Base, scope.clone())]);
    let found = verdict_of(&trace(&both), &trace(&hidden));
    assert_eq!((found.verdict, found.reason.as_str()), (Outcome::Inconclusive, "base: the arm holds no logits"));
    assert_eq!((base(&found).coverage.rows_compared, base(&found).coverage.rows_missing), (0, 20));
    let found = verdict_of(&trace(&hidden), &trace(&both));
    assert_eq!(found.reason, "base: the reference holds no logits");
}

#[test]
fn a_scope_is_judged_when_the_arm_holds_it_in_any_prompt() {
    let logits = |seed| scope(&[(Site::Logits, random_rows(seed, 20, 8))]);
    let reference = |seed| prompt([(Scope::Base, logits(seed)), (Scope::Tbt, logits(seed))]);
    let only_base = |seed| prompt([(Scope::Base, logits(seed))]);
    let found = verdict(&[(reference(1), only_base(1)), (reference(2), only_base(2))]);
    assert_eq!(found.scopes.keys().copied().collect::<Vec<_>>(), [Scope::Base]);

    let found = verdict(&[(reference(1), reference(1)), (reference(2), only_base(2))]);
    let tbt = &found.scopes[&Scope::Tbt].coverage;
    assert_eq!((tbt.rows_compared, tbt.rows_missing, tbt.prompts_compared), (20, 20, 1));
}

#[test]
fn a_scope_of_the_arm_alone_is_no_pass() {
    let logits = || scope(&[(Site::Logits, random_rows(1, 20, 8))]);
    let device = prompt([(Scope::Base, logits()), (Scope::Tbt, logits())]);
    let found = verdict_of(&prompt([(Scope::Base, logits())]), &device);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Inconclusive, 3));
    assert_eq!(found.reason, "tbt: the reference holds no logits");
}

#[test]
fn the_self_only_probe_decides_only_when_it_is_alone() {
    let rows = random_rows(1, 20, 8);
    let right = || scope(&[(Site::Logits, rows.clone())]);
    let wrong = || scope(&[(Site::Logits, crate::traces::map(&rows, |value| -value))]);
    let reference = prompt([(Scope::Base, right()), (Scope::TbtSelf, right())]);
    let beside = verdict_of(&reference, &prompt([(Scope::Base, right()), (Scope::TbtSelf, wrong())]));
    assert_eq!((beside.verdict, beside.scopes[&Scope::TbtSelf].verdict), (Outcome::Faithful, Outcome::Broken));
    let alone = verdict_of(&reference, &prompt([(Scope::TbtSelf, wrong())]));
    assert_eq!((alone.verdict, alone.exit_code), (Outcome::Broken, 1));
}

#[test]
fn free_generation_is_no_scope_of_tensors() {
    let logits = || scope(&[(Site::Logits, random_rows(1, 20, 8))]);
    let trace = prompt([(Scope::Base, logits()), (Scope::TbtFree, logits())]);
    assert_eq!(verdict_of(&trace, &trace).scopes.len(), 1);
}

#[test]
fn prompts_that_were_not_computed_are_missing() {
    let trace = base_logits(&random_rows(1, 20, 8));
    let mut header = header(2);
    header.prompts[1].status = fidelity_trace::Status::Failed;
    header.device_not_computed.failed = 1;
    let prompts = vec![measure(&trace, &trace), fidelity_compare::PromptComparison::default()];
    let found = fidelity_compare::conclude(header, prompts);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Faithful, 4), "a crash is no pass");
    assert_eq!((base(&found).coverage.prompts_compared, base(&found).coverage.prompts_missing), (1, 1));
    assert_eq!(found.notes, ["1 of 2 prompts failed in the arm"]);
}

#[test]
fn a_nan_in_a_hidden_site_is_a_finding_although_the_logits_are_fine() {
    let rows = random_rows(1, 20, 8);
    let trace = prompt([(Scope::Base, scope(&[(RESID, rows.clone()), (Site::Logits, rows)]))]);
    let device = edited(&trace, |scope| scope.sites.get_mut(&RESID).expect("there").values[0] = f32::NAN);
    let found = verdict_of(&trace, &device);
    assert_eq!((found.verdict, found.exit_code, base(&found).first_bad_site), (Outcome::Inconclusive, 3, Some(RESID)));
    assert_eq!(base(&found).sites[&RESID].non_finite_rows, 1);
    assert_eq!(base(&found).profile.sites[&RESID][..2], [None, Some(0.0)]);
}

#[test]
fn a_pass_needs_every_prompt() {
    let trace = base_logits(&random_rows(1, 20, 8));
    let concluded = |change: &dyn Fn(&mut fidelity_compare::Header)| {
        let mut header = header(2);
        change(&mut header);
        let found = fidelity_compare::conclude(header, vec![measure(&trace, &trace), Default::default()]);
        (found.verdict, found.exit_code)
    };
    assert_eq!(concluded(&|header| header.device_not_computed.skipped = 1), (Outcome::Inconclusive, 3), "cut short");
    assert_eq!(concluded(&|header| header.reference_not_computed.failed = 1), (Outcome::Inconclusive, 3));
    assert_eq!(concluded(&|_| ()), (Outcome::Faithful, 0));
}

#[test]
fn an_expectation_does_not_excuse_a_crash() {
    let reference = base_logits(&random_rows(1, 20, 8));
    let device = base_logits(&random_rows(2, 20, 8));
    let mut header = header(2);
    header.expect = vec!["broken".into()];
    header.device_not_computed.failed = 1;
    let found = fidelity_compare::conclude(header, vec![measure(&reference, &device), Default::default()]);
    assert_eq!((found.verdict, found.exit_code), (Outcome::Broken, 4));
}

#[test]
fn a_scope_that_the_arm_lost_is_named() {
    let logits = || scope(&[(Site::Logits, random_rows(1, 20, 8))]);
    let reference = prompt([(Scope::Base, logits()), (Scope::Tbt, logits())]);
    let found = verdict_of(&reference, &prompt([(Scope::Base, logits())]));
    assert_eq!(found.notes, ["the arm holds no tbt, which the reference does: not compared"]);
}

#[test]
fn a_share_of_the_rows_is_said_with_the_verdict() {
    let rows = random_rows(1, 30, 8);
    let last = edited(&base_logits(&rows[10..]), |scope| {
        scope.positions = (10..30).collect();
        scope.token_ids = (10..30).collect();
    });
    let found = verdict_of(&base_logits(&rows), &last);
    assert_eq!(found.reason, "base: Pearson 1.0000, top-1 1.000 (20 of 30 rows compared)");
}
