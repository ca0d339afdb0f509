//! Tensors by name, one at a time, in float64.

use fidelity_references::WeightFiles;
use rayon::prelude::*;

use super::ForgeError;

/// A tensor in float64: a matrix, or a vector.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<f64>,
}

/// The tensors of a checkpoint as a transformation leaves them. Nothing is computed before it is read.
pub(super) trait Tensors {
    /// Names and shapes of all.
    fn shapes(&self) -> Vec<(String, Vec<usize>)>;

    /// Reads or computes one.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self, name: &str) -> Result<Values, ForgeError>;
}

/// The tensors of weight files.
pub(super) struct Stored {
    files: WeightFiles,
    shapes: Vec<(String, Vec<usize>)>,
}

impl Stored {
    /// Of a tied head the copy that a file may hold is left out.
    pub(super) fn new(files: WeightFiles, tied_head: bool) -> Self {
        let mut shapes = files.tensors();
        shapes.retain(|(name, _)| !(tied_head && Part::of(name) == Part::Head));
        Self { files, shapes }
    }
}

impl Tensors for Stored {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.shapes.clone()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let shape = self.shapes.iter().find(|(held, _)| held == name).map(|(_, shape)| shape.clone());
        let shape = shape.ok_or_else(|| ForgeError::NoTensor(name.to_owned()))?;
        let tensor = self.files.take(name, &shape)?;
        let values = tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>()).map_err(ForgeError::Compute)?;
        Ok(Values { shape, values: values.into_iter().map(f64::from).collect() })
    }
}

/// What a tensor of a Llama-like decoder is; a bias is what its matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Embedding,
    Head,
    FinalNorm,
    AttnNorm,
    MlpNorm,
    QNorm,
    KNorm,
    Q,
    K,
    V,
    O,
    Gate,
    Up,
    Down,
    Other,
}

impl Part {
    pub(super) fn of(name: &str) -> Self {
        let stem = name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias")).unwrap_or(name);
        match stem {
            "model.embed_tokens" | "transformer.wte" | "wte" => return Self::Embedding,
            "lm_head" => return Self::Head,
            "model.norm" => return Self::FinalNorm,
            _ => {}
        }
        let inner = block_of(stem).map_or("", |(_, _, rest)| rest);
        match inner {
            "input_layernorm" => Self::AttnNorm,
            "post_attention_layernorm" => Self::MlpNorm,
            "self_attn.q_norm" => Self::QNorm,
            "self_attn.k_norm" => Self::KNorm,
            "self_attn.q_proj" => Self::Q,
            "self_attn.k_proj" => Self::K,
            "self_attn.v_proj" => Self::V,
            "self_attn.o_proj" => Self::O,
            "mlp.gate_proj" => Self::Gate,
            "mlp.up_proj" => Self::Up,
            "mlp.down_proj" => Self::Down,
            _ => Self::Other,
        }
    }

    /// The norm whose output a linear reads.
    pub(super) const fn norm_before(self) -> Option<Self> {
        match self {
            Self::Q | Self::K | Self::V => Some(Self::AttnNorm),
            Self::Gate | Self::Up => Some(Self::MlpNorm),
            Self::Head => Some(Self::FinalNorm),
            _ => None,
        }
    }

    /// Whether what it makes is added to the residual stream.
    pub(super) const fn writes_stream(self) -> bool {
        matches!(self, Self::O | Self::Down)
    }

    /// Whether it normalises the residual stream.
    pub(super) const fn norms_stream(self) -> bool {
        matches!(self, Self::AttnNorm | Self::MlpNorm | Self::FinalNorm)
    }
}

/// What stands before the number of a block, the number, and what stands after it.
pub(super) fn block_of(name: &str) -> Option<(&str, usize, &str)> {
    let prefix = ["model.layers.", "transformer.h.", "h."].into_iter().find(|prefix| name.starts_with(prefix))?;
    let (number, rest) = name[prefix.len()..].split_once('.')?;
    Some((prefix, number.parse().ok()?, rest))
}

/// The name of another tensor of the same block, or of the same network where the part stands outside blocks.
pub(super) fn sibling(name: &str, part: Part) -> String {
    let inner = match part {
        Part::FinalNorm => return "model.norm.weight".into(),
        Part::AttnNorm => "input_layernorm",
        _ => "post_attention_layernorm",
    };
    block_of(name).map_or_else(|| inner.to_owned(), |(prefix, block, _)| format!("{prefix}{block}.{inner}.weight"))
}

impl Values {
    /// Rows and columns; a vector is one row.
    pub(super) fn dims(&self) -> (usize, usize) {
        match self.shape.as_slice() {
            [rows, columns] => (*rows, *columns),
            _ => (1, self.values.len()),
        }
    }

    /// The same with zeros behind, up to `rows` and `columns`; of a vector, up to `columns`.
    pub(super) fn padded(self, rows: usize, columns: usize) -> Self {
        let (_, width) = self.dims();
        let mut values = vec![0.0; rows * columns];
        for (to, from) in values.chunks_exact_mut(columns.max(1)).zip(self.values.chunks_exact(width.max(1))) {
            to[..width].copy_from_slice(from);
        }
        let shape = if self.shape.len() == 2 { vec![rows, columns] } else { vec![columns] };
        Self { shape, values }
    }

    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.values.par_iter_mut().for_each(|value| *value *= factor);
        self
    }

    /// Row r times `factor(r)`; of a vector, value r.
    pub(super) fn rows_scaled(mut self, factor: impl Fn(usize) -> f64 + Sync) -> Self {
        let width = if self.shape.len() == 2 { self.dims().1 } else { 1 };
        let scale = |(row, values): (usize, &mut [f64])| values.iter_mut().for_each(|value| *value *= factor(row));
        self.values.par_chunks_mut(width.max(1)).enumerate().for_each(scale);
        self
    }

    /// Column c times factor c.
    pub(super) fn columns_scaled(mut self, factors: &[f64]) -> Self {
        let scale = |row: &mut [f64]| row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
        self.values.par_chunks_mut(factors.len().max(1)).for_each(scale);
        self
    }

    pub(super) fn each_row(mut self, change: impl Fn(&mut [f64]) + Sync) -> Self {
        let (_, width) = self.dims();
        self.values.par_chunks_mut(width.max(1)).for_each(&change);
        self
    }

    pub(super) fn transposed(self) -> Self {
        let (rows, columns) = self.dims();
        let mut values = vec![0.0; rows * columns];
        values.par_chunks_mut(rows.max(1)).enumerate().for_each(|(column, to)| {
            to.iter_mut().enumerate().for_each(|(row, to)| *to = self.values[row * columns + column]);
        });
        Self { shape: vec![columns, rows], values }
    }

    /// Rows taken from elsewhere: row r is `row(r)` of the old ones, or zero. Of a vector, values.
    pub(super) fn gathered(self, count: usize, row: impl Fn(usize) -> Option<usize>) -> Self {
        let vector = self.shape.len() == 1;
        let width = if vector { 1 } else { self.dims().1 };
        let mut values = vec![0.0; count * width];
        for (index, to) in values.chunks_exact_mut(width.max(1)).enumerate() {
            if let Some(from) = row(index) {
                to.copy_from_slice(&self.values[from * width..][..width]);
            }
        }
        Self { shape: if vector { vec![count] } else { vec![count, width] }, values }
    }
}
