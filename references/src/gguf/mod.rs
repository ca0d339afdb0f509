//! GGUF files as checkpoints: the header is checked here, values are dequantised by Candle, names and row order become
//! those of a Hugging Face checkpoint.

mod architecture;
mod cursor;
mod header;
mod metadata;
mod names;
mod tensor_kind;
#[cfg(test)]
mod tests;
mod value;

use std::{collections::BTreeMap, fs::File, path::Path};

use candle_core::{Device, Result as CandleResult, Shape, Tensor, quantized::gguf_file::TensorInfo};
use serde_json::{Map, Value as Json};

use crate::{CheckpointError, weights::Source};
use architecture::{Family, config, family};
use cursor::Cursor;
use header::Header;

/// An open GGUF file with a checked header.
pub(crate) struct Gguf {
    file: String,
    source: File,
    header: Header,
    family: Family,
    /// Hugging Face name → name in the file. Tensors without the former are under the latter.
    names: BTreeMap<String, String>,
}

impl Gguf {
    pub(crate) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let io =
            |source| CheckpointError::Io { path: path.to_owned(), source, remedy: "check that it is a readable file" };
        let file = path.display().to_string();
        let source = File::open(path).map_err(io)?;
        let size = source.metadata().map_err(io)?.len();
        let header = Header::read(&mut Cursor::new(&source, size, &file))?;
        let family = family(&header, &file)?;
        let named = |name: &String| (names::to_checkpoint(name).unwrap_or_else(|| name.clone()), name.clone());
        let names = header.tensors.keys().map(named).collect();
        Ok(Self { file, source, header, family, names })
    }

    /// The metadata as a Hugging Face config.json.
    pub(crate) fn config(&self) -> Result<Map<String, Json>, CheckpointError> {
        config(&self.header, self.family, &self.file)
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.keys()
    }

    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.names.get(name).map(|stored| self.header.tensors[stored].shape.as_slice())
    }

    /// The name a tensor of a Hugging Face checkpoint has in the file.
    pub(crate) fn name_in_file(name: &str) -> String {
        names::to_gguf(name).unwrap_or_else(|| name.to_owned())
    }

    /// Dequantises a tensor that is in the file, its rows in the order of a Hugging Face checkpoint.
    pub(crate) fn read(&mut self, name: &str) -> Result<Tensor, CheckpointError> {
        let stored = &self.names[name];
        self.dequantised(stored, self.family.paired_heads(stored))
            .map_err(CheckpointError::computing(format!("tensor {stored} of {}", self.file)))
    }

    /// Dequantises `count` rows of a matrix that is in the file and has them; not one whose rows are reordered.
    pub(crate) fn read_rows(&mut self, name: &str, first: usize, count: usize) -> Result<Tensor, CheckpointError> {
        let stored = &self.names[name];
        let info = &self.header.tensors[stored];
        let columns: usize = info.shape[1..].iter().product();
        let row_bytes = columns / info.kind.block_size() * info.kind.type_size();
        let place = TensorInfo {
            ggml_dtype: info.kind,
            shape: Shape::from((count, columns)),
            offset: info.offset + (first * row_bytes) as u64,
        };
        let mut source = &self.source;
        place
            .read(&mut source, self.header.data_start, &Device::Cpu)
            .and_then(|rows| rows.dequantize(&Device::Cpu))
            .map_err(CheckpointError::computing(format!("rows of tensor {stored} of {}", self.file)))
    }

    fn dequantised(&self, stored: &str, paired_heads: Option<usize>) -> CandleResult<Tensor> {
        let info = &self.header.tensors[stored];
        let place =
            TensorInfo { ggml_dtype: info.kind, shape: Shape::from(info.shape.as_slice()), offset: info.offset };
        let mut source = &self.source;
        let tensor = place.read(&mut source, self.header.data_start, &Device::Cpu)?.dequantize(&Device::Cpu)?;
        match paired_heads {
            Some(heads) => half_split(&tensor, heads),
            None => Ok(tensor),
        }
    }
}

/// Rows `[head, pair, half]` → `[head, half, pair]`: a GGUF file of a llama holds the two rows that RoPE turns together side
/// by side, a Hugging Face checkpoint half a head apart.
fn half_split(tensor: &Tensor, heads: usize) -> CandleResult<Tensor> {
    let rows = tensor.dim(0)?;
    let columns = tensor.elem_count() / rows;
    tensor.reshape((heads, rows / heads / 2, 2, columns))?.transpose(1, 2)?.contiguous()?.reshape(tensor.shape())
}
