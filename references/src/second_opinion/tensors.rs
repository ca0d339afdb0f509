//! The checkpoint's tensors as candle-transformers asks for them: by name and shape, each read on demand in float32.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::{Init, VarBuilder, var_builder::SimpleBackend};

use crate::{CheckpointError, WeightFiles};

const HEAD: &str = "lm_head.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

/// Hands out tensors and keeps account of them.
#[derive(Clone)]
pub(super) struct Tensors(Arc<Mutex<State>>);

struct State {
    weights: WeightFiles,
    /// The head is the embedding.
    tied: bool,
    embedding: Option<Tensor>,
    trouble: Option<CheckpointError>,
}

impl Tensors {
    pub(super) fn new(weights: WeightFiles, tied: bool) -> Self {
        Self(Arc::new(Mutex::new(State { weights, tied, embedding: None, trouble: None })))
    }

    pub(super) fn builder(&self) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self.clone()), DType::F32, Device::Cpu)
    }

    /// Says whether every tensor that was asked for was there, and every one that is there was asked for.
    pub(super) fn finish(&self) -> std::result::Result<(), CheckpointError> {
        let mut state = self.state();
        if state.tied {
            state.weights.ignore(HEAD);
        }
        match state.trouble.take() {
            Some(trouble) => Err(trouble),
            None => state.weights.finish(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, name: &str, shape: &[usize]) -> std::result::Result<Tensor, CheckpointError> {
        let name = if self.tied && name == HEAD { EMBEDDING } else { name };
        if name != EMBEDDING {
            return self.weights.take(name, shape);
        }
        if let Some(embedding) = self.embedding.as_ref().filter(|embedding| embedding.dims() == shape) {
            return Ok(embedding.clone());
        }
        let embedding = self.weights.take(name, shape)?;
        self.embedding = Some(embedding.clone());
        Ok(embedding)
    }
}

impl SimpleBackend for Tensors {
    /// Never fails, since Llama's loader panics when this does: the first trouble is kept for [`Tensors::finish`], and a tensor of
    /// zeros that takes no memory is handed out in the place of the one that is not there.
    fn get(&self, shape: Shape, name: &str, _: Init, _: DType, device: &Device) -> Result<Tensor> {
        let mut state = self.state();
        match state.take(name, shape.dims()) {
            Ok(tensor) => Ok(tensor),
            Err(error) => {
                state.trouble.get_or_insert(error);
                Tensor::zeros((), DType::F32, device)?.broadcast_as(shape)
            }
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        Err(Error::CannotFindTensor { path: format!("{name}, which was asked for without a shape") }.bt())
    }

    fn contains_tensor(&self, name: &str) -> bool {
        let state = self.state();
        state.weights.contains(name) && !(state.tied && name == HEAD)
    }
}
