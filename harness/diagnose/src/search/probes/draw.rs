//! New prompts, of pieces of those that the arm was run on.

use std::collections::BTreeSet;

use fidelity_trace::Scope;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Session;
use crate::search::{ArmPrompt, Rows};

/// Tokens of one piece: text that is much like what the arm was calibrated for.
const PIECE: usize = 8;
/// Steps after each, where steps are compared.
const STEPS: usize = 4;
/// Lengths of a prompt.
const SHORTEST: usize = 10;
const LONGEST: usize = 128;
/// Prompts of each length.
const EACH: usize = 2;

pub(super) fn prompts(session: &Session<'_>, known: &[ArmPrompt], round: usize) -> Vec<ArmPrompt> {
    let steps = if session.scopes.contains(&Scope::Tbt) { STEPS } else { 0 };
    let mut random = ChaCha8Rng::seed_from_u64(round as u64);
    let mut drawn = Vec::new();
    for tokens in lengths(session, known, steps) {
        for _ in 0..EACH {
            let mut ids = stream(known, tokens + steps, &mut random);
            let steps = ids.split_off(tokens);
            drawn.push(ArmPrompt {
                id: format!("probe-{round}-{}", drawn.len()),
                text: None,
                token_ids: ids,
                steps,
                logits: Rows::new(),
            });
        }
    }
    drawn
}

/// As long as the longest, longer, and to both sides of the edges of windows and of the device's chunks.
fn lengths(session: &Session<'_>, known: &[ArmPrompt], steps: usize) -> BTreeSet<usize> {
    let longest = known.iter().map(|prompt| prompt.token_ids.len()).max().unwrap_or(SHORTEST);
    let layers = &session.question.checkpoint.architecture().layers;
    let window = layers.iter().filter_map(|layer| layer.window).max().map(|window| window as usize);
    let chunk = Some(session.rerun.prompt_tokens_a_step);
    let edges = [window, chunk].into_iter().flatten().flat_map(|edge| [edge, edge.saturating_add(2)]);
    let most = LONGEST.min(session.rerun.capacity.saturating_sub(steps));
    let wanted = [longest, longest * 3 / 2, longest * 2].into_iter().map(|length| length.clamp(SHORTEST, LONGEST));
    wanted.chain(edges).filter(|length| (2..=most).contains(length)).collect()
}

/// So many ids: the first of a prompt, then pieces of any.
fn stream(known: &[ArmPrompt], count: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let all: Vec<&[u32]> = known.iter().map(|prompt| prompt.token_ids.as_slice()).filter(|ids| ids.len() > 1).collect();
    let mut below = |count: usize| random.next_u32() as usize % count.max(1);
    let Some(begins) = all.get(below(all.len())) else { return vec![known[0].token_ids[0]; count] };
    let mut ids = vec![begins[0]];
    while ids.len() < count {
        let piece = &all[below(all.len())][1..];
        let start = below(piece.len());
        ids.extend(piece[start..].iter().take(PIECE));
    }
    ids.truncate(count);
    ids
}
