//! Text of prompts, models and devices, made fit to be shown: it may hold anything.

use unicode_width::UnicodeWidthChar;

/// The text with everything invisible written out, so that it can neither steer a terminal nor reorder a line.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, character| {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            other if other.is_control() || steers_layout(other) => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
        shown
    })
}

/// Zero-width, separator, bidirectional and tag characters, and what is no character at all, which XML cannot write.
fn steers_layout(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Columns the text takes in a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// At least 1, so that no line holds more characters than columns.
fn width_of(character: char) -> usize {
    character.width().unwrap_or(1).max(1)
}

/// The text, cut to `width` columns with `…` at its end if it is longer.
pub(crate) fn truncated(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut shown = head(text, width.saturating_sub(1)).to_owned();
    shown.push('…');
    shown
}

/// The end of the text, with `…` in place of what comes before its last `width` columns.
pub(crate) fn end_of(text: &str, width: usize) -> String {
    let mut used = 1;
    let cut = text.char_indices().rev().find(|(_, character)| {
        used += width_of(*character);
        used > width
    });
    match cut.filter(|_| columns(text) > width) {
        Some((index, character)) => format!("…{}", &text[index + character.len_utf8()..]),
        None => text.to_owned(),
    }
}

/// The longest beginning of the text that takes at most `width` columns.
fn head(text: &str, width: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, character)| {
        used += width_of(*character);
        used > width
    });
    end.map_or(text, |(index, _)| &text[..index])
}

/// The text in lines of at most `width` columns, broken between words where possible.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace().flat_map(|word| pieces(word, width)) {
        let line = lines.last_mut().expect("begins with one line and never shrinks");
        if line.is_empty() {
            line.push_str(word);
        } else if columns(line) + 1 + columns(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A word in pieces of at most `width` columns.
fn pieces(mut word: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !word.is_empty() {
        let (piece, rest) = word.split_at(head(word, width).len());
        pieces.push(piece);
        word = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(printable("a\nb\t\u{1b}[31m\u{202e}c"), "a\\nb\\t\\u{1b}[31m\\u{202e}c");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(columns("漢字a"), 5);
        assert_eq!(truncated("漢字漢字", 5), "漢字…");
        assert_eq!(truncated("short", 5), "short");
        assert_eq!(end_of("a漢字b", 4), "…字b");
        assert_eq!(end_of("short", 5), "short");
    }

    #[test]
    fn lines_break_between_words_and_inside_long_ones() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
