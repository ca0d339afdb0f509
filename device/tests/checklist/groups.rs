//! Groups, contexts and edges.

use fidelity_device::{
    audit::{CheckId, State},
    hef::{Direction, Finding, FindingKind, GroupSource, Severity},
};

use crate::support::{audit, check, description, error, finding, kinds};
use fidelity_hef_writer::{
    hef_writer::{Context, Edge, Group, Hef},
    llm_writer::Llm,
    message::Message,
};

/// The small file with a change to its only group.
fn with(change: impl FnOnce(&mut Group)) -> Hef {
    let mut hef = Hef::small();
    change(&mut hef.groups[0]);
    hef
}

/// The one finding of a kind, which must be an error that fails the audit.
fn error_finding(hef: &Hef, kind: FindingKind) -> Finding {
    let found = audit(hef.v3());
    let finding = finding(&found.hef, kind).clone();
    assert_eq!(finding.severity, Severity::Error, "{finding:?}");
    assert_eq!(check(&found, CheckId::Structure).state, State::Fail);
    assert_eq!(found.exit_code, 1);
    finding
}

#[test]
fn row_20_a_group_without_contexts() {
    assert!(error(with(|group| group.contexts.clear()).v3()).contains("group `net`: it has no context"));
}

#[test]
fn row_21_net_flow_without_a_core_op() {
    let mut hef = with(|group| {
        group.more =
            Message::new().message(8, Message::new().text(1, "softmax").message(6, Message::new())).into_bytes();
    });
    assert_eq!(description(hef.v3()).groups[0].post_processing, ["logits softmax"]);
    hef.extensions.push(13);
    assert!(error(hef.v3()).contains("there is no core op"));
    let core = Message::new().message(4, Hef::small().groups[0].message());
    hef.groups[0].contexts.clear();
    hef.groups[0].more.extend(Message::new().message(8, core).into_bytes());
    let found = description(hef.v3());
    assert_eq!(found.groups[0].source, GroupSource::CoreOp);
    assert_eq!(found.groups[0].outputs.len(), 2);
    finding(&found, FindingKind::PostProcessing);
}

#[test]
fn layouts_are_listed_and_the_first_is_read() {
    let partial = |name: &str, bitmap| {
        let mut group = Hef::small().groups[0].clone();
        group.name = name.into();
        Message::new().message(1, group.message()).message(2, Message::new().number(1, bitmap))
    };
    let mut hef = with(|group| {
        group.contexts.clear();
        group.more = Message::new().messages(7, [partial("first", 3), partial("second", 12)]).into_bytes();
    });
    hef.architecture = 3;
    let found = description(hef.v3());
    let group = &found.groups[0];
    assert_eq!(
        (group.name.as_str(), group.source, &group.layouts[..]),
        ("first", GroupSource::FirstLayout, &[3, 12][..])
    );
    assert_eq!(group.inputs.len(), 1);
}

#[test]
fn row_22_two_groups_of_one_name() {
    let mut hef = Hef::small();
    hef.groups.push(hef.groups[0].clone());
    let found = error_finding(&hef, FindingKind::DuplicateGroup);
    assert!(found.place.contains("`net`") && found.message.contains("INVALID_OPERATION"), "{found:?}");
}

#[test]
fn an_empty_group_name_is_a_warning() {
    let found = description(with(|group| group.name.clear()).v3());
    assert_eq!(finding(&found, FindingKind::EmptyName).severity, Severity::Warning);
}

#[test]
fn row_23_edges_without_content_or_of_another_type() {
    let edges = |content, kind| {
        with(|group| group.edges().for_each(|edge| (edge.content, edge.kind) = (Some((content, vec![])), kind)))
    };
    for (content, kind) in [(0, 0), (3, 1), (4, 0), (8, 1), (3, 9)] {
        let message = error(edges(content, kind).v3());
        assert!(message.contains("has no content, or that of another type"), "{message}");
    }
    let message = error(edges(3, 0).v3());
    assert!(message.contains("the edge has no shape"), "{message}");
    let mux = Message::new().text(1, "mux").message(5, Message::new()).into_bytes();
    let message =
        error(with(|group| (group.edge("net/input").content, group.edge("net/input").kind) = (Some((4, mux)), 1)).v3());
    assert!(message.contains("mux `mux` has a predecessor without content"), "{message}");
}

#[test]
fn row_24_no_buffer_indices() {
    let hef = with(|group| group.edge("net/input").buffer_indices = 0);
    assert!(error_finding(&hef, FindingKind::NoBufferIndices).message.contains("crashes"));
}

#[test]
fn row_25_unknown_connections_and_directions() {
    let message = error(with(|group| group.edge("net/input").connection = 7).v3());
    assert!(message.contains("connection type 7"), "{message}");
    let message = error(with(|group| group.edge("net/input").direction = 2).v3());
    assert!(message.contains("direction 2"), "{message}");
}

