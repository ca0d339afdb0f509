//! A checkpoint calibrated once, of which emulators are made whose recipes differ in bits.

use std::{
    cell::{Ref, RefCell},
    collections::BTreeMap,
};

use fidelity_references::{Checkpoint, Decoder, WeightTransform};
use fidelity_trace::{Emulation, FirstPosition, Site};

use crate::{
    Calibration, CalibrationSet, Emulator, EmulatorError, Grid, Plan, Recipe, WeightGrid,
    basis::Basis,
    calibration::calibrate_prepared,
    emulator::Applied,
    first_position::{OWN_BITS, is_apart},
    preparation::{EqualisingFactors, Preparation},
    quantiser::{First, SiteGrid},
};

/// Decoders of other weights kept at most; what mixes them costs nothing.
const MOST_KEPT: usize = 3;

/// A checkpoint with activation ranges of its float network, in the basis that a plan computes in. Emulators of plans that
/// differ from it in bits alone share the calibration, and every weight that was quantised before.
pub struct Calibrated<'a> {
    checkpoint: &'a Checkpoint,
    set: CalibrationSet,
    plan: Plan,
    factors: BTreeMap<Site, Vec<f32>>,
    basis: Basis,
    calibration: Calibration,
    first: Option<FirstPosition>,
    /// The float network in that basis, where position 0 is computed by it.
    float: Option<Decoder>,
    kept: RefCell<Vec<Kept>>,
}

struct Kept {
    grids: Weights,
    decoder: Decoder,
}

/// What decides quantised weights.
#[derive(Clone, PartialEq)]
struct Weights {
    dense: BTreeMap<Site, WeightGrid>,
    sparse: BTreeMap<Site, WeightGrid>,
    embedding_bits: u32,
}

impl Weights {
    fn of(plan: &Plan) -> Self {
        Self { dense: plan.weights.clone(), sparse: plan.sparse_weights.clone(), embedding_bits: plan.embedding_bits }
    }

    fn alike(&self, other: &Self, site: Site) -> bool {
        self.dense.get(&site) == other.dense.get(&site) && self.sparse.get(&site) == other.sparse.get(&site)
    }
}

impl<'a> Calibrated<'a> {
    /// Runs `set` through the float network of `checkpoint` as `plan` prepares it; `float32` is the checkpoint's own decoder.
    /// `first` sets position 0 apart.
    ///
    /// # Errors
    /// The weights cannot be used, or the network has no position that stands alone.
    pub fn new(
        checkpoint: &'a Checkpoint,
        plan: &Plan,
        float32: &Decoder,
        set: &CalibrationSet,
        first: Option<FirstPosition>,
    ) -> Result<Self, EmulatorError> {
        let a = checkpoint.architecture();
        if first.is_some() && !a.computes(Site::Logits) {
            return Err(EmulatorError::NoFirstPosition);
        }
        let mut plan = plan.clone();
        if let Some(asked) = plan.calibration_prompts.filter(|asked| *asked > set.prompts.len()) {
            plan.not_emulated.push(format!("calibset_size={asked} (the set has {} prompts)", set.prompts.len()));
        }
        let set = set.clone().first(plan.calibration_prompts);
        let factors = match plan.equalised.is_empty() {
            true => BTreeMap::new(),
            false => {
                let factors = EqualisingFactors::new(&plan, a);
                seen_by(checkpoint, &factors)?;
                factors.into_factors()
            }
        };
        let exact = plan.rotated || !factors.is_empty();
        let (prepared, basis) = match exact {
            // What the grids are for is the network as it will compute, before it is quantised.
            true => {
                let preparation = Preparation::new(&plan, a, factors.clone(), None);
                let prepared = checkpoint.transformed_decoder(&preparation)?;
                (prepared, preparation.into_basis())
            }
            false => (float32.clone(), Basis::default()),
        };
        let calibration =
            calibrate_prepared(&prepared, &set, &plan, &basis, first).map_err(EmulatorError::Calibration)?;
        let float = Some(prepared).filter(|_| first == Some(FirstPosition::Prefix));
        let kept = RefCell::new(Vec::new());
        Ok(Self { checkpoint, set, plan, factors, basis, calibration, first, float, kept })
    }

    /// Whether a plan computes in the basis and needs the numbers that were calibrated.
    #[must_use]
    pub fn fits(&self, plan: &Plan) -> bool {
        let own = &self.plan;
        plan.rotated == own.rotated
            && plan.equalised == own.equalised
            && plan.clipping == own.clipping
            && plan.bias_corrected == own.bias_corrected
            && plan.calibration_prompts == own.calibration_prompts
    }

