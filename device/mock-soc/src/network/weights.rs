//! Weights of a decoder of the Llama family, by the names that Hugging Face checkpoints have.

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::geometry::Dimensions;

/// Weights that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// Not a safetensors file.
    #[error("the weights cannot be read as safetensors: {0}")]
    Container(#[from] safetensors::SafeTensorError),
    /// A tensor is not there.
    #[error("tensor {name} is missing")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A tensor has another shape than the dimensions say.
    #[error("tensor {name} is {found:?}, expected {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// As stored.
        found: Vec<usize>,
        /// As the dimensions say.
        expected: Vec<usize>,
    },
    /// Not float32, float16 or bfloat16.
    #[error("tensor {name} has type {dtype}; F32, F16 and BF16 are read")]
    Type {
        /// Its name.
        name: String,
        /// Its type.
        dtype: String,
    },
}

/// A projection, `[out, in]`.
#[derive(Debug)]
pub(crate) struct Projection {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Option<Vec<f32>>,
}

/// A block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(super) attention_norm: Vec<f32>,
    pub(super) query: Projection,
    pub(super) key: Projection,
    pub(super) value: Projection,
    pub(super) output: Projection,
    pub(super) mlp_norm: Vec<f32>,
    pub(super) gate: Projection,
    pub(super) up: Projection,
    pub(super) down: Projection,
}

/// All weights but the embedding, whose codes a run is fed.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(super) blocks: Vec<Block>,
    pub(super) norm: Vec<f32>,
    /// `[vocabulary, hidden]`; the embedding where the two are tied.
    pub(super) head: Vec<f32>,
}

impl Weights {
    /// Its name among the resources of a HEF.
    pub(crate) const RESOURCE: &'static str = "mock-weights.safetensors";

    /// Reads a safetensors file. Without `lm_head.weight` the head is the embedding.
    pub(crate) fn read(file: &[u8], dimensions: &Dimensions) -> Result<Self, WeightsError> {
        let file = File(SafeTensors::deserialize(file)?);
        let hidden = dimensions.hidden;
        let blocks = (0..dimensions.layers).map(|layer| block(&file, dimensions, layer)).collect::<Result<_, _>>()?;
        let head = if file.has("lm_head.weight") { "lm_head.weight" } else { Self::EMBEDDING };
        let head = file.tensor(head, &[dimensions.vocabulary, hidden])?;
        Ok(Self { blocks, norm: file.tensor("model.norm.weight", &[hidden])?, head })
    }

    const EMBEDDING: &'static str = "model.embed_tokens.weight";

    /// The embedding, `[vocabulary, hidden]`.
    pub(crate) fn embedding(file: &[u8], dimensions: &Dimensions) -> Result<Vec<f32>, WeightsError> {
        File(SafeTensors::deserialize(file)?).tensor(Self::EMBEDDING, &[dimensions.vocabulary, dimensions.hidden])
    }
}

fn block(file: &File<'_>, dimensions: &Dimensions, layer: usize) -> Result<Block, WeightsError> {
    let &Dimensions { hidden, intermediate, .. } = dimensions;
    let (queries, keys) = (dimensions.query_width(), dimensions.key_width());
    let name = |part: &str| format!("model.layers.{layer}.{part}");
    let norm = |part: &str| file.tensor(&name(&format!("{part}.weight")), &[hidden]);
    let projection = |part: &str, out: usize, width: usize| file.projection(&name(part), out, width);
    Ok(Block {
        attention_norm: norm("input_layernorm")?,
        query: projection("self_attn.q_proj", queries, hidden)?,
        key: projection("self_attn.k_proj", keys, hidden)?,
        value: projection("self_attn.v_proj", keys, hidden)?,
        output: projection("self_attn.o_proj", hidden, queries)?,
        mlp_norm: norm("post_attention_layernorm")?,
        gate: projection("mlp.gate_proj", intermediate, hidden)?,
        up: projection("mlp.up_proj", intermediate, hidden)?,
        down: projection("mlp.down_proj", hidden, intermediate)?,
    })
}

struct File<'a>(SafeTensors<'a>);

impl File<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.tensor(name).is_ok()
    }

    fn tensor(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, WeightsError> {
        let tensor = self.0.tensor(name).map_err(|_| WeightsError::Missing { name: name.into() })?;
        if tensor.shape() != expected {
            let (found, expected) = (tensor.shape().to_vec(), expected.to_vec());
            return Err(WeightsError::Shape { name: name.into(), found, expected });
        }
        let bytes = tensor.data();
        let two = |value: fn([u8; 2]) -> f32| bytes.as_chunks::<2>().0.iter().map(|pair| value(*pair)).collect();
        match tensor.dtype() {
            Dtype::F32 => Ok(bytes.as_chunks::<4>().0.iter().map(|quad| f32::from_le_bytes(*quad)).collect()),
            Dtype::F16 => Ok(two(|pair| f16::from_le_bytes(pair).to_f32())),
            Dtype::BF16 => Ok(two(|pair| bf16::from_le_bytes(pair).to_f32())),
            other => Err(WeightsError::Type { name: name.into(), dtype: format!("{other:?}") }),
        }
    }

    fn projection(&self, name: &str, out: usize, width: usize) -> Result<Projection, WeightsError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, width])?;
        let bias = format!("{name}.bias");
        let bias = if self.has(&bias) { Some(self.tensor(&bias, &[out])?) } else { None };
        Ok(Projection { weight, bias })
    }
}
