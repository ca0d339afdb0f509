//! The emulator arm.

use std::collections::BTreeMap;

use fidelity_references::{Checkpoint, CheckpointError, Decoder, Instrument, TOGETHER, Wiring, run_scopes};
use fidelity_trace::{
    Arm, ArmKind, Capture, Deviation, Emulation, FirstPosition, Intervention, Request, Site, Subject, SubjectError,
};
use serde_json::{Map, Value};

use crate::{
    Calibrated, CalibrationSet, Plan, Recipe,
    basis::Basis,
    calibrated::seen_by,
    jitter::Jittered,
    preparation::{EqualisingFactors, Preparation},
    quantiser::{First, Quantiser, SiteGrid},
};

/// A checkpoint under a recipe, with faults.
#[derive(Clone)]
pub struct Emulator {
    decoder: Decoder,
    applied: Option<Applied>,
    grids: BTreeMap<Site, SiteGrid>,
    basis: Basis,
    first: Option<First>,
    wiring: Wiring,
    /// The seed by which values are moved before they are rounded.
    jitter: Option<u64>,
}

/// What a trace says of the recipe.
#[derive(Clone)]
pub(crate) struct Applied {
    pub(crate) name: String,
    pub(crate) precision: String,
    pub(crate) emulation: Emulation,
}

/// Why an emulator cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The checkpoint's weights cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The calibration could not be computed.
    #[error("while computing the calibration: {0}")]
    Calibration(candle_core::Error),
    /// A fault cannot be injected.
    #[error("while injecting a fault: {0}")]
    Fault(candle_core::Error),
    /// A site's range is not finite.
    #[error(
        "calibration: {site} has the range {found}, expected finite values; the checkpoint itself overflows on the calibration prompts; give others by --calibration"
    )]
    Range {
        /// The site.
        site: Site,
        /// Its range.
        found: String,
    },
    /// A plan in another basis, or that needs other numbers.
    #[error("the recipe rotates, equalises, clips or corrects other layers than the calibrated one: a fault of ours")]
    OtherCalibration,
    /// In an encoder every position sees every other.
    #[error(
        "position 0 cannot be set apart in an encoder, where every position sees every other; leave out --first-position"
    )]
    NoFirstPosition,
}

impl Emulator {
    /// Quantises a checkpoint as `recipe`, planned for it, says; `float32` is the checkpoint's own decoder, and `set` is what
    /// activation ranges come from. Weights are quantised once. `first` sets position 0 apart.
    ///
    /// # Errors
    /// The weights cannot be used, or a range is not finite.
    pub fn quantised(
        checkpoint: &Checkpoint,
        recipe: &Recipe,
        plan: &Plan,
        float32: &Decoder,
        set: &CalibrationSet,
        first: Option<FirstPosition>,
    ) -> Result<Self, EmulatorError> {
        Calibrated::new(checkpoint, plan, float32, set, first)?.emulator(recipe, plan)
    }

    pub(crate) fn of_parts(
        decoder: Decoder,
        applied: Option<Applied>,
        grids: BTreeMap<Site, SiteGrid>,
        basis: Basis,
        first: Option<First>,
    ) -> Self {
        Self { decoder, applied, grids, basis, first, wiring: Wiring::default(), jitter: None }
    }

    /// The checkpoint after what a plan does to it that is exact in float, and nothing else: to hold it equal to the checkpoint.
    ///
    /// # Errors
    /// The weights cannot be used.
    pub fn prepared(checkpoint: &Checkpoint, plan: &Plan) -> Result<Self, EmulatorError> {
        let a = checkpoint.architecture();
        let factors = EqualisingFactors::new(plan, a);
        seen_by(checkpoint, &factors)?;
        let preparation = Preparation::new(plan, a, factors.into_factors(), None);
        let decoder = checkpoint.transformed_decoder(&preparation)?;
        let basis = preparation.into_basis();
        Ok(Self::of_parts(decoder, None, BTreeMap::new(), basis, None))
    }

