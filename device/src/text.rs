//! Text of others, made fit for a message.

/// Longest text shown.
const SHOWN_CHARACTERS: usize = 400;

/// `text` with control characters escaped, cut to what fits in a message.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::new();
    for (at, character) in text.trim_end().chars().enumerate() {
        if at == SHOWN_CHARACTERS {
            shown.push('…');
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}
