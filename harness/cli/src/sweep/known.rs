//! What is known of a checkpoint, and of a recipe on it.

use std::path::Path;

use fidelity_device::{audit::logit_shards, hef::Hef};
use fidelity_diagnose::profile;
use fidelity_emulator::Plan;
use fidelity_references::{Checkpoint, WeightKind};
use fidelity_trace::{BlockSite, Site};
use fidelity_verdict::{ActivationProfile, Covariate, Covariates, SiteActivations};

use crate::{error::CliError, inputs::Inputs, progress::Progress};

/// Covariates of the shape, and of the activations on the inputs' prompts.
pub(crate) fn of_checkpoint(inputs: &Inputs, profiled: bool, progress: &Progress) -> Result<Covariates, CliError> {
    let mut known = shape(&inputs.checkpoint);
    if profiled {
        let parameters = std::cell::Cell::new(0_usize);
        let tied = inputs.checkpoint.architecture().tied_head;
        let decoder = inputs.checkpoint.decoder(&|kind, tensor| {
            // A head that is the embedding counts once.
            if !(tied && matches!(kind, WeightKind::Head)) {
                parameters.set(parameters.get() + tensor.elem_count());
            }
            Ok(tensor)
        })?;
        let bar = progress.bar("profiling", inputs.prompts.len());
        let profile = profile(&inputs.checkpoint, &decoder, &inputs.prompts, &|done| bar.set_position(done as u64));
        bar.finish_and_clear();
        let profile = profile.map_err(|source| CliError::Compute { what: "the profile", source })?;
        known.extend(activations(&profile));
        known.insert(Covariate::Parameters, parameters.get() as f64);
    }
    known.retain(|_, value| value.is_finite());
    Ok(known)
}

fn shape(checkpoint: &Checkpoint) -> Covariates {
    let a = checkpoint.architecture();
    let count = |value: usize| value as f64;
    Covariates::from([
        (Covariate::Hidden, count(a.hidden)),
        (Covariate::Layers, count(a.blocks)),
        (Covariate::Heads, count(a.query_heads)),
        (Covariate::KvHeads, count(a.kv_heads)),
        (Covariate::NRep, count(a.query_heads / a.kv_heads.max(1))),
        (Covariate::HeadDim, count(a.head_dim)),
        (Covariate::Vocabulary, count(a.vocabulary)),
        (Covariate::MlpWidth, count(a.mlp)),
        (Covariate::Tied, f64::from(a.tied_head)),
    ])
}

fn activations(profile: &ActivationProfile) -> Covariates {
    let of = |kind: BlockSite, value: fn(&SiteActivations) -> Option<f64>| {
        let sites = profile.sites.iter().filter(|(site, _)| matches!(site, Site::Block(_, own) if *own == kind));
        sites.filter_map(|(_, found)| value(found)).filter(|value| value.is_finite()).reduce(f64::max)
    };
    let found = [
        (
            Covariate::MassiveRatio,
            of(BlockSite::ResidPost, |site| {
                (site.magnitude.p50 > 0.0).then(|| site.largest.value.abs() / site.magnitude.p50)
            }),
        ),
        (Covariate::ResidualMax, of(BlockSite::ResidPost, |site| Some(site.largest.value.abs()))),
        (Covariate::ResidualKurtosis, of(BlockSite::ResidPost, |site| site.kurtosis)),
        (Covariate::SwigluRange, of(BlockSite::Act, |site| Some(site.max - site.min))),
    ];
    found.into_iter().filter_map(|(covariate, value)| Some((covariate, value?))).collect()
}

/// What a compiled model of the checkpoint says of it, where the file is at hand and can be read.
pub(crate) fn of_compiled(hef: &Path) -> Covariates {
    let read = hef.is_file().then(|| Hef::open(hef).ok()).flatten();
    let shards = read.and_then(|hef| logit_shards(hef.description()));
    shards.map(|shards| (Covariate::LmHeadShards, shards as f64)).into_iter().collect()
}

/// What a recipe does to the checkpoint.
pub(crate) fn of_recipe(plan: &Plan) -> Covariates {
    let activations = |kind: BlockSite| {
        let sites = plan.activations.iter().filter(|(site, _)| matches!(site, Site::Block(_, own) if *own == kind));
        sites.map(|(_, bits)| f64::from(*bits)).reduce(f64::min)
    };
    let blocks = || plan.weights.iter().filter(|(site, _)| matches!(site, Site::Block(..))).map(|(_, grid)| grid);
    let grouped = blocks().filter(|grid| grid.group.is_some()).count();
    let found = [
        (Covariate::ResidualBits, activations(BlockSite::ResidPost)),
        (Covariate::SwigluBits, activations(BlockSite::Act)),
        (Covariate::WeightBits, blocks().map(|grid| f64::from(grid.bits)).reduce(f64::min)),
        (Covariate::HeadBits, plan.weights.get(&Site::Logits).map(|grid| f64::from(grid.bits))),
        (Covariate::GroupedWeights, (blocks().count() > 0).then(|| grouped as f64 / blocks().count() as f64)),
        (Covariate::Rotated, Some(f64::from(plan.rotated))),
    ];
    found.into_iter().filter_map(|(covariate, value)| Some((covariate, value?))).collect()
}
