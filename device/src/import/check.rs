//! The reference's rows of the prompts that a file holds.

use std::collections::BTreeMap;

use fidelity_trace::{Capture, PromptTrace, Scope, Site, Status, Trace};
use ndarray::{ArrayViewD, IxDyn};

use super::{
    correlate::{Pair, correlation},
    error::{ImportError, shown},
    plan::ImportPrompt,
};

/// How alike the rows of one site are to the reference's, where both were fed the same tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// The scope.
    pub scope: Scope,
    /// The site.
    pub site: Site,
    /// Rows that both hold.
    pub rows: usize,
    /// Mean over rows of Pearson correlation; absent when it is defined in none.
    pub correlation: Option<f64>,
}

/// The reference's tensors of the prompts in one file, in their order.
pub(crate) struct ReferenceRows {
    prompts: Vec<PromptTrace>,
    /// What differs though the tokens are the same.
    pub(crate) notes: Vec<String>,
}

impl ReferenceRows {
    pub(crate) fn of(trace: &Trace, prompts: &[ImportPrompt]) -> Result<Self, ImportError> {
        let mut notes = Vec::new();
        let found = prompts.iter().map(|prompt| {
            let held = trace.manifest().prompts.iter().enumerate();
            let mut same = held.filter(|(_, it)| it.token_ids == prompt.token_ids && it.status == Status::Ok);
            let by_id = same.clone().find(|(_, it)| it.id == prompt.id);
            let Some((index, held)) = by_id.or_else(|| same.next()) else {
                let id = shown(&prompt.id);
                return Err(ImportError::Prompts(format!(
                    "the trace to check against holds no prompt with the tokens of `{id}`: {:?}",
                    prompt.token_ids.iter().take(16).collect::<Vec<_>>()
                )));
            };
            if held.id != prompt.id {
                notes.push(format!(
                    "prompt `{}` has the id `{}` in the trace to check against; `compare` pairs prompts by id",
                    shown(&prompt.id),
                    shown(&held.id)
                ));
            }
            Ok(trace.prompt(index)?)
        });
        let prompts = found.collect::<Result<_, _>>()?;
        Ok(Self { prompts, notes })
    }

    /// The shape of a row of this site, if the reference holds it.
    pub(crate) fn row_shape(&self, scope: Scope, site: Site) -> Option<&[usize]> {
        self.prompts.iter().find_map(|prompt| Some(&prompt.scopes.get(&scope)?.sites.get(&site)?.shape[1..]))
    }

    /// The rows at these positions, by prompt, whatever was fed there.
    pub(crate) fn pairs(&self, scope: Scope, site: Site, positions: &[Vec<u32>]) -> Vec<Pair<'_>> {
        let prompts = self.prompts.iter().zip(positions).enumerate();
        prompts.flat_map(|(prompt, (trace, positions))| pairs_of(trace, scope, site, prompt, positions)).collect()
    }

    /// How alike what was captured is to the reference, by scope and site.
    pub(crate) fn check(&self, captures: &[Capture]) -> Vec<Check> {
        let mut sums: BTreeMap<(Scope, Site), (usize, f64, usize)> = BTreeMap::new();
        for (capture, trace) in captures.iter().zip(&self.prompts) {
            for (scope, captured) in &capture.scopes {
                let Some(held) = trace.scopes.get(scope) else { continue };
                let fed: BTreeMap<u32, u32> =
                    held.positions.iter().copied().zip(held.token_ids.iter().copied()).collect();
                // After another token was fed, no later row is of the same input.
                let same: Vec<u32> = captured
                    .positions
                    .iter()
                    .zip(&captured.token_ids)
                    .take_while(|(position, token)| fed.get(position).is_none_or(|held| held == *token))
                    .map(|(position, _)| *position)
                    .collect();
                for (site, tensor) in &captured.sites {
                    let pairs = pairs_of(trace, *scope, *site, 0, &same);
                    let shape = IxDyn(&[1, tensor.rows(), tensor.row_len()]);
                    let Ok(view) = ArrayViewD::from_shape(shape, &tensor.values) else { continue };
                    let sum = sums.entry((*scope, *site)).or_default();
                    sum.0 += pairs.len();
                    if let Some(found) = correlation(&view, &pairs) {
                        sum.1 += found;
                        sum.2 += 1;
                    }
                }
            }
        }
        let checks = sums.into_iter().map(|((scope, site), (rows, sum, prompts))| {
            let correlation = (prompts > 0).then(|| sum / prompts as f64);
            Check { scope, site, rows, correlation }
        });
        checks.collect()
    }
}

/// The rows of one prompt at these positions.
fn pairs_of<'r>(trace: &'r PromptTrace, scope: Scope, site: Site, prompt: usize, positions: &[u32]) -> Vec<Pair<'r>> {
    let Some(held) = trace.scopes.get(&scope) else { return Vec::new() };
    let Some(tensor) = held.sites.get(&site) else { return Vec::new() };
    let rows: BTreeMap<u32, usize> = held.positions.iter().copied().zip(0..).collect();
    let found = positions.iter().enumerate().filter_map(|(row, position)| Some((row, *rows.get(position)?)));
    found.map(|(row, index)| Pair { prompt, row, reference: tensor.row(index) }).collect()
}
