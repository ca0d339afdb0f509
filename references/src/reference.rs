//! The reference arm: the checkpoint in float32, with its own noise measured against float64.

use candle_core::{Result, Tensor};
use fidelity_trace::{Arm, ArmKind, Capture, Request, Scope, Site, Subject, SubjectError};
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::{
    Decoder, Instrument, Part, Wiring,
    noise::{self, MEASURED_TOGETHER},
    run_scopes,
    scopes::TOGETHER,
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

impl Subject for Reference {
    fn arm(&self) -> Arm {
        let detail = Map::from_iter([
            ("precision".to_owned(), Value::from("float32")),
            ("noise_measured".to_owned(), Value::from(self.float64.is_some())),
        ]);
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
            noise::measure(decoder, requests, captures)
                .map_err(|error| SubjectError { scope: Scope::Base, message: format!("in float64: {error}") })
        })
    }
}
