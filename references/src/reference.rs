//! The reference arm: the checkpoint in float32, with its own noise measured against float64.

use candle_core::{Result, Tensor};
use fidelity_trace::{Arm, ArmKind, Capture, Request, Scope, Site, Subject, SubjectError};
use serde_json::{Map, Value};

use crate::{Decoder, Instrument, Output, Part, Wiring, noise, run_scopes, scopes::TOGETHER};

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
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_noise(decoder: Decoder) -> Result<Self> {
        let float64 = Some(decoder.to_float64()?);
        Ok(Self { decoder, float64 })
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
        requests.iter().zip(captures).try_for_each(|(request, capture)| {
            noise::measure(decoder, request, capture)
                .map_err(|error| SubjectError { scope: Scope::Base, message: format!("in float64: {error}") })
        })
    }
}
