//! Prompts, and the files they come in.

use std::collections::BTreeSet;

use serde::Deserialize;

/// What to feed: text still to be tokenised, or ids as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Unique within a run.
    pub id: String,
    /// The text, if it is text.
    pub text: Option<String>,
    /// The ids, if they were given as ids; fed verbatim, no BOS added.
    pub token_ids: Option<Vec<u32>>,
}

/// A prompts file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// No prompt in it.
    #[error("{origin}: no prompts in it; write one prompt a line")]
    Empty {
        /// Where the prompts came from.
        origin: String,
    },
    /// A prompt without content.
    #[error("{origin}:{line}: empty prompt; a prompt needs at least one token")]
    EmptyPrompt {
        /// Where the prompts came from.
        origin: String,
        /// 1-based line.
        line: usize,
    },
    /// A JSON line that is none.
    #[error("{origin}:{line}: {reason}; a JSON line is {{\"id\":…,\"text\":…}} or {{\"id\":…,\"token_ids\":[…]}}")]
    Json {
        /// Where the prompts came from.
        origin: String,
        /// 1-based line.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// Two prompts with one id.
    #[error("{origin}:{line}: the id `{id}` was used before; ids must differ")]
    Duplicate {
        /// Where the prompts came from.
        origin: String,
        /// 1-based line.
        line: usize,
        /// The id.
        id: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonLine {
    id: Option<String>,
    text: Option<String>,
    token_ids: Option<Vec<u32>>,
}

/// Prompts from texts given one by one.
///
/// # Errors
/// An empty text.
pub fn prompts_from_texts<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    origin: &str,
) -> Result<Vec<Prompt>, PromptError> {
    let prompts = texts.into_iter().enumerate().map(|(index, text)| {
        if text.is_empty() {
            return Err(PromptError::EmptyPrompt { origin: origin.to_owned(), line: index + 1 });
        }
        Ok(Prompt { id: numbered(index), text: Some(text.to_owned()), token_ids: None })
    });
    prompts.collect()
}

/// Reads a prompts file: JSON lines when its first line starts with `{`, else one text a line. Blank lines are skipped.
///
/// # Errors
/// No prompt, an empty prompt, a line that is no JSON, or a repeated id.
pub fn parse_prompts(text: &str, origin: &str) -> Result<Vec<Prompt>, PromptError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let json = text.trim_start().starts_with('{');
    let mut seen = BTreeSet::new();
    let mut prompts = Vec::new();
    for (index, line) in lines {
        let prompt = if json {
            from_json(line, prompts.len(), origin, index + 1)?
        } else {
            Prompt { id: numbered(prompts.len()), text: Some(line.to_owned()), token_ids: None }
        };
        if !seen.insert(prompt.id.clone()) {
            return Err(PromptError::Duplicate { origin: origin.to_owned(), line: index + 1, id: prompt.id });
        }
        prompts.push(prompt);
    }
    if prompts.is_empty() {
        return Err(PromptError::Empty { origin: origin.to_owned() });
    }
    Ok(prompts)
}

fn numbered(index: usize) -> String {
    format!("p{index:04}")
}

fn from_json(line: &str, index: usize, origin: &str, line_number: usize) -> Result<Prompt, PromptError> {
    let fail = |reason: String| PromptError::Json { origin: origin.to_owned(), line: line_number, reason };
    let parsed: JsonLine = serde_json::from_str(line).map_err(|error| fail(error.to_string()))?;
    let empty = match (&parsed.text, &parsed.token_ids) {
        (Some(text), None) => text.is_empty(),
        (None, Some(ids)) => ids.is_empty(),
        _ => return Err(fail("exactly one of `text` and `token_ids` is needed".into())),
    };
    if empty {
        return Err(PromptError::EmptyPrompt { origin: origin.to_owned(), line: line_number });
    }
    let id = parsed.id.unwrap_or_else(|| numbered(index));
    Ok(Prompt { id, text: parsed.text, token_ids: parsed.token_ids })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_lines_and_json_lines() {
        let text = parse_prompts("one\n\ntwo two\n", "f").expect("valid");
        assert_eq!(text[1], Prompt { id: "p0001".into(), text: Some("two two".into()), token_ids: None });
        let json = parse_prompts("{\"id\":\"a\",\"token_ids\":[1,2]}\n{\"text\":\"x\"}\n", "f").expect("valid");
        assert_eq!(json[0].token_ids.as_deref(), Some(&[1, 2][..]));
        assert_eq!(json[1].id, "p0001");
    }

    #[test]
    fn text_is_taken_as_it_is() {
        let text = |line: &str| parse_prompts(line, "f").expect("valid")[0].text.clone().expect("text");
        assert_eq!(text(r#"{"text":"  "}"#), "  ");
        assert_eq!(text(r#"{"text":"a\u0000b\ufffd\ud83d\ude00"}"#), "a\0b\u{fffd}\u{1f600}");
        assert_eq!(text(" \u{0}<s> \u{202e}x "), " \u{0}<s> \u{202e}x ");
    }

    #[test]
    fn bad_prompts_name_the_line() {
        let error = |text: &str| parse_prompts(text, "f.txt").expect_err("invalid").to_string();
        assert!(error("").contains("no prompts"));
        assert!(error("{\"text\":\"x\"}\n{\"text\":\"\"}").starts_with("f.txt:2: empty prompt"));
        assert!(error("{\"text\":\"x\",\"token_ids\":[1]}").contains("exactly one of"));
        assert!(error("{\"txt\":\"x\"}").contains("unknown field `txt`"));
        assert!(error(r#"{"text":"a\ud800b"}"#).starts_with("f.txt:1: "), "half a surrogate pair is no text");
        assert!(error(r#"{"token_ids":[-1]}"#).contains("invalid value: integer `-1`"));
        assert!(error(r#"{"token_ids":[]}"#).contains("empty prompt"));
        assert!(error("{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}").contains("`a` was used before"));
    }
}
