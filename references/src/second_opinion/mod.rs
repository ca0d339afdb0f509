//! A second, independent implementation of a checkpoint: candle-transformers where it has one. It reads config.json and the weights by
//! itself; what it is known to do otherwise than transformers is listed in [`defects`].

mod config;
mod defects;
mod tensors;

#[cfg(test)]
mod tests;

use candle_core::{DType, Device, Result, Tensor};
use candle_transformers::models::{llama, mistral, qwen2, qwen3, smol::smollm3};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{CheckpointError, WeightFiles};
use defects::{Consequence, DEFECTS, Implementation};
use tensors::Tensors;

/// Version of the crate that computes it.
pub(crate) const CRATE: &str = "candle-transformers 0.11.1";

/// The implementation asked, and what there is to know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecondImplementation {
    /// Crate and version.
    pub library: &'static str,
    /// Its module there.
    pub module: &'static str,
    /// Nearer implementations that were not asked, with the reason.
    pub passed_over: Vec<String>,
    /// What it was given otherwise than the files have it, with the reason.
    pub worked_around: Vec<String>,
    /// Rows at positions from here on are not compared.
    pub first_not_compared: Option<usize>,
    /// Why they are not.
    pub not_compared_because: Option<String>,
}

/// Another implementation, loaded.
pub(crate) struct SecondOpinion {
    pub(crate) about: SecondImplementation,
    model: Model,
}

/// Models whose caches are empty; a copy shares the weights.
#[derive(Clone)]
enum Model {
    Llama(Box<llama::Llama>, Box<llama::Config>),
    Mistral(Box<mistral::Model>),
    Qwen2(Box<qwen2::ModelForCausalLM>),
    Qwen3(Box<qwen3::ModelForCausalLM>),
    SmolLm3(Box<smollm3::ModelForCausalLM>),
}

/// Why there is no second opinion.
#[derive(Debug)]
pub(crate) enum NoOpinion {
    /// It does not support this checkpoint.
    NotAvailable(String),
    /// The files cannot be read any more, or there is too little memory.
    Failed(CheckpointError),
}

impl SecondOpinion {
    /// Finds an implementation that supports this config.json and loads it. `longest` is the longest sequence it will be fed.
    pub(crate) fn load(config: &Value, weights: WeightFiles, longest: usize) -> std::result::Result<Self, NoOpinion> {
        let none = Map::new();
        let config = config.as_object().unwrap_or(&none);
        let model_type = config::model_type(config);
        let mut passed_over = Vec::new();
        for implementation in Implementation::of(model_type) {
            let reasons = reasons(config, *implementation, Consequence::NotAsked);
            if reasons.is_empty() {
                let about = about(config, *implementation, passed_over);
                return Ok(Self { about, model: load(config, weights, *implementation, longest)? });
            }
            passed_over.extend(reasons);
        }
        Err(NoOpinion::NotAvailable(match passed_over.is_empty() {
            true => format!("{CRATE} has no implementation of model_type {model_type:?}"),
            false => passed_over.join("; "),
        }))
    }

    /// Computes logits at every position, one step at a time through the implementation's own cache: most return no other rows than
    /// the last. `see` is called with each row, in order.
    pub(crate) fn rows(&self, token_ids: &[u32], see: &mut dyn FnMut(&[f32])) -> Result<()> {
        let mut fed = self.model.begin()?;
        for (position, id) in token_ids.iter().enumerate() {
            see(&fed.last_row(&[*id], position)?);
        }
        Ok(())
    }
}

/// A model in use, with a cache.
struct Fed {
    model: Model,
    cache: Option<llama::Cache>,
}

impl Model {
    fn begin(&self) -> Result<Fed> {
        let cache = match self {
            Self::Llama(_, config) => Some(llama::Cache::new(true, DType::F32, config, &Device::Cpu)?),
            _ => None,
        };
        Ok(Fed { model: self.clone(), cache })
    }
}

