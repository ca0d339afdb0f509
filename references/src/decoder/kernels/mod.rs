//! The float32 path: plain slices, rows spread over the cores, sums in the same order whatever the number of cores.
//!
//! The plain operations beside it compute the same in float64; the noise floor of every reference is the distance of the two. What
//! both share (turned weights, gathered embeddings, visibility, RoPE's frequencies) shows only against goldens.

mod attention;
mod elements;
mod exponential;
mod matmul;
mod packed;
mod prefetch;
mod tile;

use std::ops::{Deref, Range};

use candle_core::{Device, Result, Shape, Storage, StorageRef, Tensor, bail};
use rayon::prelude::*;

pub(super) use attention::{Queries, patterns, scores, weighted};
pub(super) use elements::{add, gated_silu, layer_norm, rms_norm, rotate, silu};
pub(super) use packed::{Packed, products};

/// Values below which spreading work over the cores costs more than it saves.
const WORTH_SPREADING: usize = 1 << 15;

/// The values of a contiguous float32 tensor.
pub(crate) struct Values<'a> {
    storage: StorageRef<'a>,
    range: Range<usize>,
}

impl<'a> Values<'a> {
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("a kernel needs contiguous values") };
        match &*storage {
            Storage::Cpu(cpu) => drop(cpu.as_slice::<f32>()?),
            _ => bail!("kernels run on the CPU"),
        }
        Ok(Self { storage, range: start..end })
    }
}

impl Deref for Values<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(cpu) => &cpu.as_slice::<f32>().expect("checked in `of`")[self.range.clone()],
            _ => unreachable!("checked in `of`"),
        }
    }
}

fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> Result<Tensor> {
    Tensor::from_vec(values, shape.into(), &Device::Cpu)
}

/// Fills rows of `width` values, each from its own index, over the cores where that pays.
fn fill_rows(width: usize, values: &mut [f32], fill: impl Fn(usize, &mut [f32]) + Sync) {
    if width == 0 {
        return;
    }
    if values.len() < WORTH_SPREADING {
        values.chunks_exact_mut(width).enumerate().for_each(|(index, row)| fill(index, row));
    } else {
        let rows_a_task = (WORTH_SPREADING / 4 / width).max(1);
        values.par_chunks_mut(width * rows_a_task).enumerate().for_each(|(task, rows)| {
            for (index, row) in rows.chunks_exact_mut(width).enumerate() {
                fill(task * rows_a_task + index, row);
            }
        });
    }
}
