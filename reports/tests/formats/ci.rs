//! What CI systems read: JUnit XML, Markdown, annotations.

use fidelity_reports::{annotations, junit, markdown, without_commands};
use fidelity_trace::{Scope, Status};
use fidelity_verdict::{Outcome, Verdict};
use insta::assert_snapshot;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus};

use crate::sample::{HOSTILE, all, broken, empty, encoder, faithful, hostile};

/// As another program reads it.
fn cases(verdict: &Verdict) -> Vec<TestCase> {
    let text = junit(verdict).expect("a document");
    let report = Report::deserialize_from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    report.test_suites.into_iter().flat_map(|suite| suite.test_cases).collect()
}

fn case<'a>(cases: &'a [TestCase], class: &str, name: &str) -> &'a TestCase {
    let found = cases.iter().find(|case| {
        case.name.as_str() == name && case.classname.as_ref().is_some_and(|found| found.as_str() == class)
    });
    found.unwrap_or_else(|| panic!("no case {class} {name}"))
}

/// `pass`, `skipped`, or the kind and type of what is wrong.
fn state(case: &TestCase) -> String {
    match &case.status {
        TestCaseStatus::Success { .. } => "pass".into(),
        TestCaseStatus::Skipped { .. } => "skipped".into(),
        TestCaseStatus::NonSuccess { kind, ty, .. } => {
            let kind = if *kind == NonSuccessKind::Error { "error" } else { "failure" };
            format!("{kind} {}", ty.as_ref().map_or("", |ty| ty.as_str()))
        }
    }
}

fn is_red(case: &TestCase) -> bool {
    matches!(case.status, TestCaseStatus::NonSuccess { .. })
}

#[test]
fn something_is_red_exactly_where_the_exit_code_is_not_0() {
    // The prompts of that one failed, which its exit code does not say.
    for (name, verdict) in all().into_iter().filter(|(name, _)| *name != "hostile") {
        let red: Vec<_> =
            cases(&verdict).iter().filter(|case| is_red(case)).map(|case| case.name.to_string()).collect();
        assert_eq!(!red.is_empty(), verdict.exit_code != 0, "{name}: {red:?}");
    }
}

#[test]
fn every_metric_of_a_scope_falls_with_it() {
    let cases = cases(&broken());
    for metric in ["rows", "pearson", "top1", "top5", "kl", "cosine", "relative_l2", "nmse", "max_abs", "norm_ratio"] {
        assert_eq!(state(case(&cases, "demo.base", metric)), "failure broken", "{metric}");
        assert_eq!(state(case(&cases, "demo.prefill", metric)), "pass", "{metric}");
        assert_eq!(state(case(&cases, "demo.tbt_self", metric)), "skipped", "{metric} was not run");
    }
    assert_eq!(state(case(&cases, "demo", "verdict")), "failure broken");
    assert_eq!(state(case(&cases, "demo.tbt_free", "degenerate")), "failure degenerate");
}

#[test]
fn numbers_are_in_full_in_the_output_of_their_case() {
    let verdict = faithful();
    let logits = &verdict.scopes[&Scope::Base].sites[&fidelity_trace::Site::Logits];
    let cases = cases(&verdict);
    let said = |metric| case(&cases, "demo.base", metric).system_out.clone().expect("numbers").into_string();
    let pearson = logits.pearson.expect("compared");
    assert!(said("pearson").starts_with(&format!("mean {}\n", pearson.mean)), "{}", said("pearson"));
    assert!(said("pearson").contains(&format!("rows {}", pearson.n)));
    let top1 = &logits.logits.as_ref().expect("logits").top1;
    assert!(said("top1").contains(&format!("flips {}\nrows {}", top1.flips, top1.n)), "{}", said("top1"));
}

#[test]
fn a_failed_device_is_an_error_and_names_what_it_said() {
    let mut verdict = faithful();
    verdict.prompts[1].status = Status::Failed;
    verdict.prompts[1].error = Some("tbt: HAILO_TIMEOUT".into());
    verdict.exit_code = 4;
    let cases = cases(&verdict);
    assert_eq!(state(case(&cases, "demo", "verdict")), "error device");
    let prompts = case(&cases, "demo", "prompts");
    assert_eq!(state(prompts), "error device");
    let TestCaseStatus::NonSuccess { description, .. } = &prompts.status else { panic!("{prompts:?}") };
    assert_eq!(description.as_ref().map(|text| text.as_str().trim()), Some("tbt: HAILO_TIMEOUT"));
}

#[test]
fn inconclusive_is_never_green() {
    let mut verdict = faithful();
    (verdict.verdict, verdict.exit_code) = (Outcome::Inconclusive, 3);
    verdict.scopes.values_mut().for_each(|scope| scope.verdict = Outcome::Inconclusive);
    let cases = cases(&verdict);
    assert_eq!(state(case(&cases, "demo", "verdict")), "error inconclusive");
    assert_eq!(state(case(&cases, "demo.base", "pearson")), "error inconclusive");
    let nothing = self::cases(&empty());
    assert_eq!(state(case(&nothing, "demo.base", "pearson")), "skipped");
    assert_eq!(state(case(&nothing, "demo", "verdict")), "error inconclusive");
}

