//! A tokenizer.json with fewer tokens.
//!
//! Byte-pair encoding merges pairs in order, so that leaving out the last tokens and the merges that make or need them is the
//! tokenizer that would have been trained with fewer. Every character must stay: others are merged of them.

use std::collections::BTreeSet;

use serde_json::Value;

pub(super) const FILE: &str = "tokenizer.json";
/// Files that say the same in another format, which loaders may prefer.
pub(super) const SAY_THE_SAME: [&str; 3] = ["vocab.json", "merges.txt", "tokenizer.model"];

/// What becomes of the file.
#[derive(Debug)]
pub(super) enum Cut {
    /// All its ids stay.
    Nothing,
    Shorter {
        file: Vec<u8>,
        dropped: usize,
    },
}

/// Leaves out tokens that are not below `vocabulary`, or says why they cannot be.
pub(super) fn cut(file: &[u8], vocabulary: usize) -> Result<Cut, String> {
    let mut tokenizer: Value = serde_json::from_slice(file).map_err(|error| format!("{FILE}: {error}"))?;
    let beyond = |id: &Value| id.as_u64().is_none_or(|id| id >= vocabulary as u64);
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    if let Some(token) = added.clone().find(|token| beyond(&token["id"])) {
        let (content, id) = (&token["content"], &token["id"]);
        return Err(format!("added token {content} has id {id} in {FILE}, which would be cut off"));
    }
    let model = tokenizer.get_mut("model").ok_or_else(|| format!("{FILE} has no model"))?;
    let kind = model["type"].as_str().unwrap_or("of another kind").to_owned();
    // Files of before types were written have merges.
    let pairs = kind == "BPE" || model["type"].is_null() && model["merges"].is_array();
    let Some(vocab) = model.get_mut("vocab").and_then(Value::as_object_mut).filter(|_| pairs) else {
        return Err(format!(
            "{FILE} is {kind}, not BPE, and only merges can be cut; remove the file to forge without texts"
        ));
    };
    let all = vocab.len();
    let mut lost = BTreeSet::new();
    for (token, _) in vocab.iter().filter(|(_, id)| beyond(id)) {
        if token.chars().nth(1).is_none() {
            return Err(format!(
                "token {token:?} has an id of {vocabulary} or more in {FILE}; other tokens are merged of single characters, and \
                 none may be cut off"
            ));
        }
        lost.insert(token.clone());
    }
    if lost.is_empty() {
        return Ok(Cut::Nothing);
    }
    vocab.retain(|token, _| !lost.contains(token));
    let dropped = all - vocab.len();
    if let Some(merges) = model.get_mut("merges").and_then(Value::as_array_mut) {
        merges.retain(|merge| stays(merge, &lost));
    }
    if let Some(unknown) = model["unk_token"].as_str().filter(|token| lost.contains(*token)) {
        return Err(format!("the token of what is unknown, {unknown:?} in {FILE}, would be cut off"));
    }
    let file = serde_json::to_vec(&tokenizer).map_err(|error| format!("{FILE}: {error}"))?;
    Ok(Cut::Shorter { file, dropped })
}

/// Whether a merge needs and makes tokens that stay: `["a", "b"]`, or `"a b"` in older files.
fn stays(merge: &Value, lost: &BTreeSet<String>) -> bool {
    let pair = match merge {
        Value::Array(pair) => pair.first().and_then(Value::as_str).zip(pair.get(1).and_then(Value::as_str)),
        Value::String(pair) => pair.split_once(' '),
        _ => None,
    };
    let lost = |token: &str| lost.contains(token);
    pair.is_some_and(|(left, right)| !lost(left) && !lost(right) && !lost(&format!("{left}{right}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokenizer() -> Value {
        json!({
            "added_tokens": [{"id": 0, "content": "<s>"}],
            "model": {
                "type": "BPE", "unk_token": null,
                "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "abb": 4, "ba": 5, "abba": 6},
                "merges": [["a", "b"], ["ab", "b"], ["b", "a"], ["ab", "ba"]],
            },
        })
    }

    fn of(tokenizer: &Value, vocabulary: usize) -> Result<Cut, String> {
        cut(&serde_json::to_vec(tokenizer).expect("JSON"), vocabulary)
    }

    #[test]
    fn the_last_tokens_go_with_their_merges() {
        let Ok(Cut::Shorter { file, dropped: 3 }) = of(&tokenizer(), 4) else { panic!("it is shorter") };
        let shorter: Value = serde_json::from_slice(&file).expect("JSON");
        assert_eq!(shorter["model"]["vocab"], json!({"<s>": 0, "a": 1, "b": 2, "ab": 3}));
        assert_eq!(shorter["model"]["merges"], json!([["a", "b"]]));
        let mut older = tokenizer();
        older["model"]["merges"] = json!(["a b", "ab b", "b a", "ab ba"]);
        let Ok(Cut::Shorter { file, dropped: 1 }) = of(&older, 6) else { panic!("it is shorter") };
        let shorter: Value = serde_json::from_slice(&file).expect("JSON");
        assert_eq!(shorter["model"]["merges"], json!(["a b", "ab b", "b a"]));
        assert!(matches!(of(&tokenizer(), 7), Ok(Cut::Nothing)));
    }

    #[test]
    fn what_texts_need_is_not_cut_off() {
        assert!(of(&tokenizer(), 2).expect_err("b is needed").contains("single characters"));
        assert!(of(&tokenizer(), 0).expect_err("<s> is needed").contains("added token"));
        let mut other = tokenizer();
        other["model"]["type"] = json!("WordLevel");
        assert!(of(&other, 4).expect_err("no merges").contains("WordLevel"));
        let mut unknown = tokenizer();
        unknown["model"]["unk_token"] = json!("abba");
        assert!(of(&unknown, 6).expect_err("needed").contains("unknown"));
        for damaged in [json!([]), json!("x"), json!({}), json!({"model": []}), json!({"model": {"type": "BPE"}})] {
            assert!(of(&damaged, 4).is_err(), "{damaged}");
        }
    }
}
