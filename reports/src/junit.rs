//! JUnit XML, as CI systems read it: a case for each metric of each scope.
//!
//! A metric has no verdict of its own, its scope has: all cases of a scope fall together, so that none is green beside a scope
//! that is not. The case `verdict` is what the process exits with.

use std::collections::BTreeSet;

use fidelity_trace::{Scope, Status};
use fidelity_verdict::{Coverage, ExitCode, Interval, Outcome, Rate, ScopeResult, SiteResult, Summary, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::{
    ReportError,
    identity::{arm_phrase, is_expected},
    judged,
    text::printable,
};

/// The verdict as one test suite.
///
/// # Errors
/// The document cannot be written: a fault of ours.
pub fn junit(verdict: &Verdict) -> Result<String, ReportError> {
    let checkpoint = printable(&verdict.checkpoint.name);
    let mut suite = TestSuite::new(format!("{checkpoint}: {}", arm_phrase(&verdict.arms.device)));
    suite.add_test_case(named(&checkpoint, "verdict", of_run(verdict)));
    suite.add_test_case(named(&checkpoint, "prompts", of_prompts(verdict)));
    let encoder = judged::is_encoder(verdict);
    for scope in Scope::ALL.into_iter().filter(|scope| *scope != Scope::TbtFree) {
        let class = format!("{checkpoint}.{scope}");
        match verdict.scopes.get(&scope) {
            Some(result) => {
                let cases = metrics(Some(result), encoder).into_iter().map(|metric| {
                    let mut case = named(&class, metric.name, of_scope(verdict, scope, result, &metric));
                    case.set_system_out(metric.said.unwrap_or_else(|| "not defined on any row\n".to_owned()));
                    case
                });
                suite.add_test_cases(cases);
            }
            // An encoder has no other scopes.
            None if !encoder => {
                let names = metrics(None, encoder).into_iter().map(|metric| metric.name);
                suite.add_test_cases(names.map(|name| named(&class, name, skipped("the scope was not run"))));
            }
            None => {}
        }
    }
    suite.add_test_cases(of_generated(verdict, &checkpoint));
    let mut report = Report::unnamed();
    report.add_test_suite(suite);
    report.to_string().map_err(|error| ReportError::Junit { reason: error.to_string() })
}

fn named(class: &str, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(class);
    case
}

fn skipped(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(why);
    status
}

fn wrong(kind: NonSuccessKind, of: &str, why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(of).set_message(printable(why));
    status
}

/// What the process exits with; nothing but 0 is a pass.
fn of_run(verdict: &Verdict) -> TestCaseStatus {
    let (code, reason) = (verdict.exit_code, &verdict.reason);
    if code == ExitCode::Pass.code() {
        TestCaseStatus::success()
    } else if code == ExitCode::FidelityFailure.code() {
        wrong(NonSuccessKind::Failure, verdict.verdict.name(), reason)
    } else if code == ExitCode::Inconclusive.code() {
        wrong(NonSuccessKind::Error, "inconclusive", reason)
    } else {
        wrong(NonSuccessKind::Error, "device", reason)
    }
}

/// A prompt that failed is the device's or the environment's failure.
fn of_prompts(verdict: &Verdict) -> TestCaseStatus {
    let of = |status| verdict.prompts.iter().filter(move |prompt| prompt.status == status);
    let errors: BTreeSet<&str> = of(Status::Failed).filter_map(|prompt| prompt.error.as_deref()).collect();
    let (failed, left) = (of(Status::Failed).count(), of(Status::Skipped).count());
    let mut status = match (failed, left) {
        (0, 0) => return TestCaseStatus::success(),
        (0, left) => return skipped(&format!("{left} of {} prompts did not run", verdict.prompts.len())),
        (failed, _) => {
            wrong(NonSuccessKind::Error, "device", &format!("{failed} of {} prompts failed", verdict.prompts.len()))
        }
    };
    status.set_description(errors.into_iter().map(|error| printable(error) + "\n").collect::<String>());
    status
}

fn of_scope(verdict: &Verdict, scope: Scope, result: &ScopeResult, metric: &Metric) -> TestCaseStatus {
    let probe = scope == Scope::TbtSelf && verdict.scopes.len() > 1;
    let why = || format!("{scope} is {}: {}", result.verdict, printable(&result.reason));
    match result.verdict {
        Outcome::Faithful | Outcome::Degraded | Outcome::Broken if metric.said.is_none() => {
            skipped("not defined on any row")
        }
        Outcome::Faithful => TestCaseStatus::success(),
        _ if probe => skipped(&format!("{}; a probe, which does not decide", why())),
        // The run is its worst scope, and that is expected.
        Outcome::Degraded | Outcome::Broken if is_expected(verdict) => {
            skipped(&format!("{}; expected of this checkpoint", why()))
        }
        Outcome::Degraded | Outcome::Broken => wrong(NonSuccessKind::Failure, result.verdict.name(), &why()),
        Outcome::Inconclusive if result.coverage.rows_compared == 0 => skipped(&why()),
        Outcome::Inconclusive => wrong(NonSuccessKind::Error, "inconclusive", &why()),
    }
}

/// Text that ends in one repeated token, where the reference's does not.
fn of_generated(verdict: &Verdict, checkpoint: &str) -> Option<TestCase> {
    let class = format!("{checkpoint}.{}", Scope::TbtFree);
    let Some(generated) = &verdict.generated else {
        let encoder = judged::is_encoder(verdict);
        return (!encoder).then(|| named(&class, "degenerate", skipped("nothing was generated by both arms")));
    };
    let bad: Vec<_> = generated.device_degenerate.iter().zip(&generated.reference_degenerate).collect();
    let status = match generated.degenerate {
        false => TestCaseStatus::success(),
        true if is_expected(verdict) => skipped("greedy text ends in one repeated token; expected of this checkpoint"),
        true => wrong(
            NonSuccessKind::Failure,
            "degenerate",
            "greedy text ends in one repeated token where the reference's does not",
        ),
    };
    let mut case = named(&class, "degenerate", status);
    let counted = |pick: fn(&(&bool, &bool)) -> bool| bad.iter().filter(|pair| pick(pair)).count();
    case.set_system_out(format!(
        "prompts {}\ndevice degenerate {}\nreference degenerate {}\n",
        bad.len(),
        counted(|(device, _)| **device),
        counted(|(_, reference)| **reference)
    ));
    Some(case)
}

/// A metric and its numbers in full precision; none where it is not defined on any row.
struct Metric {
    name: &'static str,
    said: Option<String>,
}

/// The metrics of a scope; of one that was not run, their names.
fn metrics(result: Option<&ScopeResult>, encoder: bool) -> Vec<Metric> {
    let site = result.and_then(judged::site);
    let summary = |name, pick: fn(&SiteResult) -> Option<Summary>| Metric {
        name,
        said: site.and_then(pick).map(|summary| of_summary(&summary)),
    };
    let coverage = result.map(|result| &result.coverage);
    let rows = Metric { name: "rows", said: coverage.zip(site).map(|(coverage, site)| of_rows(coverage, site)) };
    let shared = [
        summary("cosine", |site| site.cosine),
        summary("relative_l2", |site| site.relative_l2),
        summary("nmse", |site| site.nmse),
        summary("max_abs", |site| site.max_abs),
        summary("norm_ratio", |site| site.norm_ratio),
    ];
    if encoder {
        return [rows, summary("centred_cosine", |site| site.centred_cosine)].into_iter().chain(shared).collect();
    }
    let logits = site.and_then(|site| site.logits.as_ref());
    let of_logits = [
        summary("pearson", |site| site.pearson),
        Metric { name: "top1", said: logits.map(|logits| of_rate(&logits.top1)) },
        Metric { name: "top5", said: logits.map(|logits| of_rate(&logits.top5)) },
        Metric { name: "kl", said: logits.and_then(|logits| logits.kl).map(|kl| of_summary(&kl)) },
    ];
    std::iter::once(rows).chain(of_logits).chain(shared).collect()
}

fn of_rows(coverage: &Coverage, site: &SiteResult) -> String {
    format!(
        "compared {}\nnot finite {}\nmissing {}\nof another token {}\nprompts compared {}\nprompts missing {}\n",
        coverage.rows_compared,
        site.non_finite_rows,
        coverage.rows_missing,
        coverage.rows_other_token,
        coverage.prompts_compared,
        coverage.prompts_missing
    )
}

fn of_summary(summary: &Summary) -> String {
    let Summary { mean, interval, min, max, p05, p50, p95, n } = summary;
    format!("mean {mean}\n{}min {min}\np05 {p05}\np50 {p50}\np95 {p95}\nmax {max}\nrows {n}\n", of_interval(*interval))
}

fn of_rate(rate: &Rate) -> String {
    let Rate { agree, ties, flips, n, rate, rate_strict, interval } = rate;
    let or_none = |rate: &Option<f64>| rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
    format!(
        "rate {}\n{}rate without ties {}\nagree {agree}\nties {ties}\nflips {flips}\nrows {n}\n",
        or_none(rate),
        of_interval(*interval),
        or_none(rate_strict)
    )
}

fn of_interval(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |[low, high]| format!("95 % interval {low} to {high}\n"))
}
