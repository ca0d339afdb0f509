//! Grouped queries written out: every query head gets a key and value head of its own, a copy of the one it shares.

use super::{
    Draft, ForgeError, Transformation, refused,
    tensors::{Part, Tensors, Values},
};

pub(super) struct HeadsMha;

impl Transformation for HeadsMha {
    fn apply(&self, mut draft: Draft) -> Result<Draft, ForgeError> {
        let a = &mut draft.architecture;
        let (group, head_dim) = (a.query_heads / a.kv_heads.max(1), a.head_dim);
        if group == 1 {
            return Err(refused(self, format!("every one of its {} query heads has its own already", a.query_heads)));
        }
        a.kv_heads = a.query_heads;
        let heads = a.query_heads;
        draft.set("num_key_value_heads", heads);
        draft.tensors = Box::new(Repeated { inner: draft.tensors, group, head_dim });
        Ok(draft)
    }

    fn name(&self) -> String {
        "--heads mha".into()
    }
}

struct Repeated {
    inner: Box<dyn Tensors>,
    /// Query heads a kv head served.
    group: usize,
    head_dim: usize,
}

const fn repeats(part: Part) -> bool {
    matches!(part, Part::K | Part::V)
}

impl Tensors for Repeated {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = self.inner.shapes();
        let repeated = shapes.iter_mut().filter(|(name, _)| repeats(Part::of(name)));
        repeated.for_each(|(_, shape)| shape[0] *= self.group);
        shapes
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let values = self.inner.read(name)?;
        if !repeats(Part::of(name)) {
            return Ok(values);
        }
        let (group, width) = (self.group, self.head_dim);
        let rows = values.shape[0] * group;
        Ok(values.gathered(rows, |row| Some(row / width / group * width + row % width)))
    }
}
