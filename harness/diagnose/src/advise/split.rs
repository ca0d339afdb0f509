//! Which prompts trials are judged on, and which the search never sees.

use std::collections::BTreeSet;

use fidelity_trace::PromptRecord;

/// Prompts of each part, at least.
const FEWEST: usize = 2;

/// Prompts in two parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// The first, third, fifth … prompt: trials are judged on them.
    pub search: Vec<PromptRecord>,
    /// The others.
    pub held_out: Vec<PromptRecord>,
    /// Left out: prompts whose tokens are calibrated on, or are those of an earlier prompt.
    pub repeated: Vec<String>,
}

/// Splits prompts alternately, in their order.
#[must_use]
pub fn split(prompts: &[PromptRecord], calibration: &[Vec<u32>]) -> Split {
    let mut seen: BTreeSet<&[u32]> = calibration.iter().map(Vec::as_slice).collect();
    let mut split = Split::default();
    for prompt in prompts {
        if !seen.insert(&prompt.token_ids) {
            split.repeated.push(prompt.id.clone());
            continue;
        }
        let part = if split.search.len() > split.held_out.len() { &mut split.held_out } else { &mut split.search };
        part.push(prompt.clone());
    }
    split
}

impl Split {
    /// Why nothing can be concluded from these prompts, if so; `rows` are the fewest that decide anything.
    #[must_use]
    pub fn too_small(&self, rows: usize) -> Option<String> {
        let found = self.held_out.iter().map(|prompt| prompt.token_ids.len()).sum::<usize>();
        let usable = self.search.len() + self.held_out.len();
        if self.held_out.len() < FEWEST {
            return Some(format!("{usable} usable prompts, {} needed to hold some out of the search", 2 * FEWEST));
        }
        (found < rows).then(|| format!("the held-out prompts have {found} rows, {rows} needed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(index: usize, ids: &[u32]) -> PromptRecord {
        PromptRecord::new(index, format!("p{index}"), None, ids.to_vec())
    }

    #[test]
    fn no_prompt_is_in_two_parts_nor_calibrated_on() {
        let prompts: Vec<_> =
            [&[1, 2][..], &[3], &[1, 2], &[4], &[5], &[6]].iter().enumerate().map(|(i, ids)| record(i, ids)).collect();
        let split = split(&prompts, &[vec![5]]);
        let ids = |part: &[PromptRecord]| part.iter().map(|prompt| prompt.id.clone()).collect::<Vec<_>>();
        assert_eq!(
            (ids(&split.search), ids(&split.held_out)),
            (vec!["p0".into(), "p3".into()], vec!["p1".into(), "p5".into()])
        );
        assert_eq!(split.repeated, ["p2", "p4"]);
        assert_eq!(split.too_small(2), None);
        assert!(split.too_small(3).is_some_and(|why| why.contains("2 rows, 3 needed")));
        let few = super::split(&prompts[..2], &[]);
        assert!(few.too_small(1).is_some_and(|why| why.starts_with("2 usable prompts, 4 needed")));
    }
}
