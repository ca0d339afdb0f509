//! What both arms generated, where they differ most.

use fidelity_verdict::Verdict;

use super::{Paint, Style, paint};
use crate::{
    generated::{Continuation, Pair, pairs},
    text::{end_of, truncated},
};

/// How many prompts are shown.
const SHOWN: usize = 2;
/// Columns of what both arms generated that are shown before they part.
const LEAD_IN: usize = 24;

pub(super) fn section(verdict: &Verdict, style: Style) -> Vec<String> {
    let Some(generated) = &verdict.generated else { return Vec::new() };
    let pairs = pairs(verdict, generated, SHOWN);
    let title =
        format!("Generated text, {} of {} prompts, earliest divergence first", pairs.len(), generated.prompts.len());
    let mut lines = vec![paint(&title, Paint::Strong, style)];
    lines.extend(pairs.iter().flat_map(|pair| shown(pair, style)));
    lines
}

fn shown(pair: &Pair, style: Style) -> [String; 3] {
    let line = |label: &str, arm: &Continuation| {
        truncated(&format!("    {label:<11}{}{}", end_of(&arm.shared, LEAD_IN), arm.own), style.width)
    };
    let head = truncated(&format!("  {}: {}", pair.prompt_id, pair.summary), style.width);
    [head, line("reference", &pair.reference), line("device", &pair.device)]
}
