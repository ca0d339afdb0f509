//! The bytes of mask and RoPE inputs. Rows are the last tokens of the conversation, right-aligned.
//!
//! The layout is that of `HailoRT`'s own host for language models (`hailort_server/genai/llm/pre_process.cpp`, 5.2).

/// Code of a column that a row may not attend to: the raw code, not the quantised 0.
const BLOCK: u8 = 0;

/// What fresh rows may attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Everything up to themselves.
    Causal,
    /// Themselves alone.
    SelfOnly {
        /// How many of the last rows; those before are re-fed and see what they always saw.
        rows: usize,
    },
}

/// An attention mask to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    /// Rows of the input.
    pub(crate) rows: usize,
    /// Query heads: how often a block is repeated along a row.
    pub(crate) heads: usize,
    /// Columns of a block: entries of the cache's ring, fresh ones included.
    pub(crate) length: usize,
    /// Tokens so far, this step's included.
    pub(crate) usage: usize,
    /// Code of a column that a row may attend to.
    pub(crate) allow: u8,
    /// What fresh rows may attend to.
    pub(crate) visibility: Visibility,
}

impl Mask {
    /// Writes `[row, head × column]`; the newest token is the last row and the last column of each block.
    pub(crate) fn write(&self, bytes: &mut [u8]) {
        let used = self.usage.min(self.length);
        let padding = self.rows.saturating_sub(used);
        for (row, line) in bytes.chunks_exact_mut(self.heads * self.length).enumerate() {
            let (block, copies) = line.split_at_mut(self.length);
            self.write_block(row, padding, used, block);
            copies.chunks_exact_mut(self.length).for_each(|copy| copy.copy_from_slice(block));
        }
    }

    fn write_block(&self, row: usize, padding: usize, used: usize, block: &mut [u8]) {
        let Some(fresh) = row.checked_sub(padding) else { return block.fill(self.allow) };
        let own = self.length - (self.rows - padding) + fresh;
        let self_only = matches!(self.visibility, Visibility::SelfOnly { rows } if row + rows >= self.rows);
        let first = if self_only { own } else { self.length - used };
        block.fill(BLOCK);
        block[first..=own].fill(self.allow);
    }
}

/// Writes float32 `[row, head × dimension]`: `function` of each position's angles, repeated `heads` times. Angles are
/// position × theta in float32.
pub(crate) fn write_rope(bytes: &mut [u8], positions: &[u32], theta: &[f32], heads: usize, function: fn(f32) -> f32) {
    let head_bytes = size_of_val(theta);
    for (line, position) in bytes.chunks_exact_mut(heads * head_bytes).zip(positions) {
        let (first, copies) = line.split_at_mut(head_bytes);
        for (value, theta) in first.as_chunks_mut::<4>().0.iter_mut().zip(theta) {
            *value = function(*position as f32 * theta).to_le_bytes();
        }
        copies.chunks_exact_mut(head_bytes).for_each(|copy| copy.copy_from_slice(first));
    }
}
