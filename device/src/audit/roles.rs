//! Who plays which role: runtime, groups, resources, configuration, inputs by name.

use crate::hef::quoted;

use super::{
    check::{Outcome, fail, not_applicable, pass, unknown},
    config::{Harm, Role},
    model::{CONFIG, EMBEDDINGS, Loaded, Model, THETA, TOKENIZER, suffixes},
};

pub(super) fn runtime(model: &Model<'_>) -> Outcome {
    let version = model.description.container.version;
    match (version, model.description.extensions.accepted_by_hailort_5()) {
        (3.., true) => pass("container version 3, extensions that HailoRT 5.2 knows"),
        (3.., false) => fail("HailoRT 5 refuses its extensions (see the findings)"),
        _ => fail(format!("container version {version}; compile it again with a compiler of version 5 or later")),
    }
}

pub(super) fn target(model: &Model<'_>) -> Outcome {
    let target = &model.description.target;
    let name = target.name.map_or_else(|| format!("architecture {}", target.code), ToOwned::to_owned);
    match target.compatible.contains(&"HAILO10H") {
        true => pass(format!("{name} runs on {}", target.compatible.join(", "))),
        false if target.compatible.is_empty() => fail(format!("{name} is not known to HailoRT 5.2")),
        false => fail(format!("{name} runs on {} only", target.compatible.join(", "))),
    }
}

pub(super) fn groups(model: &Model<'_>) -> Outcome {
    let groups = &model.description.groups;
    let (prefill, tbt) = suffixes(groups.len());
    let Some(part) = &model.prefill else {
        return fail(format!("no group's name ends in `{prefill}`; there are {}", names(model)));
    };
    let matching = |suffix: &str| groups.iter().filter(|group| group.name.ends_with(suffix)).count();
    let ambiguous = [Some(prefill), tbt].into_iter().flatten().find(|suffix| matching(suffix) > 1);
    if let Some(suffix) = ambiguous {
        return fail(format!(
            "{} groups end in `{suffix}`; the host takes the last: {}",
            matching(suffix),
            names(model)
        ));
    }
    let prefill = quoted(&part.group.name);
    match (&model.tbt, groups.len()) {
        (Some(tbt), 2) => pass(format!("prefill is {prefill}, tbt is {}", quoted(&tbt.group.name))),
        (Some(tbt), all) => pass(format!(
            "prefill is {prefill}, tbt is {}; {} more belong to LoRA adapters and are not checked",
            quoted(&tbt.group.name),
            all - 2
        )),
        (None, 1) => {
            pass(format!("prefill is {prefill}; no tbt, so that every token goes through prefill (HailoRT 5.1 on)"))
        }
        (None, _) => fail(format!(
            "prefill is {prefill}, but no group's name ends in `{}`; there are {}",
            tbt.unwrap_or_default(),
            names(model)
        )),
    }
}

fn names(model: &Model<'_>) -> String {
    let names = model.description.groups.iter().take(6).map(|group| quoted(&group.name));
    names.collect::<Vec<_>>().join(", ")
}

pub(super) fn resources(model: &Model<'_>) -> Outcome {
    let missing: Vec<_> = [CONFIG, TOKENIZER, EMBEDDINGS, THETA]
        .into_iter()
        .filter(|name| model.description.resource(name).is_none())
        .collect();
    match missing[..] {
        [] => pass("hailo-config.json, tokenizer.json, embeddings.bin and rope_theta_data.bin are there"),
        _ if missing.contains(&CONFIG) => fail(format!("missing: {}", missing.join(", "))),
        _ => unknown(format!(
            "missing: {}; a host that brings its own can run the model, the GenAI server cannot",
            missing.join(", ")
        )),
    }
}

pub(super) fn config(model: &Model<'_>) -> Outcome {
    match &model.config {
        Loaded::Missing => return not_applicable("there is no hailo-config.json"),
        Loaded::Unusable(reason) => return fail(reason.clone()),
        Loaded::Read(()) => {}
    }
    let parameters = &model.parameters;
    if let Some(problem) = parameters.problems.first() {
        return fail(problem.clone());
    }
    let Some(eos) = parameters.eos else { return fail("eos_token_id is missing") };
    let logits = model.prefill.as_ref().map(super::model::Part::logits);
    match logits {
        Some(logits) if u64::try_from(eos).is_ok_and(|eos| eos < logits) => {
            pass(format!("valid; eos_token_id = {eos}"))
        }
        Some(logits) => fail(format!("eos_token_id = {eos}, but ids go from 0 to {}", logits.saturating_sub(1))),
        None => unknown(format!("eos_token_id = {eos}, but without prefill its range is not known")),
    }
}

pub(super) fn config_keys(model: &Model<'_>) -> Outcome {
    if model.config.read().is_none() {
        return not_applicable("there is no hailo-config.json that can be read");
    }
    let unread = &model.parameters.unread;
    let told = |harm: Harm| {
        let of = unread.iter().filter(|(_, found)| *found == harm).take(4).map(|(text, _)| text.as_str());
        of.collect::<Vec<_>>().join("; ")
    };
    let (certain, possible) = (told(Harm::Certain), told(Harm::Possible));
    match (certain.is_empty(), possible.is_empty(), unread.is_empty()) {
        (false, ..) => fail(certain),
        (true, false, _) => unknown(possible),
        (true, true, false) => pass(format!("{}; none stands for a key that is missing", told(Harm::None))),
        (true, true, true) => pass("every key is one that the server reads"),
    }
}

pub(super) fn input_names(model: &Model<'_>) -> Outcome {
    let stated = if model.config.read().is_some() { "hailo-config.json" } else { "the server's defaults" };
    for part in model.parts() {
        let role = part.role;
        let mut taken: Vec<(&str, Role)> = Vec::new();
        for (wanted, suffix) in Role::ALL.into_iter().zip(&model.parameters.suffixes) {
            let key = wanted.key();
            let Some(input) = part.input(wanted) else {
                return fail(format!("{role}: no input ends in {} for {key} ({stated})", quoted(suffix)));
            };
            if let Some((_, other)) = taken.iter().find(|(name, _)| *name == input.name) {
                let name = quoted(&input.name);
                return fail(format!("{role}: {name} is taken for {} and for {key} ({stated})", other.key()));
            }
            taken.push((&input.name, wanted));
        }
        if let Some(extra) = part.group.inputs.iter().find(|input| taken.iter().all(|(name, _)| *name != input.name)) {
            return fail(format!("{role}: nothing is fed to input {}; six are", quoted(&extra.name)));
        }
    }
    match model.parts().next() {
        None => not_applicable("there is no prefill group"),
        Some(_) => pass(format!(
            "six inputs a group by {stated}: {}",
            Role::ALL
                .into_iter()
                .zip(&model.parameters.suffixes)
                .map(|(role, suffix)| format!("{} {}", role.key(), quoted(suffix)))
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}
