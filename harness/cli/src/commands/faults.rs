//! `fidelity list faults`: what can be injected, and what a diagnosis looks for.

use fidelity_diagnose::entry;
use fidelity_reports::labelled;
use fidelity_trace::{Fault, Places, Values};
use serde_json::{Value, json};

use crate::output::style;

pub(crate) fn text() -> String {
    let head = line("fault", "family", "in", "value");
    let faults = Fault::ALL.into_iter().map(|fault| {
        let facts = line(fault.name(), &fault.family().to_string(), place(fault.places()), &values(fault.values()));
        facts + &labelled("    ", entry(fault).sentence, style())
    });
    let end = "`run --fault NAME[@BLOCK][=VALUE]` injects them into an emulator, `diagnose` looks for them in a trace \
               (docs/DIAGNOSE.md). In blocks: in all, or in the one that is given.";
    format!("{head}{}\n{}", faults.collect::<String>(), labelled("", end, style()))
}

fn line(name: &str, family: &str, place: &str, values: &str) -> String {
    labelled(&format!("{name:<25} {family:<6}  {place:<9}  "), values, style())
}

const fn place(places: Places) -> &'static str {
    match places {
        Places::Whole => "network",
        Places::Blocks => "blocks",
        Places::OneBlock => "one block",
    }
}

fn values(values: Values) -> String {
    match values {
        Values::None => "–".to_owned(),
        Values::Number { meaning, least, most, whole } => {
            let but = if whole && least < 0.0 { ", not 0" } else { "" };
            let kind = if whole { "whole, " } else { "" };
            format!("{meaning}, {kind}{} to {}{but}", bound(least), bound(most))
        }
        Values::Words(words) => words.join(", "),
        Values::Mixed { words, named, meaning, whole } => {
            let named = named.iter().map(|word| format!("{word}:N"));
            let number =
                (!meaning.is_empty()).then(|| format!("or {meaning}{}", if whole { ", whole, not 0" } else { "" }));
            words.iter().map(ToString::to_string).chain(named).chain(number).collect::<Vec<_>>().join(", ")
        }
        Values::Clip => "SITE:LIMIT, such as v:1.5".to_owned(),
        Values::Shards => "SHARD/SHARDS, A-B/SHARDS, or all in another order: 1/4, 0-1/4, 2-0-1/3".to_owned(),
        Values::Padding => "PADDING/SHARDS, such as 8/2".to_owned(),
    }
}

fn bound(value: f64) -> String {
    if value >= 1e6 { format!("{value:e}") } else { value.to_string() }
}

pub(crate) fn json() -> Value {
    let faults = Fault::ALL.map(|fault| {
        json!({
            "name": fault.name(),
            "family": fault.family(),
            "in": place(fault.places()),
            "values": values_json(fault.values()),
            "sentence": entry(fault).sentence,
        })
    });
    json!({ "faults": faults.to_vec() })
}

fn values_json(values: Values) -> Value {
    match values {
        Values::None => Value::Null,
        Values::Number { meaning, least, most, whole } => {
            json!({"kind": "number", "meaning": meaning, "least": least, "most": most, "whole": whole})
        }
        Values::Words(words) => json!({"kind": "words", "words": words}),
        Values::Mixed { words, named, meaning, whole } => {
            let meaning = (!meaning.is_empty()).then_some(meaning);
            json!({"kind": "mixed", "words": words, "named": named, "meaning": meaning, "whole": whole})
        }
        Values::Clip => json!({"kind": "clip"}),
        Values::Shards => json!({"kind": "shards"}),
        Values::Padding => json!({"kind": "padding"}),
    }
}