#[test]
fn a_probe_does_not_decide_and_what_is_expected_is_no_failure() {
    let mut verdict = faithful();
    let mut probe = verdict.scopes[&Scope::Tbt].clone();
    probe.verdict = Outcome::Degraded;
    verdict.scopes.insert(Scope::TbtSelf, probe);
    assert_eq!(state(case(&cases(&verdict), "demo.tbt_self", "kl")), "skipped");
    let mut expected = broken();
    (expected.expect, expected.exit_code) = (vec!["broken".into()], 0);
    let cases = cases(&expected);
    assert!(!cases.iter().any(is_red));
    assert_eq!(state(case(&cases, "demo.base", "pearson")), "skipped");
}

#[test]
fn an_encoder_has_cases_of_its_own_metrics() {
    let cases = cases(&encoder());
    assert_eq!(state(case(&cases, &format!("{}.base", encoder().checkpoint.name), "centred_cosine")), "failure broken");
    assert!(!cases.iter().any(|case| ["top1", "kl", "pearson"].contains(&case.name.as_str())));
    assert!(!cases.iter().any(|case| case.classname.as_ref().is_some_and(|class| class.as_str().ends_with(".tbt"))));
}

/// Characters that XML 1.0 has no way to write, and what ends a section, a comment or a document.
const ILLEGAL: &str = "\u{0}\u{1}\u{8}\u{b}\u{c}\u{e}\u{1f}\u{7f}\u{fffe}\u{ffff}]]>--><!DOCTYPE x><\u{1b}[31m&\"'\r\n";

#[test]
fn nothing_from_outside_breaks_the_xml() {
    for text in [HOSTILE, ILLEGAL] {
        let mut verdict = hostile();
        verdict.checkpoint.name = text.into();
        verdict.reason = text.into();
        verdict.arms.device.arm.name = text.into();
        verdict.prompts.iter_mut().for_each(|prompt| prompt.error = Some(text.into()));
        let document = junit(&verdict).expect("a document");
        let legal =
            |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        let illegal: Vec<char> = document.chars().filter(|c| !legal(*c)).collect();
        assert!(illegal.is_empty(), "{illegal:?}");
        assert!(!document.contains("<script") && !document.contains("<!DOCTYPE"), "{document}");
        assert!(!cases(&verdict).is_empty(), "and it is read again");
    }
}

#[test]
fn a_summary_says_what_is_needed_to_decide_whether_to_open_the_report() {
    assert_snapshot!(markdown(&broken(), "fidelity run --fault gqa_tile@2"));
}

#[test]
fn nothing_from_outside_is_markup_in_markdown() {
    let text = "a|b `c` <img src=x onerror=1> [l](http://x) @user #1\n# no heading\n| no | row |\n```\n**b**";
    let mut verdict = hostile();
    verdict.reason = text.into();
    verdict.notes = vec![text.into()];
    let shown = markdown(&verdict, "fidelity run --prompt '```\n# no heading'");
    for raw in ["<img", "<script", "\n# no heading", "@user", "[l](", "\n| no | row |", "a|b", "\u{1b}"] {
        assert!(!shown.contains(raw), "{raw:?} in {shown}");
    }
    let (_, code) = shown.split_once("<summary>Reproduce</summary>").expect("the command");
    assert!(code.trim_start().starts_with("\n````sh\n") || code.contains("````sh\n"), "a longer fence: {code}");
}

#[test]
fn a_pass_has_no_annotation_and_a_failure_has_one() {
    assert_eq!(annotations(&faithful()), "");
    let said = annotations(&broken());
    assert!(said.starts_with("::error title=broken%3A demo%2C "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(annotations(&empty()).starts_with("::warning title=inconclusive%3A "), "{}", annotations(&empty()));
}

#[test]
fn nothing_from_outside_is_a_workflow_command() {
    let text = "x\n::set-env name=PATH::/tmp\r::stop-commands::y%0A::add-mask::z##[group]w\u{2028}::error::";
    let mut verdict = broken();
    verdict.reason = text.into();
    verdict.checkpoint.name = "a,b::c%".into();
    (verdict.prompts[0].status, verdict.prompts[0].error) = (Status::Failed, Some(text.into()));
    let said = annotations(&verdict);
    assert_eq!(said.lines().count(), 2, "{said}");
    for line in said.lines() {
        let (properties, _) = line.strip_prefix("::error title=").and_then(|rest| rest.split_once("::")).expect("ours");
        assert!(!properties.contains([':', ',']), "{line}");
    }
    assert!(said.contains("a%2Cb%3A%3Ac%25"), "{said}");
    let shown = without_commands("::error::a\n  \u{a0}::b ::c\nplain ::d ##[error]e\n");
    assert_eq!(shown, ": :error::a\n  \u{a0}: :b ::c\nplain ::d ## [error]e\n");
}
