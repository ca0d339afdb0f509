//! docs/AUDIT.md explains every field, check and finding.

use std::{collections::BTreeSet, io::Cursor};

use fidelity_device::{
    audit::{CheckId, audit},
    hef::{FindingKind, Hef},
};
use serde_json::Value;

use fidelity_hef_writer::{hef_writer::Edge, llm_writer::Llm};

const DOCUMENT: &str = include_str!("../../../docs/AUDIT.md");

/// An audit in which no list and no object is empty.
fn full() -> Value {
    let mut hef = Llm::default().hef();
    hef.extensions.push(25);
    hef.groups[0].edge("small_prefill/conv1").scales = vec![0.5; 20];
    hef.groups[0].contexts[0].edges.push(Edge { connection: 1, ..Edge::new("x", 0, [1, 1, 1]) });
    let found = audit(&mut Hef::read(Cursor::new(hef.v3())).expect("readable"), None).expect("readable");
    serde_json::from_str(&found.to_json().expect("JSON")).expect("JSON")
}

fn explained(name: &str) -> bool {
    DOCUMENT.contains(&format!("`{name}`"))
}

#[test]
fn every_field_is_explained() {
    let mut fields = BTreeSet::new();
    collect(&full(), &mut fields);
    assert!(fields.len() > 60, "{fields:?}");
    let missing: Vec<_> = fields.iter().filter(|field| !explained(field)).collect();
    assert!(missing.is_empty(), "docs/AUDIT.md does not explain {missing:?}");
}

fn collect(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, inner)| {
            fields.insert(key.clone());
            // Its keys are kinds of action.
            if key != "actions" {
                collect(inner, fields);
            }
        }),
        Value::Array(items) => items.iter().for_each(|item| collect(item, fields)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_check_and_every_finding_is_explained() {
    let name = |value: Value| value.as_str().expect("a name").to_owned();
    let checks = CheckId::ALL.iter().map(|id| name(serde_json::to_value(id).expect("JSON")));
    let findings = FindingKind::ALL.iter().map(|kind| name(serde_json::to_value(kind).expect("JSON")));
    let missing: Vec<_> = checks.chain(findings).filter(|name| !explained(name)).collect();
    assert!(missing.is_empty(), "docs/AUDIT.md does not explain {missing:?}");
}
