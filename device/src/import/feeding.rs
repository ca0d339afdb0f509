//! Which positions the rows of a scope have, and which tokens were fed there.

use std::collections::BTreeSet;

use fidelity_trace::{Capture, Scope, Site, Tensor};

use super::{
    archive::Archive,
    error::ImportError,
    map::{Fed, IdArray, Ids, Positions, ScopeMap},
    plan::ImportPrompt,
    prompts::rows_of_ids,
};

/// The positions by prompt that are known before any site is read; `None` where the rows decide.
pub(crate) fn known_positions(
    scope: &ScopeMap,
    prompts: &[ImportPrompt],
    archive: &mut Archive,
) -> Result<Option<Vec<Vec<u32>>>, ImportError> {
    let of_each = |of: &dyn Fn(u32) -> Vec<u32>| {
        Some(prompts.iter().map(|prompt| of(prompt.token_ids.len() as u32)).collect::<Vec<_>>())
    };
    let positions = match &scope.positions {
        Positions::Next => None,
        Positions::All => of_each(&|tokens| (0..tokens).collect()),
        Positions::Last => of_each(&|tokens| vec![tokens.saturating_sub(1)]),
        Positions::List(list) => of_each(&|_| list.clone()),
        Positions::Array(array) => Some(rows_of_ids(archive, &array.array, prompts.len())?),
    };
    Ok(positions)
}

/// The positions by prompt of `rows` rows that follow the prompt.
pub(crate) fn next_positions(prompts: &[ImportPrompt], rows: usize) -> Vec<Vec<u32>> {
    prompts.iter().map(|prompt| (prompt.token_ids.len() as u32..).take(rows).collect()).collect()
}

/// Positions must be distinct, as many as there are rows.
pub(crate) fn check_positions(positions: &[u32], rows: usize) -> Result<(), String> {
    if positions.len() != rows {
        return Err(format!("{rows} rows at {} positions, expected as many", positions.len()));
    }
    let distinct: BTreeSet<_> = positions.iter().collect();
    if distinct.len() < positions.len() {
        return Err("two rows have the same position".into());
    }
    Ok(())
}

/// The tokens fed at rows that are known before the logits are.
pub(crate) enum Tokens {
    /// By prompt and row.
    Known(Vec<Vec<u32>>),
    /// What the logits of the position before choose.
    Greedy,
}

/// What the map says was fed, for positions that are known by now.
pub(crate) fn tokens(
    fed: &Fed,
    prompts: &[ImportPrompt],
    positions: &[Vec<u32>],
    archive: &mut Archive,
) -> Result<Tokens, ImportError> {
    let wrong = |reason: String| ImportError::Prompts(reason);
    match fed {
        Fed::Ids(Ids::Greedy) => Ok(Tokens::Greedy),
        Fed::Ids(Ids::List(list)) => Ok(Tokens::Known(vec![list.clone(); prompts.len()])),
        Fed::Ids(Ids::Array(array)) => Ok(Tokens::Known(rows_of_ids(archive, &array.array, prompts.len())?)),
        Fed::Prompt => {
            let of_prompt = prompts.iter().zip(positions).map(|(prompt, positions)| {
                let at = |position: &u32| {
                    prompt.token_ids.get(*position as usize).copied().ok_or_else(|| {
                        wrong(format!(
                            "prompt `{}` has {} tokens, none at position {position}; say what was fed there: token_ids = \"greedy\", a list or {{ array = \"…\" }}",
                            super::error::shown(&prompt.id),
                            prompt.token_ids.len()
                        ))
                    })
                };
                positions.iter().map(at).collect::<Result<Vec<_>, _>>()
            });
            Ok(Tokens::Known(of_prompt.collect::<Result<_, _>>()?))
        }
    }
}

