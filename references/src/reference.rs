//! The reference arm: the checkpoint in float32, with its own noise measured against float64.

use candle_core::{Result, Tensor, bail};
use fidelity_trace::{Arm, ArmKind, Capture, Request, Scope, Site, Subject, SubjectError};
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::{
    Cache, Chunk, Decoder, Instrument, Output, Part, Visibility, Wiring,
    error::without_backtrace,
    noise::{self, MEASURED_TOGETHER},
    run_scopes,
    scopes::{TOGETHER, greedy},
};

/// The judge.
pub struct Reference {
    decoder: Decoder,
    float64: Option<Decoder>,
}

/// An instrument that changes nothing.
pub(crate) struct Untouched;

impl Instrument for Untouched {
    fn at(&mut self, _: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        Ok(tensor)
    }
}

impl Reference {
    /// A reference that also computes every prompt in float64 and says how far float32 is from it.
    #[must_use]
    pub fn with_noise(decoder: Decoder) -> Self {
        let float64 = Some(decoder.to_float64());
        Self { decoder, float64 }
    }

    /// A reference that does not measure its own noise.
    #[must_use]
    pub fn without_noise(decoder: Decoder) -> Self {
        Self { decoder, float64: None }
    }

    /// The float32 decoder.
    #[must_use]
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

impl Reference {
    /// The index of the first id of `continuation` that the reference would not have chosen after `token_ids` and the ids before
    /// it; `None` if it would have chosen them all. One teacher-forced pass, where choosing them took a pass each (except under
    /// dynamic RoPE, whose angles are those of the steps).
    ///
    /// # Errors
    /// An empty prompt, or out of memory.
    pub fn first_divergence(&self, token_ids: &[u32], continuation: &[u32]) -> Result<Option<usize>> {
        let Some(before) = token_ids.len().checked_sub(1) else { bail!("a prompt has at least one token") };
        let Some((_, fed)) = continuation.split_last() else { return Ok(None) };
        let all = [token_ids, fed].concat();
        let mut cache = Cache::new(&self.decoder, all.len())?;
        let first_chunk = if self.decoder.architecture().angles_are_fixed() { all.len() } else { token_ids.len() };
        let (mut start, mut end) = (0, first_chunk);
        while start < all.len() {
            let positions: Vec<u32> = (start as u32..end as u32).collect();
            let chunk = Chunk { token_ids: &all[start..end], positions: &positions, visibility: Visibility::Causal };
            let logits = self.decoder.forward(&chunk, Some(&mut cache), &Wiring::default(), &mut Untouched)?;
            for position in start.max(before)..end {
                let chosen = greedy(&logits.get(position - start)?.to_vec1::<f32>()?);
                if chosen != continuation[position - before] {
                    return Ok(Some(position - before));
                }
            }
            (start, end) = (end, end + 1);
        }
        Ok(None)
    }
}

impl Subject for Reference {
    fn arm(&self) -> Arm {
        let mut detail = Map::from_iter([
            ("precision".to_owned(), Value::from("float32")),
            ("noise_measured".to_owned(), Value::from(self.float64.is_some())),
        ]);
        if let Output::Hidden(pooling) = self.decoder.architecture().output {
            detail.insert("pooling".to_owned(), Value::from(pooling.to_string()));
        }
        Arm { kind: ArmKind::Reference, name: "float32".into(), detail }
    }

    fn together(&self) -> usize {
        TOGETHER
    }

    fn run(&self, requests: &[Request<'_>], captures: &mut [Capture]) -> std::result::Result<(), SubjectError> {
        run_scopes(&self.decoder, &Wiring::default(), &mut Untouched, requests, captures)?;
        let Some(decoder) = &self.float64 else { return Ok(()) };
        let groups = requests.par_chunks(MEASURED_TOGETHER).zip(captures.par_chunks_mut(MEASURED_TOGETHER));
        groups.try_for_each(|(requests, captures)| {
            noise::measure(decoder, requests, captures).map_err(|error| SubjectError {
                scope: Scope::Base,
                message: format!("in float64: {}", without_backtrace(error)),
            })
        })
    }
}
