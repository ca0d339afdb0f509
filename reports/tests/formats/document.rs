//! docs/VERDICT.md: its example reads, and no field is left out.

use std::collections::BTreeSet;

use fidelity_verdict::Verdict;
use serde_json::Value;

use crate::sample::{broken, encoder};

const DOCUMENT: &str = include_str!("../../../docs/VERDICT.md");
/// Fields whose keys are data: scopes, sites, or whatever an arm says of itself.
const MAPS: [&str; 6] = ["scopes", "sites", "noise_floor", "detail", "parameters", "token_text"];

#[test]
fn the_example_is_a_verdict() {
    let example = DOCUMENT.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let verdict = Verdict::parse(example, "docs/VERDICT.md").expect("valid");
    assert_eq!(verdict.scopes.len(), 1);
}

#[test]
fn every_field_is_explained() {
    let mut fields = BTreeSet::new();
    for verdict in [broken(), encoder()] {
        collect(&serde_json::to_value(verdict).expect("JSON"), false, &mut fields);
    }
    let missing: Vec<_> = fields.iter().filter(|field| !DOCUMENT.contains(&format!("`{field}`"))).collect();
    assert!(missing.is_empty(), "docs/VERDICT.md does not explain {missing:?}");
}

fn collect(value: &Value, keys_are_data: bool, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, inner)| {
            if !keys_are_data {
                fields.insert(key.clone());
            }
            collect(inner, !keys_are_data && MAPS.contains(&key.as_str()), fields);
        }),
        Value::Array(items) => items.iter().for_each(|item| collect(item, false, fields)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
