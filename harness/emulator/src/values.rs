//! Plain slices of tensors.

use candle_core::{Device, Result, Storage, Tensor, bail};

/// Values that one task works on.
pub(crate) const TASK: usize = 1 << 14;

/// Calls `work` with the values of a float32 tensor, row-major, without a copy where they lie so.
///
/// # Errors
/// Another dtype, or an error of `work`.
pub fn with_values<T>(tensor: &Tensor, work: impl FnOnce(&[f32]) -> Result<T>) -> Result<T> {
    let contiguous = tensor.contiguous()?;
    let (storage, layout) = contiguous.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(cpu), Some((start, end))) => work(&cpu.as_slice::<f32>()?[start..end]),
        _ => bail!("values are read on the CPU, contiguous"),
    }
}

/// A tensor of `like`'s shape.
pub(crate) fn shaped(values: Vec<f32>, like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(values, like.shape(), &Device::Cpu)
}
