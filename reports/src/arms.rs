//! Several arms beside each other.

use std::collections::BTreeMap;

use fidelity_trace::Scope;
use fidelity_verdict::{Verdict, worst};

use crate::{
    identity::arm_name,
    layers::{Value, has_layers, layers},
};

/// Several arms judged by one reference, and the folder of each report, if reports are written.
#[derive(Clone, Copy, Debug)]
pub struct ArmReports<'a> {
    /// A verdict an arm, at least one.
    pub verdicts: &'a [Verdict],
    /// As many folders, relative to the page that links to them.
    pub folders: &'a [String],
}

/// Names for the folders of several arms: its place, kind and name, whatever the name holds.
#[must_use]
pub fn arm_folders(verdicts: &[Verdict]) -> Vec<String> {
    const LONGEST: usize = 40;
    let folder = |(index, verdict): (usize, &Verdict)| {
        let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
        let name: String = arm_name(&verdict.arms.device.arm).chars().map(plain).take(LONGEST).collect();
        let parts: Vec<_> = name.split('-').filter(|part| !part.is_empty()).collect();
        format!("{}-{}", index + 1, parts.join("-"))
    };
    verdicts.iter().enumerate().map(folder).collect()
}

impl ArmReports<'_> {
    /// The arm that decides.
    pub(crate) fn worst(&self) -> Option<(usize, &Verdict)> {
        let index = worst(self.verdicts)?;
        Some((index, &self.verdicts[index]))
    }
}

/// How an arm is called in tables.
pub(crate) fn label(index: usize) -> String {
    format!("#{}", index + 1)
}

/// The error of one layer, arm by arm; `None` where an arm does not hold it.
pub(crate) struct SharedLayer {
    pub(crate) name: String,
    pub(crate) outputs: Vec<Option<(Value, bool)>>,
}

/// The layers of the scope that most arms hold layers of, as data flows; the second of each output says that the first bad site
/// is there.
pub(crate) fn shared_layers(verdicts: &[Verdict]) -> Option<(Scope, Vec<SharedLayer>)> {
    let holders =
        |scope: Scope| verdicts.iter().filter(|verdict| verdict.scopes.get(&scope).is_some_and(has_layers)).count();
    let scope = Scope::ALL.into_iter().rev().max_by_key(|scope| holders(*scope)).filter(|scope| holders(*scope) > 0)?;
    let mut shared: BTreeMap<(u8, u32), SharedLayer> = BTreeMap::new();
    for (index, verdict) in verdicts.iter().enumerate() {
        let Some(result) = verdict.scopes.get(&scope) else { continue };
        for layer in layers(verdict, result) {
            let empty = || SharedLayer { name: layer.name.clone(), outputs: vec![None; verdicts.len()] };
            let line = shared.entry(order(&layer.name)).or_insert_with(empty);
            line.outputs[index] = Some((layer.output, layer.first_bad.is_some()));
        }
    }
    Some((scope, shared.into_values().collect()))
}

/// Where a layer stands as data flows.
fn order(name: &str) -> (u8, u32) {
    match (name, name.parse()) {
        ("embed", _) => (0, 0),
        (_, Ok(block)) => (1, block),
        ("final_norm", _) => (2, 0),
        _ => (3, 0),
    }
}
