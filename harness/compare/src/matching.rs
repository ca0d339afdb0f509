//! Which row of the arm belongs to which row of the reference.

use std::collections::BTreeMap;

use fidelity_trace::ScopeTrace;

/// A position that both arms computed from the same token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Position in the token sequence.
    pub(crate) position: u32,
    /// Token fed there.
    pub(crate) token_id: u32,
    /// Row of the reference.
    pub(crate) reference: usize,
    /// Row of the arm.
    pub(crate) device: usize,
    /// Token that the reference was fed at the next position, if that position is a row of the scope.
    pub(crate) next_token: Option<u32>,
}

/// The rows of one scope of one prompt, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matching {
    /// Rows to compare, in ascending order of position.
    pub(crate) pairs: Vec<Pair>,
    /// Positions of the reference that the arm does not have.
    pub(crate) missing: usize,
    /// Positions at which the two were fed different tokens, or were before in a causal scope.
    pub(crate) other_token: usize,
    /// Positions of the arm that the reference does not have.
    pub(crate) extra: usize,
}

/// Which tokens a row depends on: after one that is another in the arm, no row that depends on it is of the same input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependence {
    /// Its own and those before: a causal scope.
    Earlier,
    /// All: an encoder.
    All,
    /// Its own.
    Own,
}

/// Matches rows by position. Of several rows at one position the first counts.
pub(crate) fn match_rows(reference: &ScopeTrace, device: &ScopeTrace, dependence: Dependence) -> Matching {
    let (reference, device) = (rows_by_position(reference), rows_by_position(device));
    let extra = device.keys().filter(|position| !reference.contains_key(position)).count();
    let mut matching = Matching { extra, ..Matching::default() };
    let other = |(position, row): (&u32, &Row)| device.get(position).is_some_and(|its| its.token_id != row.token_id);
    let mut parted = dependence == Dependence::All && reference.iter().any(other);
    for (position, row) in &reference {
        match device.get(position) {
            None => matching.missing += 1,
            Some(other) if other.token_id != row.token_id || parted => {
                parted = dependence != Dependence::Own;
                matching.other_token += 1;
            }
            Some(other) => matching.pairs.push(Pair {
                position: *position,
                token_id: row.token_id,
                reference: row.index,
                device: other.index,
                next_token: position.checked_add(1).and_then(|next| reference.get(&next)).map(|next| next.token_id),
            }),
        }
    }
    matching
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Index into the scope's tensors.
    pub(crate) index: usize,
    /// Token fed.
    pub(crate) token_id: u32,
}

/// The first row of each position.
pub(crate) fn rows_by_position(scope: &ScopeTrace) -> BTreeMap<u32, Row> {
    let mut rows = BTreeMap::new();
    for (index, (position, token_id)) in scope.positions.iter().zip(&scope.token_ids).enumerate() {
        rows.entry(*position).or_insert(Row { index, token_id: *token_id });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dependence::{All, Earlier, Own};

    fn scope(rows: &[(u32, u32)]) -> ScopeTrace {
        let (positions, token_ids) = rows.iter().copied().unzip();
        ScopeTrace { positions, token_ids, ..ScopeTrace::default() }
    }

    #[test]
    fn rows_meet_by_position_in_any_order() {
        let matching = match_rows(&scope(&[(0, 7), (1, 8), (2, 9)]), &scope(&[(2, 9), (0, 7), (5, 1)]), Earlier);
        let met: Vec<_> = matching.pairs.iter().map(|pair| (pair.position, pair.reference, pair.device)).collect();
        assert_eq!(met, [(0, 0, 1), (2, 2, 0)]);
        assert_eq!((matching.missing, matching.other_token, matching.extra), (1, 0, 1));
        assert_eq!(matching.pairs.iter().map(|pair| pair.next_token).collect::<Vec<_>>(), [Some(8), None]);
    }

    #[test]
    fn another_token_is_not_the_same_row() {
        let matching = match_rows(&scope(&[(0, 7), (1, 8)]), &scope(&[(0, 7), (1, 9)]), Earlier);
        assert_eq!((matching.pairs.len(), matching.missing, matching.other_token), (1, 0, 1));
    }

    #[test]
    fn the_first_of_two_rows_at_a_position_counts() {
        let matching = match_rows(&scope(&[(3, 7), (3, 8)]), &scope(&[(3, 7), (3, 8)]), Earlier);
        assert_eq!(matching.pairs.len(), 1);
        assert_eq!((matching.pairs[0].reference, matching.pairs[0].device), (0, 0));
    }

    #[test]
    fn nothing_matches_nothing() {
        assert_eq!(match_rows(&scope(&[]), &scope(&[]), Earlier), Matching::default());
        assert_eq!(match_rows(&scope(&[(u32::MAX, 1)]), &scope(&[(u32::MAX, 1)]), Earlier).pairs.len(), 1);
    }

    #[test]
    fn after_another_token_no_row_that_depends_on_it_is_of_the_same_input() {
        let (reference, device) = (scope(&[(0, 7), (1, 8), (2, 9)]), scope(&[(0, 7), (1, 6), (2, 9)]));
        let matched = |dependence| {
            let matching = match_rows(&reference, &device, dependence);
            (matching.pairs.len(), matching.other_token)
        };
        assert_eq!(matched(Earlier), (1, 2));
        assert_eq!(matched(Own), (2, 1));
        assert_eq!(matched(All), (0, 3), "an encoder's rows depend on later tokens too");
    }
}
