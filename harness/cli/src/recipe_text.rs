//! A recipe's error, drawn at its place in the script.

use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind, Source};
use fidelity_emulator::RecipeError;

/// Lines of a script longer than this are not drawn.
const LONGEST_LINE: usize = 400;

/// The error in one line, then the place in the script.
pub(crate) fn drawn(error: &RecipeError, colour: bool) -> String {
    let plain = format!("error: {error}");
    let line = error.text.lines().nth(error.line - 1).unwrap_or_default();
    if line.len() > LONGEST_LINE || line.is_empty() {
        return plain;
    }
    let file = error.file.as_str();
    let config = Config::default().with_color(colour).with_index_type(IndexType::Byte).with_char_set(CharSet::Unicode);
    let report = Report::build(ReportKind::Error, (file, error.span.clone()))
        .with_config(config)
        .with_message(format!("{}:{}:{}", error.file, error.line, error.column))
        .with_label(Label::new((file, error.span.clone())).with_message("here"))
        .finish();
    let mut drawing = Vec::new();
    match report.write((file, Source::from(harmless(&error.text))), &mut drawing) {
        Ok(()) => {
            let drawing = String::from_utf8_lossy(&drawing);
            let picture: Vec<&str> = drawing.lines().skip(1).collect();
            format!("{plain}\n{}", picture.join("\n"))
        }
        Err(_) => plain,
    }
}

/// The script without control characters, each byte in its place.
fn harmless(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\t' => character.to_string(),
        _ if character.is_control() => "?".repeat(character.len_utf8()),
        _ => character.to_string(),
    };
    text.chars().map(shown).collect()
}