impl Fed {
    /// Logits of the last of `token_ids`, which follow what was fed before.
    fn last_row(&mut self, token_ids: &[u32], position: usize) -> Result<Vec<f32>> {
        let input = Tensor::new(token_ids, &Device::Cpu)?.unsqueeze(0)?;
        let logits = match (&mut self.model, &mut self.cache) {
            (Model::Llama(model, _), Some(cache)) => model.forward(&input, position, cache)?,
            (Model::Llama(..), None) => candle_core::bail!("a Llama without its cache"),
            (Model::Mistral(model), _) => model.forward(&input, position)?,
            (Model::Qwen2(model), _) => model.forward(&input, position)?,
            (Model::Qwen3(model), _) => model.forward(&input, position)?,
            (Model::SmolLm3(model), _) => model.forward(&input, position)?,
        };
        logits.flatten_all()?.to_vec1()
    }
}

fn reasons(config: &Map<String, Value>, implementation: Implementation, consequence: Consequence) -> Vec<String> {
    let hit = DEFECTS.iter().filter(|defect| {
        defect.consequence == consequence && defect.of.contains(&implementation) && (defect.hits)(config)
    });
    hit.map(|defect| format!("{CRATE} {} {}", implementation.name(), defect.reason)).collect()
}

fn about(
    config: &Map<String, Value>,
    implementation: Implementation,
    passed_over: Vec<String>,
) -> SecondImplementation {
    let before_the_window = reasons(config, implementation, Consequence::BeforeTheWindow);
    SecondImplementation {
        library: CRATE,
        module: implementation.name(),
        passed_over,
        worked_around: reasons(config, implementation, Consequence::WorkedAround),
        first_not_compared: config::window(config).filter(|_| !before_the_window.is_empty()),
        not_compared_because: before_the_window.into_iter().next(),
    }
}

fn load(
    config: &Map<String, Value>,
    weights: WeightFiles,
    implementation: Implementation,
    longest: usize,
) -> std::result::Result<Model, NoOpinion> {
    let given = config::translated(config, implementation, longest);
    let tied = given.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false);
    let tensors = Tensors::new(weights, tied);
    let built = match implementation {
        Implementation::Llama => {
            let config = read::<llama::LlamaConfig>(given, implementation)?.into_config(false);
            llama::Llama::load(tensors.builder(), &config).map(|model| Model::Llama(Box::new(model), Box::new(config)))
        }
        Implementation::Mistral => {
            mistral::Model::new(&read(given, implementation)?, tensors.builder()).map(|it| Model::Mistral(Box::new(it)))
        }
        Implementation::Qwen2 => qwen2::ModelForCausalLM::new(&read(given, implementation)?, tensors.builder())
            .map(|it| Model::Qwen2(Box::new(it))),
        Implementation::Qwen3 => qwen3::ModelForCausalLM::new(&read(given, implementation)?, tensors.builder())
            .map(|it| Model::Qwen3(Box::new(it))),
        Implementation::SmolLm3 => smollm3::ModelForCausalLM::new(&read(given, implementation)?, tensors.builder())
            .map(|it| Model::SmolLm3(Box::new(it))),
    };
    let built = built.map_err(|source| NoOpinion::Failed(CheckpointError::computing("the second opinion")(source)))?;
    match tensors.finish() {
        Ok(()) => Ok(built),
        // It asked for other tensors than the reference did: it does not compute this checkpoint.
        Err(
            error @ (CheckpointError::MissingTensor { .. }
            | CheckpointError::Tensor { .. }
            | CheckpointError::UnusedTensors { .. }),
        ) => Err(NoOpinion::NotAvailable(format!("{CRATE} {} does not fit: {error}", implementation.name()))),
        Err(error) => Err(NoOpinion::Failed(error)),
    }
}

/// Its own reading of config.json.
fn read<T: DeserializeOwned>(
    given: Map<String, Value>,
    implementation: Implementation,
) -> std::result::Result<T, NoOpinion> {
    serde_json::from_value(Value::Object(given)).map_err(|error| {
        NoOpinion::NotAvailable(format!("{CRATE} {} cannot read this config.json: {error}", implementation.name()))
    })
}