    /// The emulator of `recipe`, planned for the checkpoint.
    ///
    /// # Errors
    /// The plan does not fit, a weight cannot be used, or a range is not finite.
    pub fn emulator(&self, recipe: &Recipe, plan: &Plan) -> Result<Emulator, EmulatorError> {
        if !self.fits(plan) {
            return Err(EmulatorError::OtherCalibration);
        }
        let grids = self.grids(plan)?;
        let decoder = self.decoder(plan)?;
        let mut not_emulated = plan.not_emulated.clone();
        not_emulated.extend(self.plan.not_emulated.iter().filter(|said| said.starts_with("calibset_size")).cloned());
        let applied = Applied {
            name: recipe.name.clone(),
            precision: plan.precisions.join(", "),
            emulation: Emulation::Quantisation {
                recipe: recipe.name.clone(),
                recipe_sha256: recipe.sha256.clone(),
                calibration: self.set.describe(),
                ranges_sha256: self.calibration.sha256(),
                not_emulated,
            },
        };
        let first = self.first.map(|way| self.first_position(way, plan)).transpose()?;
        Ok(Emulator::of_parts(decoder, Some(applied), grids, self.basis.clone(), first))
    }

    fn first_position(&self, way: FirstPosition, plan: &Plan) -> Result<First, EmulatorError> {
        let mut grids = BTreeMap::new();
        for site in plan.activations.keys().filter(|site| way != FirstPosition::Prefix && is_apart(way, **site)) {
            let (min, max) = finite(*site, self.calibration.first_range(*site))?;
            grids.insert(*site, Grid::spanning(min, max, OWN_BITS));
        }
        Ok(First { way, grids, float: self.float.clone() })
    }

    fn grids(&self, plan: &Plan) -> Result<BTreeMap<Site, SiteGrid>, EmulatorError> {
        let grid = |(site, bits): (&Site, &u32)| {
            let calibrated = finite(*site, self.calibration.range(*site))?;
            let (min, max) = self.calibration.clipped_range(*site, plan).unwrap_or(calibrated);
            Ok((*site, SiteGrid { grid: Grid::spanning(min, max, *bits), calibrated }))
        };
        plan.activations.iter().map(grid).collect()
    }

    /// The decoder of a plan's weights, mixed of those that are kept where they have them all.
    fn decoder(&self, plan: &Plan) -> Result<Decoder, EmulatorError> {
        let wanted = Weights::of(plan);
        if let Some(mixed) = self.mixed(&wanted)? {
            return Ok(mixed);
        }
        let preparation =
            Preparation::new(plan, self.checkpoint.architecture(), self.factors.clone(), Some(&self.calibration));
        let decoder = self.checkpoint.transformed_decoder(&preparation)?;
        let mut kept = self.kept.borrow_mut();
        if kept.len() == MOST_KEPT {
            kept.pop();
        }
        kept.push(Kept { grids: wanted, decoder: decoder.clone() });
        Ok(decoder)
    }

    fn mixed(&self, wanted: &Weights) -> Result<Option<Decoder>, EmulatorError> {
        let kept: Ref<'_, Vec<Kept>> = self.kept.borrow();
        let Some(base) = kept.iter().position(|kept| kept.grids.embedding_bits == wanted.embedding_bits) else {
            return Ok(None);
        };
        let of_site = |site: Site| {
            let order = std::iter::once(base).chain(0..kept.len());
            order.into_iter().find(|index| kept[*index].grids.alike(wanted, site))
        };
        let sites: Option<BTreeMap<Site, usize>> =
            wanted.dense.keys().map(|site| Some((*site, of_site(*site)?))).collect();
        let Some(sites) = sites else { return Ok(None) };
        let mut decoder = kept[base].decoder.clone();
        for index in (0..kept.len()).filter(|index| *index != base) {
            if sites.values().any(|of| *of == index) {
                let chosen = |site: Site| sites.get(&site) == Some(&index);
                decoder = decoder.with_linears_of(&kept[index].decoder, &chosen).map_err(EmulatorError::Calibration)?;
            }
        }
        Ok(Some(decoder))
    }
}

/// Reads all weights, for what `transform` learns of them.
pub(crate) fn seen_by(checkpoint: &Checkpoint, transform: &dyn WeightTransform) -> Result<(), EmulatorError> {
    checkpoint.transformed_decoder(transform).map(drop).map_err(EmulatorError::from)
}

fn finite(site: Site, range: Option<(f32, f32)>) -> Result<(f32, f32), EmulatorError> {
    range.filter(|(min, max)| min.is_finite() && max.is_finite()).ok_or_else(|| {
        let found = range.map_or_else(|| "none".to_owned(), |(min, max)| format!("{min}..{max}"));
        EmulatorError::Range { site, found }
    })
}
