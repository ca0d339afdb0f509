//! What computed the run, as far as it is known.

use fidelity_trace::{Arm, ArmKind};
use fidelity_verdict::{ArmIdentity, Verdict};
use serde_json::Value;

use super::page::{Fact, fact};
use crate::{Machine, text::printable};

/// Said of what nobody told.
const UNKNOWN: &str = "unknown";

/// Names and values; what belongs to this kind of arm and is not known says so.
pub(super) fn environment(verdict: &Verdict, machine: Option<&Machine>) -> Vec<Fact> {
    let known = |value: Option<String>| value.map_or_else(|| UNKNOWN.to_owned(), |value| printable(&value));
    let device = &verdict.arms.device;
    let mut facts = vec![
        fact("fidelity", known(machine.map(|it| it.fidelity.clone()))),
        fact("machine", known(machine.map(|it| it.host.clone()))),
        fact("began, UTC", known(machine.map(|it| it.begun.clone()))),
        fact("checkpoint's revision", known(verdict.checkpoint.revision.clone())),
        fact("checkpoint's weights, SHA-256", known(verdict.checkpoint.weights_sha256.clone())),
    ];
    let of_recipe = |key: &str| of_recipe(verdict, key);
    let recipes = [
        ("recipe", of_recipe("recipe")),
        ("recipe's text, SHA-256", of_recipe("recipe_sha256")),
        ("calibration", of_recipe("calibration")),
        ("activation ranges, hash", of_recipe("ranges_sha256")),
    ];
    let quantised = recipes[0].1.is_some() || device.arm.kind == ArmKind::Hailo;
    facts.extend(recipes.into_iter().filter(|_| quantised).map(|(name, value)| fact(name, known(value))));
    let of_device = [
        ("HEF, SHA-256", "hef_sha256"),
        ("Dataflow Compiler", "dfc"),
        ("HailoRT", "hailort"),
        ("firmware", "firmware"),
        ("driver", "driver"),
    ];
    let told = of_device.map(|(name, key)| (name, of_arm(&device.arm, key)));
    let compiled = device.arm.kind == ArmKind::Hailo || told.iter().any(|(_, value)| value.is_some());
    facts.extend(told.into_iter().filter(|_| compiled).map(|(name, value)| fact(name, known(value))));
    facts
}

/// Beside a device, the recipe is that of the emulator.
fn of_recipe(verdict: &Verdict, key: &str) -> Option<String> {
    let beside = verdict.attribution.as_ref().map(|attribution| &attribution.emulator);
    let numerics = |arm: &ArmIdentity| {
        let emulations = arm.deviations.iter().filter(|deviation| deviation.kind == "emulation");
        emulations.filter_map(|deviation| deviation.parameters.get(key)).find_map(text)
    };
    [Some(&verdict.arms.device), beside].into_iter().flatten().find_map(numerics)
}

fn of_arm(arm: &Arm, key: &str) -> Option<String> {
    arm.detail.get(key).and_then(text)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
