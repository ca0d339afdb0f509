//! Of a block's query heads the first ones alone: what the others would add is left out (`--first-heads`).

use super::{
    Draft, ForgeError, Transformation, refused,
    tensors::{Part, Tensors, Values, block_of},
};

pub(super) struct FirstHeads {
    /// Counted from 0 in the network as it is then.
    pub(super) block: usize,
    pub(super) heads: usize,
}

impl Transformation for FirstHeads {
    fn apply(&self, mut draft: Draft) -> Result<Draft, ForgeError> {
        let a = &draft.architecture;
        if self.block >= a.blocks {
            return Err(refused(self, format!("it has {} blocks, counted from 0", a.blocks)));
        }
        if self.heads > a.query_heads {
            return Err(refused(self, format!("it has {} query heads", a.query_heads)));
        }
        if draft.relation.first_heads.is_some() {
            return Err(refused(self, "heads are silenced already, and that is proved once"));
        }
        let silenced = Silenced { inner: draft.tensors, block: self.block, width: self.heads * a.head_dim };
        if !silenced.shapes().iter().any(|(name, shape)| silenced.is_of(name) && shape.len() == 2) {
            return Err(refused(self, format!("it has no o_proj, whose columns are heads ({})", a.model_type)));
        }
        let of_source = draft.relation.blocks[self.block] as u32;
        draft.relation.first_heads = Some((of_source, silenced.width));
        draft.tensors = Box::new(silenced);
        Ok(draft)
    }

    fn name(&self) -> String {
        format!("--first-heads {}={}", self.block, self.heads)
    }
}

struct Silenced {
    inner: Box<dyn Tensors>,
    block: usize,
    /// Columns that stay.
    width: usize,
}

impl Silenced {
    fn is_of(&self, name: &str) -> bool {
        Part::of(name) == Part::O && block_of(name).is_some_and(|(_, block, _)| block == self.block)
    }
}

impl Tensors for Silenced {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.inner.shapes()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let values = self.inner.read(name)?;
        // A bias is no head's.
        if !self.is_of(name) || values.shape.len() != 2 {
            return Ok(values);
        }
        let width = self.width;
        Ok(values.each_row(|row| row[width..].fill(0.0)))
    }
}
