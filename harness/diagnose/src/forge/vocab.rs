//! Another number of rows of embedding and head.
//!
//! Fewer: the first ones, whose logits stay as they are. More: row j is the row j mod V of before, and so is its logit. A copy is
//! never the greedy choice, which is the lowest id of equal ones, and leaves correlations over a multiple of V rows as they are;
//! rows of zeros would be chosen wherever all logits are negative, and would be points that every arm agrees on.

use serde_json::{Map, Value};

use super::{
    Draft, ForgeError, Transformation, refused,
    tensors::{Part, Tensors, Values},
    tokens::{self, Cut},
};

/// Rows at most, so that a row of logits is one that can be held.
const MOST: usize = 1 << 24;

pub(super) struct Vocab(pub(super) usize);

impl Transformation for Vocab {
    fn apply(&self, mut draft: Draft) -> Result<Draft, ForgeError> {
        let (from, to) = (draft.architecture.vocabulary, self.0);
        if !(1..=MOST).contains(&to) {
            return Err(refused(self, format!("it has {from} rows; give a number from 1 to {MOST}")));
        }
        if to < from {
            self.keep_tokens(&mut draft)?;
        }
        if to > from {
            draft.notes.push(format!(
                "rows {from} and on are copies of rows 0 and on: the greedy choice is never one of them, being the lowest id of \
                 equal ones"
            ));
        }
        draft.architecture.vocabulary = to;
        draft.set("vocab_size", to);
        draft.relation.vocabulary.push(to);
        draft.tensors = Box::new(Rows { inner: draft.tensors, from, to });
        Ok(draft)
    }

    fn name(&self) -> String {
        format!("--vocab {}", self.0)
    }
}

impl Vocab {
    /// Refuses to cut off what texts and generation need, and cuts the tokenizer.
    fn keep_tokens(&self, draft: &mut Draft) -> Result<(), ForgeError> {
        let mut settings = vec![("config.json", draft.config.clone())];
        let generation = draft.files.iter().find(|(name, _)| name == "generation_config.json");
        if let Some(Value::Object(object)) = generation.and_then(|(_, bytes)| serde_json::from_slice(bytes).ok()) {
            settings.push(("generation_config.json", object));
        }
        for (file, keys) in &settings {
            if let Some((key, id)) = special_id(keys, self.0) {
                return Err(refused(self, format!("{key} in {file} is {id}, which would be cut off")));
            }
        }
        let Some(at) = draft.files.iter().position(|(name, _)| name == tokens::FILE) else { return Ok(()) };
        match tokens::cut(&draft.files[at].1, self.0).map_err(|reason| refused(self, reason))? {
            Cut::Nothing => {}
            Cut::Shorter { file, dropped } => {
                draft.files[at].1 = file;
                draft.files.retain(|(name, _)| !tokens::SAY_THE_SAME.contains(&name.as_str()));
                draft.notes.push(format!(
                    "{dropped} tokens and what merges into them were cut from tokenizer.json: texts become other, more tokens"
                ));
            }
        }
        Ok(())
    }
}

/// A special id that is not below `vocabulary`, and its key.
fn special_id(keys: &Map<String, Value>, vocabulary: usize) -> Option<(&str, u64)> {
    let of = |value: &Value| match value {
        Value::Array(list) => list.iter().filter_map(Value::as_u64).max(),
        one => one.as_u64(),
    };
    let special = keys.iter().filter(|(key, _)| key.ends_with("_token_id"));
    special.filter_map(|(key, value)| Some((key.as_str(), of(value)?))).find(|(_, id)| *id >= vocabulary as u64)
}

struct Rows {
    inner: Box<dyn Tensors>,
    from: usize,
    to: usize,
}

const fn has_them(part: Part) -> bool {
    matches!(part, Part::Embedding | Part::Head)
}

impl Tensors for Rows {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = self.inner.shapes();
        let rows = shapes.iter_mut().filter(|(name, _)| has_them(Part::of(name)));
        rows.for_each(|(_, shape)| shape[0] = self.to);
        shapes
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let values = self.inner.read(name)?;
        let from = self.from;
        Ok(if has_them(Part::of(name)) { values.gathered(self.to, |row| Some(row % from)) } else { values })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_that_would_fall_out_are_found_in_lists_too() {
        let keys = |value: Value| value.as_object().cloned().unwrap_or_default();
        let config = keys(json!({"eos_token_id": [2, 90], "bos_token_id": 1, "pad_token_id": null, "vocab_size": 100}));
        assert_eq!(special_id(&config, 90), Some(("eos_token_id", 90)));
        assert_eq!(special_id(&config, 91), None);
    }
}
