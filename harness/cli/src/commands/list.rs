//! `fidelity list`: what is known.

use fidelity_trace::{CheckpointRow, Known, Source};
use serde_json::{Value, json};

use crate::{args::ListArgs, commands::faults, error::CliError, output::print, resources};

pub(crate) fn list(args: &ListArgs) -> Result<u8, CliError> {
    let registry = || resources::registry();
    let text = match (args.what.as_deref(), args.json) {
        (Some("faults"), false) => faults::text(),
        (Some("faults"), true) => line(&faults::json()),
        (Some(name), false) => in_full(registry()?.row(name)?),
        (Some(name), true) => line(&row_json(registry()?.row(name)?)),
        (None, false) => all(&registry()?.rows),
        (None, true) => line(&all_json(&registry()?.rows)),
    };
    print(&text);
    Ok(0)
}

fn line(json: &Value) -> String {
    format!("{json}\n")
}

fn all_json(rows: &[CheckpointRow]) -> Value {
    json!({
        "checkpoints": rows.iter().map(row_json).collect::<Vec<_>>(),
        "recipes": resources::recipe_names().collect::<Vec<_>>(),
        "prompts": resources::prompt_names().collect::<Vec<_>>(),
    })
}

fn row_json(row: &CheckpointRow) -> Value {
    let known = |known: &Known| {
        json!({"measured": known.measured, "recipe": known.recipe, "pearson": known.pearson, "cosine": known.cosine,
               "top1": known.top1, "text": known.text, "source": known.source})
    };
    json!({
        "name": row.name, "source": row.source.to_string(), "revision": row.revision, "hef": row.hef,
        "recipe": row.recipe, "prompts": row.prompts, "calibration": row.calibration, "expect": row.expect,
        "thresholds": row.thresholds.as_ref().map(|own| &own.reason), "known": row.known.iter().map(known).collect::<Vec<_>>(),
    })
}

fn all(rows: &[CheckpointRow]) -> String {
    let mut text = format!("{:<22} {:<45} {}\n", "checkpoint", "source", "on silicon");
    for row in rows {
        let measured = match row.known.len() {
            0 => "–".to_owned(),
            1 => "1 result".to_owned(),
            several => format!("{several} results"),
        };
        text.push_str(&format!("{:<22} {:<45} {measured}\n", row.name, source(row)));
    }
    let names = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(", ");
    text.push_str(&format!("\nrecipes: {}\n", names(&mut resources::recipe_names())));
    text.push_str(&format!("prompts: {}\n", names(&mut resources::prompt_names())));
    text.push_str("faults:  `fidelity list faults` shows what can be injected and is looked for.\n");
    text.push_str("`fidelity list CHECKPOINT` shows what was measured, and where that is published.\n");
    text
}

fn source(row: &CheckpointRow) -> String {
    match &row.source {
        Source::Embedded(name) => format!("embedded: {name}"),
        Source::Hub(repository) => repository.clone(),
        Source::Folder(name) => format!("folder: {name}"),
    }
}

fn in_full(row: &CheckpointRow) -> String {
    let mut text = format!("{}\nsource    {} at {}\n", row.name, source(row), row.revision);
    let settings =
        [("hef", &row.hef), ("recipe", &row.recipe), ("prompts", &row.prompts), ("calibrate", &row.calibration)];
    for (name, value) in settings {
        if let Some(value) = value {
            text.push_str(&format!("{name:<9} {value}\n"));
        }
    }
    if let Some(thresholds) = &row.thresholds {
        text.push_str(&format!("thresholds of its own: {}\n", thresholds.reason));
    }
    if !row.expect.is_empty() {
        text.push_str(&format!("expected  {}\n", row.expect.join(", ")));
    }
    if row.known.is_empty() {
        text.push_str("\nNothing is published about it on silicon.\n");
    }
    row.known.iter().for_each(|known| text.push_str(&measurement(known)));
    text
}

fn measurement(known: &Known) -> String {
    let numbers = [
        known.pearson.map(|value| format!("Pearson {value}")),
        known.cosine.map(|value| format!("cosine {value}")),
        known.top1.as_ref().map(|value| format!("top-1 {value}")),
        known.text.as_ref().map(|value| format!("text: {value}")),
    ];
    let numbers = numbers.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let recipe = known.recipe.as_ref().map_or_else(String::new, |recipe| format!("  recipe: {recipe}\n"));
    format!("\n{}\n  {numbers}\n{recipe}  source: {}\n", known.measured, known.source)
}
