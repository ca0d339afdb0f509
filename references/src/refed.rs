//! Injected faults of token ids: what is fed is another sequence than what was asked for.

use fidelity_trace::{BlockSite, Capture, Fault, Request, Scope, ScopeCapture, Site};

use crate::{Architecture, Wiring};

/// How the sequence that is fed differs from the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refed {
    change: Change,
    /// Rows of a prompt keep the places that they have in what is fed.
    by_index: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The first token is left out.
    WithoutFirst,
    /// This token is put before all.
    Preceded(u32),
}

impl Refed {
    /// What the faults make of it; nothing when none is of tokens.
    pub(crate) fn by(wiring: &Wiring, architecture: &Architecture) -> Option<Self> {
        wiring.interventions().iter().find_map(|intervention| {
            let change = match intervention.fault {
                Fault::BosMissing => Some(Change::WithoutFirst),
                Fault::BosDoubled => architecture.bos.map(Change::Preceded),
                _ => None,
            };
            change.map(|change| Self { change, by_index: intervention.word() == "by_index" })
        })
    }

    /// The ids that are fed; a single token is not left out.
    pub(crate) fn token_ids(self, request: &Request<'_>) -> Vec<u32> {
        match self.change {
            Change::WithoutFirst => request.token_ids[usize::from(request.token_ids.len() > 1)..].to_vec(),
            Change::Preceded(first) => [&[first], request.token_ids].concat(),
        }
    }

    /// Gives the rows of a capture the positions that their tokens had in what was asked for. Scores and patterns, whose
    /// columns are positions too, are left out.
    pub(crate) fn relabel(self, request: &Request<'_>, capture: &mut Capture) {
        for (name, scope) in &mut capture.scopes {
            let of_keys = |site: &Site| matches!(site, Site::Block(_, BlockSite::Scores | BlockSite::Pattern));
            scope.sites.retain(|site, _| !of_keys(site));
            let of_prompt = matches!(name, Scope::Base | Scope::Prefill);
            match self.change {
                Change::WithoutFirst if request.token_ids.len() == 1 => {}
                Change::WithoutFirst if self.by_index && of_prompt => {}
                Change::WithoutFirst => scope.positions.iter_mut().for_each(|position| *position += 1),
                Change::Preceded(_) if self.by_index && of_prompt => drop_row(scope, request.token_ids.len()),
                Change::Preceded(_) => {
                    if scope.positions.first() == Some(&0) {
                        drop_row(scope, 0);
                    }
                    scope.positions.iter_mut().for_each(|position| *position -= 1);
                }
            }
            if of_prompt {
                // A row is known by the token that the host asked for.
                let asked = |position: &u32| request.token_ids.get(*position as usize).copied();
                scope.token_ids = scope.positions.iter().filter_map(asked).collect();
            }
        }
    }
}

fn drop_row(scope: &mut ScopeCapture, row: usize) {
    if row >= scope.positions.len() {
        return;
    }
    scope.positions.remove(row);
    scope.token_ids.remove(row);
    for (_, tensor) in scope.sites.iter_mut().filter(|(site, _)| !site.is_per_prompt()) {
        let width = tensor.row_len();
        tensor.values.drain(row * width..(row + 1) * width);
        tensor.shape[0] -= 1;
    }
}
