//! The training loop. Bit-reproducible on one machine: seeded data and weights, and gradients added in a fixed order.

use std::collections::HashMap;
use std::path::Path;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokenizers::Tokenizer;

use crate::error::write;
use crate::grammar::Stories;
use crate::model::{DEMO, Model};
use crate::ops::log_softmax;
use crate::optimiser::Optimiser;
use crate::{Result, tokenizer};

/// Seed of the training stories and of the initial weights.
pub const TRAINING_SEED: u64 = 1;

/// Optimiser steps of a full run.
pub const STEPS: usize = 2000;

/// Rows of a batch.
pub const ROWS: usize = 10;

/// Tokens of a row: a whole story and the beginning of the next.
pub const ROW_TOKENS: usize = 224;

const WARM_UP_STEPS: usize = 60;
const LAST_RATE_SHARE: f64 = 0.01;
const LARGEST_GRADIENT_NORM: f64 = 1.0;
const SHARDS: usize = 2;

/// What a training run reports about a step.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Steps done.
    pub step: usize,
    /// Mean loss of the step's batch before its update, in nats per token.
    pub loss: f64,
    /// The weights after the step.
    pub model: &'a Model,
}

/// Trains the demo model for `steps` steps and returns its f32 weights. `report` is called after every step; its error
/// ends the run.
///
/// # Errors
/// When a tensor operation, the tokenizer or `report` fails.
pub fn train(
    tokenizer: &Tokenizer,
    steps: usize,
    mut report: impl FnMut(Progress<'_>) -> Result<()>,
) -> Result<HashMap<String, Tensor>> {
    // Both cores already work on a shard each.
    gemm::set_threading_threshold(usize::MAX);
    let variables = initial_weights()?;
    let tensors: HashMap<_, _> =
        variables.iter().map(|(name, variable)| (name.clone(), variable.as_tensor().clone())).collect();
    let model = Model::from_tensors(&tensors)?;
    let mut optimiser = Optimiser::new(&variables)?;
    let variables: Vec<Var> = variables.into_iter().map(|(_, variable)| variable).collect();
    let mut rows = Rows { tokenizer, stories: Stories::new(TRAINING_SEED) };
    for step in 1..=steps {
        let shards: Vec<Tensor> = (0..SHARDS).map(|_| rows.batch(ROWS / SHARDS)).collect::<Result<_>>()?;
        let (loss, gradients) = gradients(&model, &shards, &variables)?;
        optimiser.step(&gradients, rate_share(step, steps))?;
        report(Progress { step, loss, model: &model })?;
    }
    Ok(tensors)
}

/// Writes `config.json` and, rounded to F16, `model.safetensors` into `directory`.
///
/// # Errors
/// When a tensor can't be converted or a file can't be written.
pub fn save(tensors: &HashMap<String, Tensor>, directory: &Path) -> Result<()> {
    let config = DEMO.to_json();
    write(&directory.join("config.json"), &format!("{config:#}\n"))?;
    let halves: Vec<(&str, Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| Ok((name.as_str(), tensor.detach().to_dtype(DType::F16)?)))
        .collect::<Result<_>>()?;
    // transformers refuses a file that does not say which framework wrote it.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Ok(safetensors::serialize_to_file(halves, Some(metadata), &directory.join("model.safetensors"))?)
}

fn initial_weights() -> Result<Vec<(String, Var)>> {
    let mut rng = ChaCha8Rng::seed_from_u64(TRAINING_SEED);
    let mut variable = |(name, shape): (String, Vec<usize>)| -> Result<(String, Var)> {
        let count = shape.iter().product();
        let values: Vec<f32> = if shape.len() == 1 {
            vec![1.0; count]
        } else {
            let bound = initial_bound(&name);
            (0..count).map(|_| rng.random_range(-bound..bound)).collect()
        };
        Ok((name, Var::from_vec(values, shape, &Device::Cpu)?))
    };
    DEMO.tensors().into_iter().map(&mut variable).collect()
}

/// Bound of the uniform distribution a matrix starts from.
fn initial_bound(name: &str) -> f32 {
    if name.contains("embed_tokens") {
        // Wide, so that words used alike stay apart while training pulls them together. From a bound of 0.087 the
        // names' embeddings fell together (cosine 0.98), and the model copied none of them within 2,000 steps.
        0.4
    } else if name.contains("o_proj") || name.contains("down_proj") {
        0.03
    } else {
        0.087
    }
}

/// The part of the learning rate to use: linear warm-up, then half a cosine.
fn rate_share(step: usize, steps: usize) -> f64 {
    let warm_up = (step as f64 / WARM_UP_STEPS as f64).min(1.0);
    let cosine = 0.5 + 0.5 * (std::f64::consts::PI * step as f64 / steps as f64).cos();
    warm_up * (LAST_RATE_SHARE + (1.0 - LAST_RATE_SHARE) * cosine)
}

struct Rows<'a> {
    tokenizer: &'a Tokenizer,
    stories: Stories,
}

