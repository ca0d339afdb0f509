//! Injected faults of token ids: what is fed is another sequence than what was asked for.

use fidelity_trace::{BlockSite, Capture, Fault, Request, ScopeCapture, Site};

use crate::{Architecture, Wiring};

/// How the sequence that is fed differs from the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refed {
    /// The first token is left out.
    WithoutFirst,
    /// This token is put before all.
    Preceded(u32),
}

impl Refed {
    /// What the faults make of it; nothing when none is of tokens.
    pub(crate) fn by(wiring: &Wiring, architecture: &Architecture) -> Option<Self> {
        wiring.interventions().iter().find_map(|intervention| match intervention.fault {
            Fault::BosMissing => Some(Self::WithoutFirst),
            Fault::BosDoubled => architecture.bos.map(Self::Preceded),
            _ => None,
        })
    }

    /// The ids that are fed; a single token is not left out.
    pub(crate) fn token_ids(self, request: &Request<'_>) -> Vec<u32> {
        match self {
            Self::WithoutFirst => request.token_ids[usize::from(request.token_ids.len() > 1)..].to_vec(),
            Self::Preceded(first) => [&[first], request.token_ids].concat(),
        }
    }

    /// Gives the rows of a capture the positions that their tokens had in what was asked for. Scores and patterns, whose
    /// columns are positions too, are left out.
    pub(crate) fn relabel(self, request: &Request<'_>, capture: &mut Capture) {
        for scope in capture.scopes.values_mut() {
            let of_keys = |site: &Site| matches!(site, Site::Block(_, BlockSite::Scores | BlockSite::Pattern));
            scope.sites.retain(|site, _| !of_keys(site));
            match self {
                Self::WithoutFirst if request.token_ids.len() > 1 => {
                    scope.positions.iter_mut().for_each(|position| *position += 1);
                }
                Self::WithoutFirst => {}
                Self::Preceded(_) => {
                    if scope.positions.first() == Some(&0) {
                        drop_first_row(scope);
                    }
                    scope.positions.iter_mut().for_each(|position| *position -= 1);
                }
            }
        }
    }
}

fn drop_first_row(scope: &mut ScopeCapture) {
    scope.positions.remove(0);
    scope.token_ids.remove(0);
    for (_, tensor) in scope.sites.iter_mut().filter(|(site, _)| !site.is_per_prompt()) {
        let width = tensor.row_len();
        tensor.values.drain(..width);
        tensor.shape[0] -= 1;
    }
}