    /// The same with position 0 computed outside of it, as [`FirstPosition::Prefix`] says: to hold that equal too.
    ///
    /// # Errors
    /// The weights cannot be used.
    pub fn prepared_with_prefix(checkpoint: &Checkpoint, plan: &Plan) -> Result<Self, EmulatorError> {
        let prepared = Self::prepared(checkpoint, plan)?;
        let float = Some(prepared.decoder.clone());
        let first = First { way: FirstPosition::Prefix, grids: BTreeMap::new(), float };
        Ok(Self { first: Some(first), ..prepared })
    }

    /// The checkpoint in float32, for faults alone.
    ///
    /// # Errors
    /// The weights cannot be used.
    pub fn float32(checkpoint: &Checkpoint) -> Result<Self, EmulatorError> {
        let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor))?;
        let basis = Basis::default();
        Ok(Self::of_parts(decoder, None, BTreeMap::new(), basis, None))
    }

    /// Another emulator of the same weights and grids with these faults, and none that this one has; weights are shared.
    ///
    /// # Errors
    /// A fault does not fit the checkpoint.
    pub fn with_faults(&self, interventions: Vec<Intervention>) -> Result<Self, EmulatorError> {
        let (decoder, wiring) = self.decoder.with_faults(interventions).map_err(EmulatorError::Fault)?;
        Ok(Self { decoder, wiring, ..self.clone() })
    }

    /// The same quantiser with another rounding and a small gain in every channel, both drawn from a seed: for tests of what is
    /// said of an arm that is not the emulator itself. No trace of it says so; it is not for `record`.
    #[must_use]
    pub fn jittered(mut self, seed: u64) -> Self {
        self.jitter = Some(seed);
        self
    }

    /// Everything that deviates from the plain computation, for the trace.
    #[must_use]
    pub fn deviations(&self) -> Vec<Deviation> {
        let quantisation = self.applied.as_ref().map(|applied| Deviation::from(&applied.emulation));
        let first = self.first.as_ref().map(|first| Deviation::from(&Emulation::FirstPosition(first.way)));
        quantisation.into_iter().chain(first).chain(self.wiring.interventions().iter().map(Deviation::from)).collect()
    }

    /// The decoder with its quantised weights.
    #[must_use]
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// What quantises its activations, to be looked at site by site.
    pub fn instrument(&self) -> impl Instrument {
        self.quantiser()
    }

    fn quantiser(&self) -> Quantiser<'_> {
        Quantiser::new(&self.grids, &self.basis, self.first.as_ref())
    }

    /// The step of its logit grid, one shard; `None` when logits are not quantised.
    #[must_use]
    pub fn logits_step(&self) -> Option<Vec<f64>> {
        self.grids.get(&Site::Logits).map(|site| vec![f64::from(site.grid.step)])
    }
}

impl Subject for Emulator {
    fn arm(&self) -> Arm {
        let (name, precision) = match &self.applied {
            Some(applied) => (applied.name.as_str(), applied.precision.as_str()),
            None => ("float32", "float32"),
        };
        let detail = Map::from_iter([("precision".to_owned(), Value::from(precision))]);
        Arm { kind: ArmKind::Emulator, name: name.into(), detail }
    }

    fn together(&self) -> usize {
        TOGETHER
    }

    fn run(&self, requests: &[Request<'_>], captures: &mut [Capture]) -> Result<(), SubjectError> {
        // Ranges that faults set at first sight are those of these prompts.
        let wiring = self.wiring.clone();
        let mut quantiser = self.quantiser();
        match self.jitter {
            None => run_scopes(&self.decoder, &wiring, &mut quantiser, requests, captures)?,
            Some(seed) => {
                let mut jittered = Jittered { then: &mut quantiser, grids: &self.grids, seed, calls: 0 };
                run_scopes(&self.decoder, &wiring, &mut jittered, requests, captures)?;
            }
        }
        quantiser.store(captures, requests.first().map_or(&[], |request| request.scopes));
        Ok(())
    }
}
