//! The emulator arm.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_references::{
    Architecture, Checkpoint, CheckpointError, Decoder, Instrument, Part, TOGETHER, WeightKind, Wiring, run_scopes,
};
use fidelity_trace::{Arm, ArmKind, Capture, Deviation, Emulation, Intervention, Request, Site, Subject, SubjectError};
use serde_json::{Map, Value};

use crate::{Grid, Ranges, Recipe, quantise_rows};

/// A checkpoint under a recipe, with faults.
pub struct Emulator {
    decoder: Decoder,
    recipe: Option<Recipe>,
    grids: Grids,
    calibration: String,
    ranges_sha256: String,
    interventions: Vec<Intervention>,
}

/// Why an emulator cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The checkpoint's weights cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
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

/// Quantises activations to the grid of their site.
#[derive(Clone, Debug, Default)]
struct Grids(BTreeMap<Site, Grid>);

impl Instrument for &Grids {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        self.0.get(&site).map_or(Ok(tensor.clone()), |grid| grid.apply(&tensor))
    }
}

impl Emulator {
    /// Quantises a checkpoint as `recipe` says, with activation ranges from `ranges`; `calibration` names where those come from.
    ///
    /// # Errors
    /// The weights cannot be used, or a range is not finite.
    pub fn quantised(
        checkpoint: &Checkpoint,
        recipe: Recipe,
        ranges: &Ranges,
        calibration: &str,
    ) -> std::result::Result<Self, EmulatorError> {
        let grids = grids(&recipe, ranges, checkpoint.architecture())?;
        let bits = recipe.precision.weight_bits;
        let decoder = checkpoint.decoder(&|kind, tensor| quantised_weight(kind, tensor, bits))?;
        Ok(Self {
            decoder,
            recipe: Some(recipe),
            grids,
            calibration: calibration.to_owned(),
            ranges_sha256: ranges.sha256(),
            interventions: Vec::new(),
        })
    }

    /// The checkpoint in float32, for faults alone.
    ///
    /// # Errors
    /// The weights cannot be used.
    pub fn float32(checkpoint: &Checkpoint) -> std::result::Result<Self, EmulatorError> {
        let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor))?;
        Ok(Self {
            decoder,
            recipe: None,
            grids: Grids::default(),
            calibration: String::new(),
            ranges_sha256: String::new(),
            interventions: Vec::new(),
        })
    }

    /// The same with faults injected.
    #[must_use]
    pub fn with_faults(mut self, interventions: Vec<Intervention>) -> Self {
        self.interventions = interventions;
        self
    }

    /// Everything that deviates from the plain computation, for the trace.
    #[must_use]
    pub fn deviations(&self) -> Vec<Deviation> {
        let quantisation = self.recipe.as_ref().map(|recipe| {
            Deviation::from(&Emulation::Quantisation {
                recipe: recipe.name.clone(),
                recipe_sha256: recipe.sha256.clone(),
                calibration: self.calibration.clone(),
                ranges_sha256: self.ranges_sha256.clone(),
            })
        });
        quantisation.into_iter().chain(self.interventions.iter().map(Deviation::from)).collect()
    }

    /// The step of its logit grid, one shard; `None` when logits are not quantised.
    #[must_use]
    pub fn logits_step(&self) -> Option<Vec<f64>> {
        self.grids.0.get(&Site::Logits).map(|grid| vec![f64::from(grid.step)])
    }
}

fn grids(recipe: &Recipe, ranges: &Ranges, architecture: &Architecture) -> std::result::Result<Grids, EmulatorError> {
    let mut grids = BTreeMap::new();
    for site in architecture.sites() {
        let Some(bits) = recipe.activation_bits(site) else { continue };
        match ranges.get(site) {
            Some((min, max)) if min.is_finite() && max.is_finite() => {
                grids.insert(site, Grid::spanning(min, max, bits))
            }
            other => {
                let found = other.map_or_else(|| "none".to_owned(), |(min, max)| format!("{min}..{max}"));
                return Err(EmulatorError::Range { site, found });
            }
        };
    }
    Ok(Grids(grids))
}

/// Weights of projections and head are quantised per output channel, the embedding to 16 bits per tensor; norm scales and
/// biases stay float32.
fn quantised_weight(kind: WeightKind, tensor: Tensor, bits: u32) -> Result<Tensor> {
    match kind {
        WeightKind::Linear | WeightKind::Head => quantise_rows(&tensor, bits),
        WeightKind::Embedding => {
            let flat = tensor.flatten_all()?;
            Grid::spanning(flat.min(0)?.to_scalar()?, flat.max(0)?.to_scalar()?, 16).apply(&tensor)
        }
        WeightKind::Norm | WeightKind::Bias => Ok(tensor),
    }
}

impl Subject for Emulator {
    fn arm(&self) -> Arm {
        let name = self.recipe.as_ref().map_or("float32", |recipe| &recipe.name);
        let precision = self.recipe.as_ref().map_or_else(|| "float32".into(), |recipe| recipe.precision.to_string());
        let detail = Map::from_iter([("precision".to_owned(), Value::from(precision))]);
        Arm { kind: ArmKind::Emulator, name: name.into(), detail }
    }

    fn together(&self) -> usize {
        TOGETHER
    }

    fn run(&self, requests: &[Request<'_>], captures: &mut [Capture]) -> std::result::Result<(), SubjectError> {
        let wiring = Wiring::new(self.interventions.clone());
        run_scopes(&self.decoder, &wiring, &mut &self.grids, requests, captures)
    }
}