#[test]
fn edges_inside_are_counted_and_are_no_streams() {
    let hef = with(|group| {
        let edges =
            [1, 1, 2].map(|connection| Edge { connection, quantisation: None, ..Edge::new("net/inner", 0, [1, 1, 8]) });
        group.contexts.push(Context { index: 1, edges: edges.to_vec(), ..Context::default() });
    });
    let group = &description(hef.v3()).groups[0];
    let counts = group.edge_counts;
    assert_eq!((counts.boundary, counts.intermediate, counts.ddr, counts.cache), (3, 2, 1, 0));
    assert_eq!((group.inputs.len(), group.outputs.len(), group.contexts), (1, 2, 2));
}

#[test]
fn row_28_two_boundaries_of_one_name() {
    let hef = with(|group| group.edge("net/output2").name = "net/output1".into());
    assert!(error_finding(&hef, FindingKind::DuplicateBoundary).message.contains("`net/output1`"));
    // In two groups it is no fault.
    let mut two = Hef::small();
    two.groups.push(Group { name: "other".into(), ..two.groups[0].clone() });
    assert_eq!(kinds(&description(two.v3())), [FindingKind::UncheckedByHailort]);
}

#[test]
fn row_33_cache_edges_that_hailort_refuses() {
    let mut hef = Llm::default().hef();
    hef.groups[0].edge("small_prefill/cache_in0").cache_id = -3;
    assert!(error_finding(&hef, FindingKind::CacheEdge).message.contains("cache id -3"));
    let mut hef = Llm::default().hef();
    let edge = hef.groups[0].edge("small_prefill/cache_in0");
    edge.kind = 1;
    edge.content = Some((4, Message::new().text(1, "mux").into_bytes()));
    assert!(error_finding(&hef, FindingKind::CacheEdge).message.contains("mux"));
}

#[test]
fn row_33_the_rules_of_caches_hold_of_any_file_with_caches() {
    let cache =
        |name: &str, direction, cache_id| Edge { connection: 3, cache_id, ..Edge::new(name, direction, [1, 4, 8]) };
    let mut hef = Hef::small();
    hef.groups[0].contexts.push(Context { index: 1, edges: vec![cache("net/read", 0, 0)], ..Context::default() });
    let found = audit(hef.v3());
    let pairs = check(&found, CheckId::CachePairs);
    assert_eq!((pairs.state, pairs.found.as_str()), (State::Fail, "group `net`: cache 0 is read but never written"));
    hef.groups[0].contexts[1].edges.push(cache("net/write", 1, 0));
    let found = audit(hef.v3());
    assert_eq!(check(&found, CheckId::CachePairs).state, State::Pass);
    assert_eq!(found.hef.groups[0].cache_edges.len(), 2);
    assert_eq!((found.outcome, found.exit_code), (State::NotApplicable, 0));
}

#[test]
fn the_order_of_outputs_may_name_what_is_not_there() {
    let hef = with(|group| group.outputs_order = vec!["net/ghost".into(), "net/output2".into()]);
    let found = description(hef.v3());
    assert_eq!(finding(&found, FindingKind::OutputOrder).severity, Severity::Note);
    let names: Vec<_> = found.groups[0].outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["net/output2", "net/output1"]);
    let unordered = description(with(|group| group.outputs_order.clear()).v3());
    assert_eq!(unordered.groups[0].outputs[0].name, "net/output1");
}

#[test]
fn contexts_go_by_place() {
    let found = description(with(|group| group.contexts[0].index = 5).v3());
    assert_eq!(finding(&found, FindingKind::ContextIndex).severity, Severity::Note);
}

#[test]
fn muxes_are_expanded_and_planes_are_one_input() {
    let edge = |name: &str| Message::new().message(1, Edge::new(name, 1, [1, 1, 7]).info());
    let mux = Message::new().text(1, "net/mux").message(5, edge("net/a")).message(5, edge("net/b"));
    let planes = Message::new().text(1, "net/image").number(2, 2).number(4, 6).number(5, 4).number(6, 3);
    let hef = with(|group| {
        group.contexts[0].edges = vec![
            Edge { kind: 1, content: Some((4, mux.into_bytes())), ..Edge::new("", 1, [1, 1, 1]) },
            Edge { kind: 2, content: Some((8, planes.into_bytes())), ..Edge::new("", 0, [1, 1, 1]) },
        ];
        group.outputs_order.clear();
    });
    let group = &description(hef.v3()).groups[0];
    let outputs: Vec<_> = group.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(outputs, ["net/a", "net/b"]);
    let image = &group.inputs[0];
    assert_eq!((image.shape, image.layout.host, image.direction), ([6, 4, 3], Some("I420"), Direction::In));
}
