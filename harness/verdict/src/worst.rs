//! Which of several verdicts decides.

use crate::{ExitCode, Verdict};

/// Index of the worst of several arms, whose exit code is that of all: a fidelity failure first, then a failed device, then
/// what is inconclusive; of those alike the worse outcome, then the first. `None` when there is none.
#[must_use]
pub fn worst(verdicts: &[Verdict]) -> Option<usize> {
    let rank = |verdict: &Verdict| {
        let codes = [ExitCode::Pass, ExitCode::Inconclusive, ExitCode::Device, ExitCode::FidelityFailure];
        // A code of no verdict is worse than all.
        codes.iter().position(|code| code.code() == verdict.exit_code).unwrap_or(codes.len())
    };
    let ranked = verdicts.iter().enumerate().rev();
    ranked.max_by_key(|(_, verdict)| (rank(verdict), verdict.verdict)).map(|(index, _)| index)
}
