//! Annotations of GitHub Actions: workflow commands on standard output.

use fidelity_trace::Status;
use fidelity_verdict::{ExitCode, Verdict};

use crate::{
    diagnosis::cause,
    identity::{arm_phrase, is_expected},
    text::{printable, truncated},
};

/// Prompts that are annotated: GitHub shows ten annotations of a step.
const PROMPTS: usize = 5;
const LENGTH: usize = 1000;

/// One line for the run, and one for each of the first prompts that failed; nothing for a pass that is not to be remarked upon.
#[must_use]
pub fn annotations(verdict: &Verdict) -> String {
    let level = match verdict.exit_code {
        code if code == ExitCode::Pass.code() && !is_expected(verdict) => return String::new(),
        code if code == ExitCode::Pass.code() => "notice",
        code if code == ExitCode::Inconclusive.code() => "warning",
        _ => "error",
    };
    let title = format!("{}: {}, {}", verdict.verdict, verdict.checkpoint.name, arm_phrase(&verdict.arms.device));
    let why = [Some(verdict.reason.clone()), cause(verdict)].into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let failed = verdict.prompts.iter().filter(|prompt| prompt.status == Status::Failed).take(PROMPTS);
    let failed = failed.map(|prompt| {
        command(
            "error",
            &format!("prompt {} failed", prompt.id),
            prompt.error.as_deref().unwrap_or("no error is known"),
        )
    });
    std::iter::once(command(level, &title, &why)).chain(failed).collect()
}

/// A workflow command; what would end the line or a property of it is encoded.
fn command(level: &str, title: &str, message: &str) -> String {
    let data =
        |text: &str| truncated(&printable(text), LENGTH).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let title = data(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{}\n", data(message))
}

/// The text with nothing in it that the runner of GitHub Actions would take for a command, of which it looks for one in every line
/// of a step's output: `::name …::` at its beginning, and the older `##[name …]` anywhere.
#[must_use]
pub fn without_commands(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace("##[", "## [");
        let begins = line.trim_start().len();
        match line.trim_start().strip_prefix("::") {
            Some(rest) => format!("{}: :{rest}", &line[..line.len() - begins]),
            None => line,
        }
    };
    text.split_inclusive('\n').map(line).collect()
}
