//! Network groups: what a device runs as one.

use serde::Serialize;

use super::{
    HefError,
    ccws::{Ccws, Walk},
    edges::{EdgeCounts, Edges, Surroundings},
    extensions::Extensions,
    finding::{FindingKind, Findings, quoted},
    proto,
    proto::op,
    stream::{CacheEdge, Direction, Stream},
    target::Target,
};

/// Longest name of a group that `HailoRT` accepts.
const MAX_GROUP_NAME: usize = 127;

/// Where in the file the content of a group was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupSource {
    /// In the group itself.
    Group,
    /// In the core op among its ops (extension 13).
    CoreOp,
    /// In the first of several layouts (architectures that come with fewer clusters).
    FirstLayout,
}

/// A network group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its index as stored.
    pub index: u32,
    /// Where its content was found.
    pub source: GroupSource,
    /// Cluster bitmaps of its layouts; empty when it has only one.
    pub layouts: Vec<u32>,
    /// Number of contexts; above 1 the chip is reconfigured between them.
    pub contexts: usize,
    /// Names of its networks.
    pub networks: Vec<String>,
    /// Height and width are swapped throughout.
    pub transposed: bool,
    /// The compiler's estimate of frames per second.
    pub bottleneck_fps: f64,
    /// Operations of a frame.
    pub computational_ops: u64,
    /// Configuration channels.
    pub config_channels: u32,
    /// Post-processing on the host: `nms NAME` or `logits NAME`.
    pub post_processing: Vec<String>,
    /// The order of outputs that applies.
    pub outputs_order: Vec<String>,
    /// Inputs in file order.
    pub inputs: Vec<Stream>,
    /// Outputs in the order that the host sees.
    pub outputs: Vec<Stream>,
    /// Cache edges in file order.
    pub cache_edges: Vec<CacheEdge>,
    /// How many edges there are of each kind.
    pub edge_counts: EdgeCounts,
    /// What its actions do with ccws.
    pub ccws: Ccws,
}

/// What is the same for all groups of a file.
pub(super) struct Setting<'a> {
    pub(super) target: &'a Target,
    pub(super) extensions: &'a Extensions,
    pub(super) ccws_bytes: u64,
    pub(super) unknown_fields: &'a mut u64,
    pub(super) findings: &'a mut Findings,
}

/// The content of a group, wherever it was found.
struct Content {
    metadata: proto::GroupMetadata,
    preliminary_config: prost::bytes::Bytes,
    contexts: Vec<proto::Context>,
    sorted_outputs_order: Vec<String>,
    fused: proto::FusedLayers,
    networks: Vec<String>,
}

impl Group {
    pub(super) fn of(mut group: proto::NetworkGroup, setting: &mut Setting<'_>) -> Result<Self, HefError> {
        let name = own_name(&mut group);
        let place = format!("group {}", quoted(&name));
        let index = group.metadata.as_ref().map_or(0, |metadata| metadata.network_group_index);
        let post_processing = group.ops.iter().filter_map(post_processing).collect();
        let (source, layouts, content) = content(group, setting, &place)?;
        if content.contexts.is_empty() {
            return Err(HefError::malformed(place, "it has no context; HailoRT 5.2 crashes on it"));
        }
        judge_names(&name, &content.networks, &place, setting);
        let networks = if setting.extensions.multi_network() { content.networks.len() } else { 1 };
        let around = Surroundings {
            group: &place,
            transposed_net: content.metadata.transposed_net,
            networks,
            scale_per_feature: setting.extensions.scale_per_feature(),
        };
        let ccws = walk(&content, setting, &place)?;
        let contexts = content.contexts.len();
        let last = content.contexts.last().and_then(|context| context.metadata.as_ref());
        let outputs_order = outputs_order(content.fused, content.sorted_outputs_order, last);
        let edges = gather(content.contexts, &around, setting.findings)?;
        judge_boundary(&edges.boundary, &place, setting.findings);
        let (inputs, mut outputs): (Vec<_>, Vec<_>) =
            edges.boundary.into_iter().partition(|stream| stream.direction == Direction::In);
        sort(&mut outputs, &outputs_order, &place, setting.findings);
        Ok(Self {
            name,
            index,
            source,
            layouts,
            contexts,
            networks: content.networks,
            transposed: content.metadata.transposed_net,
            bottleneck_fps: content.metadata.bottleneck_fps,
            computational_ops: content.metadata.computational_ops,
            config_channels: content.metadata.cfg_channels_count,
            post_processing,
            outputs_order,
            inputs,
            outputs,
            cache_edges: edges.caches,
            edge_counts: edges.counts,
            ccws,
        })
    }
}

/// The first layout's name, else the group's own.
fn own_name(group: &mut proto::NetworkGroup) -> String {
    let first = group.partial_network_groups.first().and_then(|partial| partial.network_group.as_ref());
    let metadata = match first {
        Some(partial) => partial.metadata.as_ref(),
        None => group.metadata.as_ref(),
    };
    metadata.map(|metadata| metadata.network_group_name.clone()).unwrap_or_default()
}

fn post_processing(op: &proto::Op) -> Option<String> {
    match op.op {
        Some(op::Op::Nms(_)) => Some(format!("nms {}", op.name)),
        Some(op::Op::Logits(_)) => Some(format!("logits {}", op.name)),
        Some(op::Op::Core(_)) | None => None,
    }
}

