//! The self-test of the diagnosis, as text and as Markdown.

use std::{collections::BTreeMap, fmt::Write};

use fidelity_verdict::{CaseOutcome, DETECTABLE, Rates, SelfTest, SelfTestCase, bars};

/// Rates by precision, then every case that was not right, at most 80 columns wide.
#[must_use]
pub fn self_test_text(test: &SelfTest) -> String {
    let mut text = String::from("precision  faults  detected  right   wrong  clean  false alarms  too small\n");
    for (precision, rates) in test.rates() {
        let [faults, detected, right, wrong, clean, alarms, small] = cells(&rates);
        let _ = writeln!(
            text,
            "{precision:<9}  {faults:>6}  {detected:>8}  {right:>6}  {wrong:>6}  {clean:>5}  {alarms:>12}  {small:>9}"
        );
    }
    let others: Vec<&SelfTestCase> = test.cases.iter().filter(|case| !is_right(case.outcome())).collect();
    if !others.is_empty() {
        text.push_str("\nnot named rightly:\n");
    }
    for case in others {
        let recipe = if case.with_recipe { "with" } else { "without" };
        let _ = writeln!(
            text,
            "  {} {} {} {recipe} recipe → {}",
            case.checkpoint,
            case.precision,
            injected(case),
            said(case)
        );
    }
    text
}

/// The same as a page, with the confusion matrix; `command` is what made it.
#[must_use]
pub fn self_test_markdown(test: &SelfTest, command: &str) -> String {
    let mut page = format!(
        "# Diagnostic power\n\nWritten by `{command}`; do not edit.\n\nEvery fault of the bank is injected into each checkpoint, in every block \
         and in one, under each precision. The arm that carries the fault is not the one that predicts: other calibration prompts, another \
         rounding, a small gain in every channel; every other case is diagnosed without the recipe. A case whose effect is less than \
         {DETECTABLE} times that noise counts as too small and is not scored.\n\n"
    );
    page.push_str(
        "| precision | faults | detected | right name | wrong name | clean runs | false alarms | too small | bars |\n",
    );
    page.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for (precision, rates) in test.rates() {
        let bars = bars(&precision);
        let right = bars.right.map_or_else(String::new, |right| format!(", right ≥ {:.0} %", 100.0 * right));
        let alarms = if bars.no_false_alarm { ", no false alarm" } else { "" };
        let reached = if rates.reach(&bars) { "reached" } else { "**not reached**" };
        let _ = writeln!(
            page,
            "| {precision} | {} | detected ≥ {:.0} %{right}, wrong ≤ {:.0} %{alarms}: {reached} |",
            cells(&rates).join(" | "),
            100.0 * bars.detected,
            100.0 * bars.wrong,
        );
    }
    confusion(&mut page, test);
    listed(&mut page, "Not named rightly", test, |outcome| !is_right(outcome));
    listed(&mut page, "Too small to be scored", test, |outcome| outcome == CaseOutcome::Undetectable);
    page
}

/// What was said of each fault, over all checkpoints and precisions.
fn confusion(page: &mut String, test: &SelfTest) {
    let mut rows: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for case in test.cases.iter().filter(|case| case.outcome() != CaseOutcome::Undetectable) {
        let named = if is_right(case.outcome()) { &case.truth } else { &case.named };
        *rows.entry(&case.truth).or_default().entry(named).or_default() += 1;
    }
    page.push_str("\n## Confusion\n\n| injected | right | said instead |\n|---|---|---|\n");
    for (truth, names) in rows {
        let right = names.get(truth).copied().unwrap_or(0);
        let others: Vec<String> =
            names.iter().filter(|(name, _)| **name != truth).map(|(name, count)| format!("{name} {count}")).collect();
        let _ = writeln!(page, "| {truth} | {right} of {} | {} |", names.values().sum::<usize>(), others.join(", "));
    }
}

fn listed(page: &mut String, title: &str, test: &SelfTest, which: impl Fn(CaseOutcome) -> bool) {
    let cases: Vec<&SelfTestCase> = test.cases.iter().filter(|case| which(case.outcome())).collect();
    if cases.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "\n## {title}\n\n| checkpoint | precision | injected | recipe known | effect | noise | said |\n|---|---|---|---|---|---|---|\n"
    );
    for case in cases {
        let recipe = if case.with_recipe { "yes" } else { "no" };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {recipe} | {:.1e} | {:.1e} | {} |",
            case.checkpoint,
            case.precision,
            injected(case),
            case.effect,
            case.noise,
            said(case)
        );
    }
}

fn is_right(outcome: CaseOutcome) -> bool {
    matches!(outcome, CaseOutcome::Right | CaseOutcome::Clean | CaseOutcome::Undetectable)
}

fn injected(case: &SelfTestCase) -> &str {
    if case.injected.is_empty() { "nothing" } else { &case.injected }
}

fn said(case: &SelfTestCase) -> &str {
    if case.as_fault.is_empty() { &case.named } else { &case.as_fault }
}

/// Faults, detected, right and wrong names, clean runs, false alarms, and those too small.
fn cells(rates: &Rates) -> [String; 7] {
    let shares = [rates.detected, rates.right, rates.wrong].map(|count| share(count, rates));
    let [detected, right, wrong] = shares;
    let [faults, clean, alarms, small] =
        [rates.faults, rates.clean, rates.false_alarms, rates.undetectable].map(|count| count.to_string());
    [faults, detected, right, wrong, clean, alarms, small]
}

fn share(count: usize, rates: &Rates) -> String {
    if rates.faults == 0 {
        return "–".into();
    }
    format!("{:.1} %", 100.0 * count as f64 / rates.faults as f64)
}