impl Rows<'_> {
    /// `[rows, ROW_TOKENS + 1]` token ids. Every row begins with a story, as every prompt does.
    fn batch(&mut self, rows: usize) -> Result<Tensor> {
        let mut tokens = Vec::with_capacity(rows * (ROW_TOKENS + 1));
        for row in 1..=rows {
            let end = row * (ROW_TOKENS + 1);
            while tokens.len() < end {
                let story = self.stories.next().expect("the sequence of stories has no end");
                tokens.extend(tokenizer::encode(self.tokenizer, &story.text)?);
            }
            tokens.truncate(end);
        }
        Ok(Tensor::from_vec(tokens, (rows, ROW_TOKENS + 1), &Device::Cpu)?)
    }
}

/// Mean loss over the shards and the clipped mean gradient, one thread a shard.
fn gradients(model: &Model, shards: &[Tensor], variables: &[Var]) -> Result<(f64, GradStore)> {
    let results: Vec<Result<(f64, GradStore)>> = std::thread::scope(|scope| {
        let run = |shard| scope.spawn(move || shard_gradients(model, shard));
        let threads: Vec<_> = shards.iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a shard does not panic")).collect()
    });
    let mut results = results.into_iter();
    let (mut loss, mut sum) = results.next().expect("there is a shard")?;
    for result in results {
        let (more_loss, more) = result?;
        loss += more_loss;
        for variable in variables {
            if let (Some(left), Some(right)) = (sum.get(variable), more.get(variable)) {
                let both = (left + right)?;
                sum.insert(variable, both);
            }
        }
    }
    scale_down(&mut sum, variables, shards.len() as f64)?;
    Ok((loss / shards.len() as f64, sum))
}

fn shard_gradients(model: &Model, tokens: &Tensor) -> Result<(f64, GradStore)> {
    let inputs = tokens.narrow(1, 0, ROW_TOKENS)?;
    let targets = tokens.narrow(1, 1, ROW_TOKENS)?.flatten_all()?.unsqueeze(1)?;
    let logits = model.forward(&inputs.contiguous()?)?.flatten_to(1)?;
    let loss = log_softmax(&logits)?.gather(&targets, 1)?.mean_all()?.neg()?;
    let gradients = loss.backward()?;
    Ok((f64::from(loss.to_scalar::<f32>()?), gradients))
}

/// Divides the summed gradients by `count` and limits their norm.
fn scale_down(gradients: &mut GradStore, variables: &[Var], count: f64) -> Result<()> {
    let mut square = 0.0;
    for variable in variables {
        let gradient = gradients.get(variable).expect("every weight takes part in the loss");
        square += f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?);
    }
    let norm = square.sqrt() / count;
    let factor = (LARGEST_GRADIENT_NORM / norm).min(1.0) / count;
    for variable in variables {
        if let Some(gradient) = gradients.remove(variable) {
            gradients.insert(variable, (gradient * factor)?);
        }
    }
    Ok(())
}
