//! Fewer blocks: the first ones (`--depth`), or all but one (`--skip`).

use serde_json::{Value, json};

use super::{
    Draft, ForgeError, Transformation, refused,
    tensors::{Tensors, Values, block_of},
};

/// The first blocks, then final norm and head.
pub(super) struct Depth(pub(super) usize);

impl Transformation for Depth {
    fn apply(&self, draft: Draft) -> Result<Draft, ForgeError> {
        let blocks = draft.architecture.blocks;
        if !(1..=blocks).contains(&self.0) {
            return Err(refused(self, format!("it has {blocks} blocks; give a number from 1 to {blocks}")));
        }
        keep(self, draft, (0..self.0).collect())
    }

    fn name(&self) -> String {
        format!("--depth {}", self.0)
    }
}

/// All blocks but this one, counted from 0.
pub(super) struct Skip(pub(super) usize);

impl Transformation for Skip {
    fn apply(&self, draft: Draft) -> Result<Draft, ForgeError> {
        let blocks = draft.architecture.blocks;
        if self.0 >= blocks {
            return Err(refused(self, format!("it has {blocks} blocks, counted from 0")));
        }
        if blocks == 1 {
            return Err(refused(self, "it is its only block"));
        }
        keep(self, draft, (0..blocks).filter(|block| *block != self.0).collect())
    }

    fn name(&self) -> String {
        format!("--skip {}", self.0)
    }
}

fn keep(step: &dyn Transformation, mut draft: Draft, kept: Vec<usize>) -> Result<Draft, ForgeError> {
    let moved = kept.iter().enumerate().any(|(place, block)| place != *block);
    if moved && draft.config.get("scale_attn_by_inverse_layer_idx") == Some(&Value::Bool(true)) {
        return Err(refused(
            step,
            "its scores are divided by the number of the block (scale_attn_by_inverse_layer_idx), and blocks behind would get \
             another number",
        ));
    }
    let a = &mut draft.architecture;
    a.blocks = kept.len();
    a.layers = kept.iter().map(|block| a.layers[*block]).collect();
    for key in ["num_hidden_layers", "n_layer"] {
        if let Some(number) = draft.config.get_mut(key) {
            *number = json!(kept.len());
        }
    }
    by_block(&mut draft, &kept);
    draft.relation.blocks = kept.iter().map(|block| draft.relation.blocks[*block]).collect();
    draft.tensors = Box::new(Kept { inner: draft.tensors, kept });
    Ok(draft)
}

/// What config.json says block by block; where it says it by a rule that counts blocks, the rule is written out.
fn by_block(draft: &mut Draft, kept: &[usize]) {
    for key in ["layer_types", "no_rope_layers"] {
        if let Some(Value::Array(list)) = draft.config.get_mut(key) {
            *list = kept.iter().filter_map(|block| list.get(*block).cloned()).collect();
        }
    }
    let layers = &draft.architecture.layers;
    let (windows, rope) = (layers.iter().any(|layer| layer.window.is_some()), draft.architecture.rope.is_some());
    let counted = |key: &str| draft.config.get(key).is_none_or(Value::is_null);
    let types: Vec<_> = layers
        .iter()
        .map(|layer| if layer.window.is_some() { "sliding_attention" } else { "full_attention" })
        .collect();
    let turned: Vec<_> = layers.iter().map(|layer| u8::from(layer.rope)).collect();
    let write_types = windows && counted("layer_types") && draft.architecture.model_type != "mistral";
    let write_rope = rope && counted("no_rope_layers") && draft.architecture.model_type == "smollm3";
    if write_types {
        draft.set("layer_types", json!(types));
    }
    if write_rope {
        draft.set("no_rope_layers", json!(turned));
    }
}

struct Kept {
    inner: Box<dyn Tensors>,
    /// The old number of each block.
    kept: Vec<usize>,
}

impl Tensors for Kept {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let renamed = |(name, shape): (String, Vec<usize>)| match block_of(&name) {
            None => Some((name, shape)),
            Some((prefix, block, rest)) => {
                let place = self.kept.iter().position(|kept| *kept == block)?;
                Some((format!("{prefix}{place}.{rest}"), shape))
            }
        };
        self.inner.shapes().into_iter().filter_map(renamed).collect()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let Some((prefix, place, rest)) = block_of(name) else { return self.inner.read(name) };
        let block = self.kept.get(place).ok_or_else(|| ForgeError::NoTensor(name.to_owned()))?;
        self.inner.read(&format!("{prefix}{block}.{rest}"))
    }
}
