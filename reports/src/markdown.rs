//! A summary in Markdown, for a CI system's page of the job.

use fidelity_trace::Status;
use fidelity_verdict::{ScopeResult, Verdict};

use crate::{
    diagnosis::cause,
    html::symbol,
    identity::{arm_phrase, checkpoint_name, is_expected, prompt_counts},
    judged,
    numbers::{ABSENT, magnitude, or_absent, rate},
    text::{printable, truncated},
};

/// Errors of prompts and notes that are listed, and characters of each that are shown.
const LISTED: usize = 10;
const LENGTH: usize = 400;

/// The verdict in a few lines of GitHub-flavoured Markdown: what is needed to decide whether to open the report.
#[must_use]
pub fn markdown(verdict: &Verdict, reproduce: &str) -> String {
    let expected = if is_expected(verdict) { " (expected)" } else { "" };
    let mut text = format!(
        "## {} {}{expected}: {}, {}\n\n{}\n",
        symbol(verdict.verdict),
        verdict.verdict,
        inline(&checkpoint_name(&verdict.checkpoint)),
        inline(&arm_phrase(&verdict.arms.device)),
        inline(&verdict.reason),
    );
    if let Some(cause) = cause(verdict) {
        text += &format!("\n**Why:** {}\n", inline(&cause));
    }
    if let Some(diagnosis) = &verdict.diagnosis {
        text += &format!("\n{}\n", inline(&diagnosis.sentence));
    }
    if let Some(attribution) = &verdict.attribution {
        text += &format!("\n**Whose the error is:** {}\n", inline(&attribution.sentence));
    }
    text += &scopes(verdict);
    text += &format!("\n{}. Exit code {}.\n", inline(&prompt_counts(verdict)), verdict.exit_code);
    text += &list("Prompts that failed", errors(verdict));
    text += &list("Notes", verdict.notes.clone());
    text + &format!("\n<details><summary>Reproduce</summary>\n\n{}\n</details>\n\n", fenced(reproduce))
}

fn scopes(verdict: &Verdict) -> String {
    if verdict.scopes.is_empty() {
        return "\nNo scope was compared.\n".to_owned();
    }
    let similarity = if judged::is_encoder(verdict) { "centred cosine" } else { "Pearson" };
    let mut table = format!(
        "\n| scope | verdict | rows | {similarity} | worst row | top-1 | flips | KL, nats | first bad site |\n|---|---|--:|--:|--:|--:|--:|--:|---|\n"
    );
    for (scope, result) in &verdict.scopes {
        table +=
            &format!("| {scope} | {} {} | {} |\n", symbol(result.verdict), result.verdict, cells(result).join(" | "));
    }
    table
}

fn cells(result: &ScopeResult) -> [String; 7] {
    let logits = judged::site(result).and_then(|site| site.logits.as_ref());
    let absent = || ABSENT.to_owned();
    [
        result.coverage.rows_compared.to_string(),
        judged::correlation(result, |summary| summary.mean),
        judged::correlation(result, |summary| summary.min),
        logits.map_or_else(absent, |logits| rate(&logits.top1)),
        logits.map_or_else(absent, |logits| logits.top1.flips.to_string()),
        or_absent(logits.and_then(|logits| logits.kl).map(|kl| kl.mean), magnitude),
        result.first_bad_site.map_or_else(absent, |site| format!("`{site}`")),
    ]
}

fn errors(verdict: &Verdict) -> Vec<String> {
    let failed = verdict.prompts.iter().filter(|prompt| prompt.status == Status::Failed);
    failed.map(|prompt| format!("{}: {}", prompt.id, prompt.error.as_deref().unwrap_or("failed"))).collect()
}

fn list(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let more = lines.len().saturating_sub(LISTED);
    let items = lines.iter().take(LISTED).map(|line| format!("- {}\n", inline(line)));
    let rest = if more > 0 { format!("- and {more} more\n") } else { String::new() };
    format!("\n### {title}\n\n{}{rest}", items.collect::<String>())
}

/// Text that is shown as it is, whatever it holds: every sign that may mean something is escaped, as CommonMark allows.
fn inline(text: &str) -> String {
    truncated(&printable(text), LENGTH).chars().fold(String::new(), |mut shown, character| {
        match character {
            // An escaped one would still call a user, link an issue or open a tag in some readers.
            '<' | '>' | '&' | '@' | '#' => shown += &format!("&#{};", u32::from(character)),
            _ if character.is_ascii_punctuation() && !",;/%".contains(character) => shown.extend(['\\', character]),
            _ => shown.push(character),
        }
        shown
    })
}

/// A block of code, in a fence longer than any run of backticks inside.
fn fenced(code: &str) -> String {
    let code = printable(code);
    let longest = code.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}sh\n{code}\n{fence}")
}
