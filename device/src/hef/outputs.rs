//! Names of inputs and outputs, and the order that a host sees outputs in.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    finding::{FindingKind, Findings, quoted},
    proto,
    stream::Stream,
};

/// The order that applies: of fused layers, else of the group, else of its last context.
pub(super) fn outputs_order(
    fused: proto::FusedLayers,
    of_group: Vec<String>,
    last_context: Option<&proto::ContextMetadata>,
) -> Vec<String> {
    if fused.network_has_fused_layers {
        return fused.updated_sorted_output_names;
    }
    match of_group.is_empty() {
        false => of_group,
        true => last_context.map(|context| context.sorted_outputs_order.clone()).unwrap_or_default(),
    }
}

pub(super) fn judge_boundary(boundary: &[Stream], place: &str, findings: &mut Findings) {
    let mut names: Vec<_> = boundary.iter().map(|stream| stream.name.as_str()).collect();
    names.sort_unstable();
    let mut repeated: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    repeated.dedup();
    for name in repeated {
        findings.error(FindingKind::DuplicateBoundary, place, || {
            format!("several inputs or outputs are called {}; HailoRT refuses the file (INVALID_HEF)", quoted(name))
        });
    }
    if boundary.iter().any(|stream| stream.layout.device == Some("HAILO_NMS_ON_CHIP")) {
        findings.note(FindingKind::PostProcessing, place, || {
            "an output is suppressed to boxes on the chip; outputs that HailoRT joins are listed one by one".into()
        });
    }
}

/// Outputs by their place in the order; those it does not name keep file order after them.
pub(super) fn sort(outputs: &mut [Stream], order: &[String], place: &str, findings: &mut Findings) {
    let places: BTreeMap<_, _> = order.iter().rev().zip((0..order.len()).rev()).collect();
    outputs.sort_by_key(|output| places.get(&output.name).copied().unwrap_or(order.len()));
    let known: BTreeSet<_> = outputs.iter().map(|output| &output.name).collect();
    let ghosts: Vec<_> = order.iter().filter(|name| !known.contains(name)).collect();
    if let Some(ghost) = ghosts.first() {
        findings.note(FindingKind::OutputOrder, place, || {
            let (count, ghost) = (ghosts.len(), quoted(ghost));
            format!("the order of outputs names {count} that no output has, {ghost} first; HailoRT ignores them")
        });
    }
}
