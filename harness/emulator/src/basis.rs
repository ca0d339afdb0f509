//! In which basis a prepared network computes, against the checkpoint's own: rotated, scaled by channel, or the same.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_trace::{BlockSite, Site};
use rayon::prelude::*;

use crate::{
    rotation::Rotation,
    values::{shaped, with_values},
};

/// What was done to the weights that is exact in float. Norm scales and channel factors are known once the weights were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Basis {
    pub(crate) rotation: Option<Rotation>,
    /// Scales of the norms before rotated linears, which hold them now.
    pub(crate) norm_scales: BTreeMap<Site, Vec<f32>>,
    /// What each channel of a site was divided by.
    pub(crate) factors: BTreeMap<Site, Vec<f32>>,
}

/// Whether what stands at a site is added to the residual stream, or is the stream.
pub(crate) const fn in_residual_stream(site: Site) -> bool {
    use BlockSite::{AttnOut, MlpOut, ResidMid, ResidPost};
    matches!(site, Site::Embed | Site::Block(_, AttnOut | ResidMid | MlpOut | ResidPost))
}

/// Whether a site is what a norm makes of the residual stream.
pub(crate) const fn is_normed_stream(site: Site) -> bool {
    matches!(site, Site::FinalNorm | Site::Block(_, BlockSite::AttnNorm | BlockSite::MlpNorm))
}

impl Basis {
    /// A tensor of the prepared network in the checkpoint's basis.
    pub(crate) fn undo(&self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        if let Some(factors) = self.factors.get(&site) {
            return each_row(tensor, factors.len(), |row| {
                row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
            });
        }
        let Some(rotation) = self.rotation.as_ref().filter(|_| in_residual_stream(site) || is_normed_stream(site))
        else {
            return Ok(tensor.clone());
        };
        let scales = self.norm_scales.get(&site);
        each_row(tensor, tensor.dims().last().copied().unwrap_or(0), |row| {
            let mut wide: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
            rotation.undo(&mut wide);
            row.iter_mut().zip(wide).for_each(|(value, wide)| *value = wide as f32);
            if let Some(scales) = scales {
                row.iter_mut().zip(scales).for_each(|(value, scale)| *value *= scale);
            }
        })
    }
}

/// A tensor whose rows of `width` values were changed by `change`.
pub(crate) fn each_row(tensor: &Tensor, width: usize, change: impl Fn(&mut [f32]) + Sync) -> Result<Tensor> {
    with_values(tensor, |values| {
        let mut changed = values.to_vec();
        changed.par_chunks_mut(width.max(1)).for_each(&change);
        shaped(changed, tensor)
    })
}