/// The ids that the logits before each position choose; `own` are the scope's logits, `before` what other scopes hold.
pub(crate) fn greedy(positions: &[u32], own: Option<&Tensor>, before: &Capture) -> Result<Vec<u32>, String> {
    let ids = positions.iter().enumerate().map(|(row, position)| {
        let previous = position.checked_sub(1).ok_or("nothing comes before position 0")?;
        if let Some(index) = positions[..row].iter().position(|other| *other == previous)
            && let Some(logits) = own
        {
            return Ok(choice(logits.row(index)));
        }
        logits_at(before, previous)
            .map(choice)
            .ok_or_else(|| format!("`greedy` needs the logits at position {previous}, which no scope of the map holds"))
    });
    ids.collect()
}

/// The logits of the prompt at a position.
fn logits_at(capture: &Capture, position: u32) -> Option<&[f32]> {
    [Scope::Prefill, Scope::Base].into_iter().find_map(|scope| {
        let scope = capture.scopes.get(&scope)?;
        let index = scope.positions.iter().position(|other| *other == position)?;
        Some(scope.sites.get(&Site::Logits)?.row(index))
    })
}

/// The first highest logit. As in numpy, a NaN counts as the highest.
fn choice(row: &[f32]) -> u32 {
    if let Some(index) = row.iter().position(|value| value.is_nan()) {
        return index as u32;
    }
    let mut best = 0;
    for (index, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = index;
        }
    }
    best as u32
}

/// What the arm generated.
pub(crate) struct GeneratedIds {
    /// By prompt.
    pub(crate) ids: Vec<Option<Vec<u32>>>,
    /// What speaks against them.
    pub(crate) doubt: Option<String>,
}

/// What the arm generated after each prompt.
pub(crate) fn generated(
    ids: Option<&Ids>,
    prompts: &[ImportPrompt],
    captures: &[Capture],
    archive: &mut Archive,
) -> Result<GeneratedIds, ImportError> {
    let undoubted = |ids| GeneratedIds { ids, doubt: None };
    let given = match ids {
        None => return Ok(undoubted(vec![None; prompts.len()])),
        Some(Ids::Array(IdArray { array, optional: true })) if !archive.has(array) => {
            return Ok(undoubted(vec![None; prompts.len()]));
        }
        Some(Ids::Array(array)) => rows_of_ids(archive, &array.array, prompts.len())?,
        Some(Ids::List(list)) => vec![list.clone(); prompts.len()],
        Some(Ids::Greedy) => {
            let chosen = prompts.iter().zip(captures).map(|(prompt, capture)| chosen(prompt, capture));
            return Ok(undoubted(chosen.map(Some).collect()));
        }
    };
    let doubt = prompts.iter().zip(captures).zip(&given).find_map(|((prompt, capture), given)| {
        let (own, given) = (chosen(prompt, capture).first().copied()?, given.first().copied()?);
        (own != given).then(|| {
            let id = super::error::shown(&prompt.id);
            format!(
                "prompt `{id}`: the first generated id is said to be {given}, but the highest logit before it is {own}"
            )
        })
    });
    Ok(GeneratedIds { ids: given.into_iter().map(Some).collect(), doubt })
}

/// What the logits of a prompt choose: after its last token, then after each row that follows.
fn chosen(prompt: &ImportPrompt, capture: &Capture) -> Vec<u32> {
    let last = prompt.token_ids.len() as u32 - 1;
    let Some(first) = logits_at(capture, last).map(choice) else { return Vec::new() };
    let steps = capture.scopes.get(&Scope::Tbt).and_then(|tbt| Some((&tbt.positions, tbt.sites.get(&Site::Logits)?)));
    let following = steps.into_iter().flat_map(|(positions, logits)| {
        let in_order = positions.iter().zip(last + 1..).take_while(|(found, expected)| *found == expected);
        in_order.enumerate().map(|(row, _)| choice(logits.row(row)))
    });
    std::iter::once(first).chain(following).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_numpys() {
        assert_eq!(choice(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(choice(&[1.0, f32::NAN, 3.0]), 1);
        assert_eq!(choice(&[f32::NEG_INFINITY, f32::NEG_INFINITY]), 0);
    }

    #[test]
    fn positions_are_distinct_and_as_many_as_rows() {
        assert!(check_positions(&[3, 1], 2).is_ok());
        assert!(check_positions(&[3, 3], 2).is_err());
        assert!(check_positions(&[3], 2).is_err());
    }
}
