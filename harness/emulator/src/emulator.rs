//! The emulator arm.

use std::collections::BTreeMap;

use fidelity_references::{Checkpoint, CheckpointError, Decoder, TOGETHER, WeightTransform, Wiring, run_scopes};
use fidelity_trace::{Arm, ArmKind, Capture, Deviation, Emulation, Intervention, Request, Site, Subject, SubjectError};
use serde_json::{Map, Value};

use crate::{
    Calibration, CalibrationSet, Grid, Plan, Recipe,
    basis::Basis,
    calibration::{calibrate, calibrate_prepared},
    preparation::{EqualisingFactors, Preparation},
    quantiser::{Quantiser, SiteGrid},
};

/// A checkpoint under a recipe, with faults.
pub struct Emulator {
    decoder: Decoder,
    applied: Option<Applied>,
    grids: BTreeMap<Site, SiteGrid>,
    basis: Basis,
    wiring: Wiring,
}

/// What a trace says of the recipe.
#[derive(Clone)]
struct Applied {
    name: String,
    precision: String,
    emulation: Emulation,
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
        "calibration: {site} has the range {found}, expected finite values; the checkpoint itself overflows on the calibration prompts"
    )]
    Range {
        /// The site.
        site: Site,
        /// Its range.
        found: String,
    },
}

impl Emulator {
    /// Quantises a checkpoint as `recipe`, planned for it, says; `float32` is the checkpoint's own decoder, and `set` is what
    /// activation ranges come from. Weights are quantised once.
    ///
    /// # Errors
    /// The weights cannot be used, or a range is not finite.
    pub fn quantised(
        checkpoint: &Checkpoint,
        recipe: &Recipe,
        mut plan: Plan,
        float32: &Decoder,
        set: &CalibrationSet,
    ) -> Result<Self, EmulatorError> {
        if let Some(asked) = plan.calibration_prompts.filter(|asked| *asked > set.prompts.len()) {
            plan.not_emulated.push(format!("calibset_size={asked} (the set has {} prompts)", set.prompts.len()));
        }
        let set = set.clone().first(plan.calibration_prompts);
        let a = checkpoint.architecture();
        let factors = match plan.equalised.is_empty() {
            true => BTreeMap::new(),
            false => {
                let factors = EqualisingFactors::new(&plan, a);
                seen_by(checkpoint, &factors)?;
                factors.into_factors()
            }
        };
        let exact = plan.rotated || !factors.is_empty();
        let calibration = if exact {
            // What the grids are for is the network as it will compute, before it is quantised.
            let preparation = Preparation::new(&plan, a, factors.clone(), None);
            let prepared = checkpoint.transformed_decoder(&preparation)?;
            calibrate_prepared(&prepared, &set, &plan, &preparation.into_basis())
        } else {
            calibrate(float32, &set, &plan)
        };
        let calibration = calibration.map_err(EmulatorError::Calibration)?;
        let grids = grids(&plan, &calibration)?;
        let preparation = Preparation::new(&plan, a, factors, Some(&calibration));
        let decoder = checkpoint.transformed_decoder(&preparation)?;
        let basis = preparation.into_basis();
        let applied = Applied {
            name: recipe.name.clone(),
            precision: plan.precisions.join(", "),
            emulation: Emulation::Quantisation {
                recipe: recipe.name.clone(),
                recipe_sha256: recipe.sha256.clone(),
                calibration: set.describe(),
                ranges_sha256: calibration.sha256(),
                not_emulated: plan.not_emulated,
            },
        };
        Ok(Self { decoder, applied: Some(applied), grids, basis, wiring: Wiring::default() })
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
        Ok(Self { decoder, applied: None, grids: BTreeMap::new(), basis, wiring: Wiring::default() })
    }

    /// The checkpoint in float32, for faults alone.
    ///
    /// # Errors
    /// The weights cannot be used.
    pub fn float32(checkpoint: &Checkpoint) -> Result<Self, EmulatorError> {
        let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor))?;
        let basis = Basis::default();
        Ok(Self { decoder, applied: None, grids: BTreeMap::new(), basis, wiring: Wiring::default() })
    }

    /// The same with faults injected.
    ///
    /// # Errors
    /// A fault does not fit the checkpoint.
    pub fn with_faults(mut self, interventions: Vec<Intervention>) -> Result<Self, EmulatorError> {
        (self.decoder, self.wiring) = self.decoder.with_faults(interventions).map_err(EmulatorError::Fault)?;
        Ok(self)
    }

    /// Another emulator of the same weights and grids with these faults, and none that this one has; weights are shared.
    ///
    /// # Errors
    /// A fault does not fit the checkpoint.
    pub fn faulty(&self, interventions: Vec<Intervention>) -> Result<Self, EmulatorError> {
        let (decoder, wiring) = self.decoder.with_faults(interventions).map_err(EmulatorError::Fault)?;
        Ok(Self {
            decoder,
            wiring,
            applied: self.applied.clone(),
            grids: self.grids.clone(),
            basis: self.basis.clone(),
        })
    }

    /// Everything that deviates from the plain computation, for the trace.
    #[must_use]
    pub fn deviations(&self) -> Vec<Deviation> {
        let quantisation = self.applied.as_ref().map(|applied| Deviation::from(&applied.emulation));
        quantisation.into_iter().chain(self.wiring.interventions().iter().map(Deviation::from)).collect()
    }

    /// The step of its logit grid, one shard; `None` when logits are not quantised.
    #[must_use]
    pub fn logits_step(&self) -> Option<Vec<f64>> {
        self.grids.get(&Site::Logits).map(|site| vec![f64::from(site.grid.step)])
    }
}

/// Reads all weights, for what `transform` learns of them.
fn seen_by(checkpoint: &Checkpoint, transform: &dyn WeightTransform) -> Result<(), EmulatorError> {
    checkpoint.transformed_decoder(transform).map(drop).map_err(EmulatorError::from)
}

fn grids(plan: &Plan, calibration: &Calibration) -> Result<BTreeMap<Site, SiteGrid>, EmulatorError> {
    let grid = |(site, bits): (&Site, &u32)| {
        let ranges = calibration.range(*site).zip(calibration.clipped_range(*site, plan));
        match ranges.filter(|((min, max), _)| min.is_finite() && max.is_finite()) {
            Some((calibrated, (min, max))) => {
                Ok((*site, SiteGrid { grid: Grid::spanning(min, max, *bits), calibrated }))
            }
            None => {
                let found = calibration.range(*site);
                let found = found.map_or_else(|| "none".to_owned(), |(min, max)| format!("{min}..{max}"));
                Err(EmulatorError::Range { site: *site, found })
            }
        }
    };
    plan.activations.iter().map(grid).collect()
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
        let mut quantiser = Quantiser::new(&self.grids, &self.basis);
        run_scopes(&self.decoder, &wiring, &mut quantiser, requests, captures)?;
        quantiser.store(captures, requests.first().map_or(&[], |request| request.scopes));
        Ok(())
    }
}
