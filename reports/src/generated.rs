//! Generated text side by side, for the formats that show it.

use std::iter::zip;

use fidelity_verdict::{Generated, Verdict};

use crate::text::printable;

/// What both arms generated for one prompt.
pub(crate) struct Pair {
    pub(crate) prompt_id: String,
    pub(crate) prompt_text: Option<String>,
    /// Where they part and whether either is degenerate, in words.
    pub(crate) summary: String,
    pub(crate) reference: Continuation,
    pub(crate) device: Continuation,
}

/// One arm's text, or its ids where there is no text.
pub(crate) struct Continuation {
    /// What both arms generated.
    pub(crate) shared: String,
    /// What only this arm generated.
    pub(crate) own: String,
}

/// Up to `most` prompts: those that degenerate first, then those that diverge earliest.
pub(crate) fn pairs(verdict: &Verdict, generated: &Generated, most: usize) -> Vec<Pair> {
    let mut order: Vec<usize> = (0..generated.prompts.len()).collect();
    order.sort_by_key(|index| {
        let degenerates = flag(&generated.device_degenerate, *index) && !flag(&generated.reference_degenerate, *index);
        (!degenerates, divergence(generated, *index).unwrap_or(usize::MAX))
    });
    order.into_iter().take(most).map(|index| pair(verdict, generated, index)).collect()
}

fn pair(verdict: &Verdict, generated: &Generated, index: usize) -> Pair {
    let prompt = generated.prompts.get(index).and_then(|prompt| verdict.prompts.get(*prompt));
    let (reference, device) = continuations(generated, index);
    Pair {
        prompt_id: prompt.map_or_else(|| "unknown prompt".to_owned(), |prompt| printable(&prompt.id)),
        prompt_text: prompt.and_then(|prompt| prompt.text.as_deref()).map(printable),
        summary: summary(generated, index),
        reference,
        device,
    }
}

fn summary(generated: &Generated, index: usize) -> String {
    let length = generated.reference_ids.get(index).map_or(0, Vec::len);
    let mut summary = match divergence(generated, index) {
        Some(token) => format!("differs from generated token {} of {length} on", token + 1),
        None => format!("the same {length} tokens"),
    };
    let degenerate = [(&generated.reference_degenerate, "reference"), (&generated.device_degenerate, "device")];
    for (_, arm) in degenerate.into_iter().filter(|(flags, _)| flag(flags, index)) {
        summary.push_str(&format!("; the {arm} repeats one token"));
    }
    summary
}

fn continuations(generated: &Generated, index: usize) -> (Continuation, Continuation) {
    let text = |texts: &[String]| texts.get(index).filter(|text| !text.is_empty()).map(|text| printable(text));
    match (text(&generated.reference_text), text(&generated.device_text)) {
        (Some(reference), Some(device)) => split(&reference, &device),
        _ => split(&ids(&generated.reference_ids, index), &ids(&generated.device_ids, index)),
    }
}

fn split(reference: &str, device: &str) -> (Continuation, Continuation) {
    let same = zip(reference.chars(), device.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let part = |text: &str| Continuation { shared: text[..same].to_owned(), own: text[same..].to_owned() };
    (part(reference), part(device))
}

fn ids(ids: &[Vec<u32>], index: usize) -> String {
    let ids = ids.get(index).into_iter().flatten().map(ToString::to_string);
    format!("ids {}", ids.collect::<Vec<_>>().join(" "))
}

fn divergence(generated: &Generated, index: usize) -> Option<usize> {
    generated.first_divergence.get(index).copied().flatten()
}

fn flag(flags: &[bool], index: usize) -> bool {
    flags.get(index).copied().unwrap_or(false)
}