fn content(
    mut group: proto::NetworkGroup,
    setting: &mut Setting<'_>,
    place: &str,
) -> Result<(GroupSource, Vec<u32>, Content), HefError> {
    let multi_layout = setting.target.has_layouts();
    if setting.extensions.net_flow() {
        let core = std::mem::take(&mut group.ops).into_iter().find_map(|op| match op.op {
            Some(op::Op::Core(core)) => Some(core),
            _ => None,
        });
        let Some(mut core) = core else {
            let reason = "extension 13 (HAILO_NET_FLOW) is set, but there is no core op; HailoRT 5.2 crashes on it";
            return Err(HefError::malformed(place, reason));
        };
        let partial = std::mem::take(&mut core.partial_core_ops);
        let layouts: Vec<_> = partial.iter().map(|partial| bitmap(partial.layout.as_ref())).collect();
        let first = partial.into_iter().next().and_then(|partial| partial.core_op).filter(|_| multi_layout);
        return Ok(match first {
            Some(first) => (GroupSource::FirstLayout, layouts, Content::of_core(first)),
            None => (GroupSource::CoreOp, layouts, Content::of_core(core)),
        });
    }
    let partial = std::mem::take(&mut group.partial_network_groups);
    let layouts: Vec<_> = partial.iter().map(|partial| bitmap(partial.layout.as_ref())).collect();
    let first = partial.into_iter().next().and_then(|partial| partial.network_group);
    Ok(match first {
        Some(first) if multi_layout => (GroupSource::FirstLayout, layouts, Content::of_group(first)),
        // Where there is one layout, only its names and the order of its outputs come from the list.
        Some(first) => {
            let mut content = Content::of_group(group);
            content.networks = first.networks_names;
            if !first.sorted_outputs_order.is_empty() {
                content.sorted_outputs_order = first.sorted_outputs_order;
            }
            (GroupSource::Group, layouts, content)
        }
        None => (GroupSource::Group, layouts, Content::of_group(group)),
    })
}

fn bitmap(layout: Option<&proto::PhysicalLayout>) -> u32 {
    layout.map_or(0, |layout| layout.partial_clusters_layout_bitmap)
}

impl Content {
    fn of_group(group: proto::NetworkGroup) -> Self {
        Self {
            metadata: group.metadata.unwrap_or_default(),
            preliminary_config: group.preliminary_config,
            contexts: group.contexts,
            sorted_outputs_order: group.sorted_outputs_order,
            fused: group.fused_layers.unwrap_or_default(),
            networks: group.networks_names,
        }
    }

    fn of_core(core: proto::CoreOp) -> Self {
        Self {
            metadata: core.metadata.unwrap_or_default(),
            preliminary_config: core.preliminary_config,
            contexts: core.contexts,
            sorted_outputs_order: core.sorted_outputs_order,
            fused: core.fused_layers.unwrap_or_default(),
            networks: core.networks_names,
        }
    }
}

fn judge_names(name: &str, networks: &[String], place: &str, setting: &mut Setting<'_>) {
    let findings = &mut setting.findings;
    if name.is_empty() {
        findings.warning(FindingKind::EmptyName, place, || "the group has no name".into());
    }
    if name.len() > MAX_GROUP_NAME {
        let length = name.len();
        findings.error(FindingKind::LongName, place, || {
            format!("the name has {length} bytes, HailoRT accepts {MAX_GROUP_NAME} (INTERNAL_FAILURE)")
        });
    }
    for text in std::iter::once(name).chain(networks.iter().map(String::as_str)) {
        if text.chars().any(char::is_control) {
            findings.warning(FindingKind::ControlCharacters, place, || {
                format!("the name {} has control characters", quoted(text))
            });
        }
    }
}

fn walk(content: &Content, setting: &mut Setting<'_>, place: &str) -> Result<Ccws, HefError> {
    let mut walk = Walk::new(setting.ccws_bytes);
    let operations = content.contexts.iter().flat_map(|context| &context.operations);
    walk.preliminary(&content.preliminary_config)
        .and_then(|()| operations.into_iter().try_for_each(|operation| walk.operation(operation)))
        .map_err(|error| HefError::ProtoDecode {
            reason: format!("{place}, its operations: {error}"),
            checksum_fails: false,
        })?;
    *setting.unknown_fields += walk.unknown_fields;
    Ok(walk.finish())
}

/// The order that applies: of fused layers, else of the group, else of its last context.
fn outputs_order(
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

fn gather(
    contexts: Vec<proto::Context>,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Result<Edges, HefError> {
    let mut edges = Edges::default();
    for (index, context) in contexts.into_iter().enumerate() {
        if context.context_index as usize != index {
            let found = context.context_index;
            findings.note(FindingKind::ContextIndex, around.group, || {
                format!("context {index} calls itself {found}; HailoRT goes by place")
            });
        }
        for layer in context.metadata.unwrap_or_default().edge_layers {
            edges.add(layer, index, around, findings)?;
        }
    }
    Ok(edges)
}

fn judge_boundary(boundary: &[Stream], place: &str, findings: &mut Findings) {
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
fn sort(outputs: &mut [Stream], order: &[String], place: &str, findings: &mut Findings) {
    let places: std::collections::BTreeMap<_, _> = order.iter().rev().zip((0..order.len()).rev()).collect();
    outputs.sort_by_key(|output| places.get(&output.name).copied().unwrap_or(order.len()));
    let known: std::collections::BTreeSet<_> = outputs.iter().map(|output| &output.name).collect();
    let ghosts: Vec<_> = order.iter().filter(|name| !known.contains(name)).collect();
    if let Some(ghost) = ghosts.first() {
        findings.note(FindingKind::OutputOrder, place, || {
            let (count, ghost) = (ghosts.len(), quoted(ghost));
            format!("the order of outputs names {count} that no output has, {ghost} first; HailoRT ignores them")
        });
    }
}
