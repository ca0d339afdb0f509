//! `fidelity attribute`: which covariate explains who passes, what these data cannot tell apart, and what would.
//!
//! Pure: rows in, conclusions out. A checkpoint is one observation: rows of different devices, recipes, scopes or measures are
//! never pooled, and a checkpoint that stands twice in a group is refused. Every p-value is of a permutation test, whose
//! assumption is that under the null hypothesis any checkpoint could as well have had the outcome of any other; checkpoints of
//! one family, or forged from one another, are less than that.

mod conclude;
mod experiment;
mod forged;
mod permute;
mod rank;
mod read;

use std::collections::BTreeMap;

use fidelity_verdict::{EXPLANATION_FORMAT, EXPLANATION_VERSION, Explanation, GroupKey};

pub use read::{Outcome, ResultRow, ResultsError, read_results};

/// The published table of the field: what was measured on silicon, and covariates from public configurations. Facts, each row
/// with its source.
pub const PUBLISHED: &str = include_str!("../../data/published.csv");

/// Most checkpoints of a group.
const MOST_CHECKPOINTS: usize = 1000;

/// Explains every group of `rows`; `origin` names them.
///
/// # Errors
/// No row says what passes or how faithful it is, a checkpoint stands twice in a group, or a group is too large.
pub fn explain(rows: &[ResultRow], origin: &str) -> Result<Explanation, ResultsError> {
    let groups = grouped(rows, origin)?;
    Ok(Explanation {
        format: EXPLANATION_FORMAT,
        version: EXPLANATION_VERSION,
        origin: origin.to_owned(),
        groups: groups.iter().map(|(key, cases)| conclude::group(key, cases)).collect(),
    })
}

/// Rows that may be compared with each other. A row without a scope was not run: it stands in every group of its device and
/// recipe, undecided.
fn grouped<'a>(rows: &'a [ResultRow], origin: &str) -> Result<BTreeMap<GroupKey, Vec<&'a ResultRow>>, ResultsError> {
    let mut groups: BTreeMap<GroupKey, Vec<&ResultRow>> = BTreeMap::new();
    let (with_scope, without): (Vec<_>, Vec<_>) = rows.iter().partition(|row| !row.key.scope.is_empty());
    for row in with_scope {
        groups.entry(row.key.clone()).or_default().push(row);
    }
    for (key, group) in &mut groups {
        let alike = |row: &&&ResultRow| row.key.device == key.device && row.key.recipe == key.recipe;
        group.extend(without.iter().filter(alike));
    }
    if groups.values().flatten().all(|row| row.outcome.is_none() && row.fidelity.is_none()) {
        return Err(ResultsError::Nothing { origin: origin.to_owned() });
    }
    for group in groups.values() {
        if group.len() > MOST_CHECKPOINTS {
            let found = group.len();
            return Err(ResultsError::TooMany { origin: origin.to_owned(), found, most: MOST_CHECKPOINTS });
        }
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        for row in group {
            if let Some(first) = seen.insert(&row.checkpoint, row.line) {
                let (origin, checkpoint) = (origin.to_owned(), row.checkpoint.clone());
                return Err(ResultsError::Twice { origin, line: row.line, first, checkpoint });
            }
        }
    }
    Ok(groups)
}
