//! `verdict.json`: the verdict as it is. docs/VERDICT.md explains every field.

use fidelity_verdict::Verdict;

use crate::ReportError;

/// The text of `verdict.json`: the same bytes for the same verdict.
///
/// # Errors
/// The verdict does not form JSON.
pub fn json(verdict: &Verdict) -> Result<String, ReportError> {
    Ok(verdict.to_json()?)
}
