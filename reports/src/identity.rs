//! Who was compared, in words.

use std::collections::BTreeMap;

use fidelity_trace::{Arm, ArmKind, CheckpointIdentity, Deviation, Status};
use fidelity_verdict::{ArmIdentity, Verdict};
use serde_json::{Map, Value};

use crate::text::printable;

/// The arm's kind and name, once each: `emulator w8a16`.
pub(crate) fn arm_name(arm: &Arm) -> String {
    let kind = arm.kind.to_string();
    match arm.name.strip_prefix(&kind) {
        _ if arm.name.is_empty() => kind,
        Some(_) => printable(&arm.name),
        None => printable(&format!("{kind} {}", arm.name)),
    }
}

/// The arm's name where its role is told beside it: the reference's kind is not said again.
pub(crate) fn name_in_role(role: &str, arm: &Arm) -> String {
    let name = arm_name(arm);
    name.strip_prefix(role).map(str::trim).filter(|rest| !rest.is_empty()).unwrap_or(&name).to_owned()
}

/// What a compiled model ran on, as far as it is known.
pub(crate) fn on_device(arm: &Arm) -> Option<String> {
    let fact = |(key, said): (&str, &str)| {
        arm.detail.get(key).filter(|it| !it.is_null()).map(|it| format!("{said} {}", plain(it)))
    };
    let facts = [
        ("hef_sha256", "HEF"),
        ("audit", "audit"),
        ("dfc", "DFC"),
        ("hailort", "HailoRT"),
        ("firmware", "firmware"),
        ("driver", "driver"),
    ];
    let known: Vec<_> = facts.into_iter().filter_map(fact).collect();
    (arm.kind == ArmKind::Hailo && !known.is_empty()).then(|| printable(&known.join(", ")))
}

/// The checkpoint, where it came from and which revision it is.
pub(crate) fn checkpoint_name(checkpoint: &CheckpointIdentity) -> String {
    let revision = checkpoint.revision.as_deref().map(|revision| format!("@ {}", shortened(revision)));
    let origin = [Some(checkpoint.source.clone()).filter(|source| !source.is_empty()), revision];
    let origin = origin.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let name = if checkpoint.name.is_empty() { "unnamed checkpoint" } else { &checkpoint.name };
    printable(&if origin.is_empty() { name.to_owned() } else { format!("{name} ({origin})") })
}

/// Whether the deviation is wrong on purpose, as far as this version knows its kind.
pub(crate) fn is_injected(deviation: &Deviation) -> bool {
    matches!(deviation.kind.as_str(), "intervention" | "link_fault")
}

/// What was done to an arm's computation, in words.
pub(crate) fn deviation(deviation: &Deviation) -> String {
    let mut parameters = deviation.parameters.clone();
    // A note says it in full.
    parameters.remove("not_emulated");
    let block = parameters.remove("block").map_or_else(String::new, |block| format!(" in block {}", plain(&block)));
    let others: Vec<_> = sorted(&parameters).map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let what = match deviation.kind.as_str() {
        "intervention" => "fault injected on purpose",
        "link_fault" => "link fault injected on purpose",
        other => other,
    };
    printable(&format!("{what}: {}{block}{others}", deviation.name))
}

/// The arm and what was injected into it, in one phrase.
pub(crate) fn arm_phrase(identity: &ArmIdentity) -> String {
    let injected = identity.deviations.iter().filter(|deviation| is_injected(deviation)).map(deviation);
    std::iter::once(arm_name(&identity.arm)).chain(injected).collect::<Vec<_>>().join(", ")
}

/// Whether the checkpoint's row expects this verdict.
pub(crate) fn is_expected(verdict: &Verdict) -> bool {
    verdict.expect.iter().any(|expected| expected == verdict.verdict.name())
}

/// How many prompts were compared, of how many, and why others were not.
pub(crate) fn prompt_counts(verdict: &Verdict) -> String {
    let count = |status| verdict.prompts.iter().filter(|prompt| prompt.status == status).count();
    let counts = [(count(Status::Failed), "failed"), (count(Status::Skipped), "skipped")];
    let others: String = counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!(", {n} {word}")).collect();
    format!("{} of {} prompts ran{others}", count(Status::Ok), verdict.prompts.len())
}

/// Entries by name, whatever order the map keeps.
pub(crate) fn sorted(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.iter().collect::<BTreeMap<_, _>>().into_iter()
}

/// A value as text; digests in their first 12 digits.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => shortened(text).to_owned(),
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> &str {
    let digest = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digest { &text[..12] } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidelity_trace::{Emulation, Fault, Intervention};

    #[test]
    fn an_injected_fault_is_named_as_such() {
        let fault = Deviation::from(&Intervention { block: Some(2), ..Fault::GqaTile.into() });
        assert_eq!(deviation(&fault), "fault injected on purpose: gqa_tile in block 2");
        assert!(is_injected(&fault));
    }

    #[test]
    fn a_device_says_what_ran_on_it() {
        let detail =
            serde_json::json!({"hef_sha256": "0123456789abcdef".repeat(4), "hailort": "5.2.0", "driver": null});
        let detail = detail.as_object().expect("an object").clone();
        let arm = |kind| Arm { kind, name: "hailo10h".into(), detail: detail.clone() };
        assert_eq!(on_device(&arm(ArmKind::Hailo)).as_deref(), Some("HEF 0123456789ab, HailoRT 5.2.0"));
        assert_eq!(on_device(&arm(ArmKind::Emulator)), None);
    }

    #[test]
    fn a_recipe_is_no_fault_and_its_digest_is_shortened() {
        let recipe = Deviation::from(&Emulation::Quantisation {
            recipe: "w8a16".into(),
            recipe_sha256: "0123456789abcdef".repeat(4),
            calibration: "16 prompts".into(),
            ranges_sha256: "7c1f".into(),
            not_emulated: vec!["quarot".into()],
        });
        let text = "emulation: quantisation (calibration 16 prompts, ranges_sha256 7c1f, recipe w8a16, recipe_sha256 0123456789ab)";
        assert_eq!(deviation(&recipe), text);
        assert!(!is_injected(&recipe));
    }

    #[test]
    fn an_arm_does_not_say_its_kind_twice() {
        let named = |name: &str| arm_name(&Arm { kind: ArmKind::Emulator, name: name.into(), detail: Map::new() });
        assert_eq!([named(""), named("emulator"), named("w8")], ["emulator", "emulator", "emulator w8"]);
    }
}
