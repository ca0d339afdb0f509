//! What a recipe does to weights, on their way into the decoder: first what is exact in float (rotation, equalization), then
//! quantisation, then the correction of biases.

use std::{cell::RefCell, collections::BTreeMap};

use candle_core::{Device, Result, Tensor};
use fidelity_references::{Architecture, WeightKind, WeightTransform};
use fidelity_trace::{BlockSite, Site};
use rayon::prelude::*;

use crate::{
    Calibration, Grid, Plan,
    basis::{Basis, each_row, in_residual_stream, is_normed_stream},
    rotation::Rotation,
    values::with_values,
    weights::{is_sparse, quantise_rows},
};

/// A transform of weights under a plan.
pub(crate) struct Preparation<'a> {
    plan: &'a Plan,
    /// Quantises when there is one; without, weights stay exact.
    calibration: Option<&'a Calibration>,
    basis: RefCell<Basis>,
    /// By site that a linear writes: what quantised weights change its mean output by.
    mean_errors: RefCell<BTreeMap<Site, Vec<f64>>>,
}

impl<'a> Preparation<'a> {
    /// `factors` are those of [`equalising_factors`].
    pub(crate) fn new(
        plan: &'a Plan,
        a: &Architecture,
        factors: BTreeMap<Site, Vec<f32>>,
        calibration: Option<&'a Calibration>,
    ) -> Self {
        let rotation = plan.rotated.then(|| Rotation::of_width(a.hidden));
        let basis = Basis { rotation, norm_scales: BTreeMap::new(), factors };
        Self { plan, calibration, basis: RefCell::new(basis), mean_errors: RefCell::default() }
    }

    /// The basis that the decoder computes in, once all weights were seen.
    pub(crate) fn into_basis(self) -> Basis {
        self.basis.into_inner()
    }

    fn linear(&self, site: Site, weight: Tensor) -> Result<Tensor> {
        let basis = self.basis.borrow();
        let matters = self.plan.weights.get(&site) != self.plan.sparse_weights.get(&site);
        let sparse = self.calibration.is_some() && matters && is_sparse(&weight)?;
        let weight = match &basis.rotation {
            Some(rotation) if in_residual_stream(site) => rotated_outputs(&weight, rotation)?,
            Some(rotation) => match reads_normed_stream(site) {
                Some(norm) => rotated_inputs(&weight, rotation, basis.norm_scales.get(&norm).map(Vec::as_slice))?,
                None => weight,
            },
            None => weight,
        };
        let weight = scaled(&weight, basis.factors.get(&site), inputs_of(site).and_then(|it| basis.factors.get(&it)))?;
        let Some(calibration) = self.calibration else { return Ok(weight) };
        let grids = if sparse { &self.plan.sparse_weights } else { &self.plan.weights };
        let Some(grid) = grids.get(&site) else { return Ok(weight) };
        let quantised = quantise_rows(&weight, *grid)?;
        if self.plan.bias_corrected.contains(&site)
            && let Some(means) = reads(site).and_then(|it| calibration.channel_means(it))
        {
            self.mean_errors.borrow_mut().insert(site, mean_error(&weight, &quantised, means)?);
        }
        Ok(quantised)
    }
}

impl WeightTransform for Preparation<'_> {
    fn weight(&self, kind: WeightKind, tensor: Tensor) -> Result<Tensor> {
        match kind {
            WeightKind::Embedding => {
                let tensor = match &self.basis.borrow().rotation {
                    Some(rotation) => rotated_inputs(&tensor, rotation, None)?,
                    None => tensor,
                };
                if self.calibration.is_none() {
                    return Ok(tensor);
                }
                let (min, max) = with_values(&tensor, |values| Ok(crate::calibration::range(values)))?;
                Grid::spanning(min, max, self.plan.embedding_bits).apply(&tensor)
            }
            WeightKind::Linear(site) => self.linear(site, tensor),
            WeightKind::Head => self.linear(Site::Logits, tensor),
            WeightKind::Norm(site) => {
                let mut basis = self.basis.borrow_mut();
                if basis.rotation.is_none() || !is_normed_stream(site) {
                    return Ok(tensor);
                }
                let ones = tensor.ones_like()?;
                basis.norm_scales.insert(site, tensor.to_vec1::<f32>()?);
                Ok(ones)
            }
            WeightKind::Bias(_) => Ok(tensor),
        }
    }

    fn bias(&self, site: Site, bias: Option<Tensor>) -> Result<Option<Tensor>> {
        let basis = self.basis.borrow();
        let bias = match (&basis.rotation, bias) {
            (Some(rotation), Some(bias)) if in_residual_stream(site) => {
                Some(rotated_inputs(&bias.unsqueeze(0)?, rotation, None)?.squeeze(0)?)
            }
            (_, bias) => bias,
        };
        let bias = match (basis.factors.get(&site), bias) {
            (Some(factors), Some(bias)) => Some((bias / Tensor::new(factors.as_slice(), &Device::Cpu)?)?),
            (_, bias) => bias,
        };
        let Some(error) = self.mean_errors.borrow_mut().remove(&site) else { return Ok(bias) };
        let old = bias.map(|bias| bias.to_vec1::<f32>()).transpose()?;
        let corrected: Vec<f32> = error
            .iter()
            .enumerate()
            .map(|(channel, error)| (old.as_ref().map_or(0.0, |old| f64::from(old[channel])) - error) as f32)
            .collect();
        Tensor::new(corrected, &Device::Cpu).map(Some)
    }
}

/// What the linear that writes a site reads.
pub(crate) const fn reads(site: Site) -> Option<Site> {
    use BlockSite::{Act, AttnNorm, AttnOut, Gate, K, MlpNorm, MlpOut, Q, Up, V, Z};
    match site {
        Site::Logits => Some(Site::FinalNorm),
        Site::Block(block, Q | K | V) => Some(Site::Block(block, AttnNorm)),
        Site::Block(block, AttnOut) => Some(Site::Block(block, Z)),
        Site::Block(block, Gate | Up) => Some(Site::Block(block, MlpNorm)),
        Site::Block(block, MlpOut) => Some(Site::Block(block, Act)),
        _ => None,
    }
}

fn reads_normed_stream(site: Site) -> Option<Site> {
    reads(site).filter(|site| is_normed_stream(*site))
}

/// The site whose channels' factors the inputs of the linear that writes `site` make good.
const fn inputs_of(site: Site) -> Option<Site> {
    match site {
        Site::Block(block, BlockSite::AttnOut) => Some(Site::Block(block, BlockSite::Z)),
        Site::Block(block, BlockSite::MlpOut) => Some(Site::Block(block, BlockSite::Act)),
        _ => None,
    }
}

/// Each row times its scales, then rotated: W·diag(scales)·R.
fn rotated_inputs(weight: &Tensor, rotation: &Rotation, scales: Option<&[f32]>) -> Result<Tensor> {
    each_row(weight, weight.dim(1)?, |row| {
        let scaled = |(index, value): (usize, &f32)| f64::from(*value) * scales.map_or(1.0, |s| f64::from(s[index]));
        let mut wide: Vec<f64> = row.iter().enumerate().map(scaled).collect();
        rotation.apply(&mut wide);
        row.iter_mut().zip(wide).for_each(|(value, wide)| *value = wide as f32);
    })
}

/// Rᵀ·W: its columns, as rows, rotated.
fn rotated_outputs(weight: &Tensor, rotation: &Rotation) -> Result<Tensor> {
    rotated_inputs(&weight.t()?.contiguous()?, rotation, None)?.t()?.contiguous()
}

/// Output channels divided by theirs, input channels times theirs.
fn scaled(weight: &Tensor, outputs: Option<&Vec<f32>>, inputs: Option<&Vec<f32>>) -> Result<Tensor> {
    let mut weight = weight.clone();
    if let Some(factors) = outputs {
        weight = weight.broadcast_div(&Tensor::new(factors.as_slice(), &Device::Cpu)?.unsqueeze(1)?)?;
    }
    if let Some(factors) = inputs {
        weight = weight.broadcast_mul(&Tensor::new(factors.as_slice(), &Device::Cpu)?)?;
    }
    Ok(weight)
}

/// (W′ − W)·E[x], by output channel (Nagel et al. 2019).
fn mean_error(weight: &Tensor, quantised: &Tensor, means: &[f64]) -> Result<Vec<f64>> {
    with_values(weight, |weight| {
        with_values(quantised, |quantised| {
            let rows = weight.par_chunks(means.len()).zip(quantised.par_chunks(means.len()));
            let error = |(row, quantised): (&[f32], &[f32])| {
                let terms = row.iter().zip(quantised).zip(means);
                terms.map(|((w, q), mean)| (f64::from(*q) - f64::from(*w)) * mean).sum()
            };
            Ok(rows.map(error).collect())
        })
    })
}

/// What cross-layer equalization divides the channels of v and up by, and so of what stands behind them: √(r₁/r₂), r₁ the
/// largest weight that makes the channel, r₂ the largest that reads it (Nagel et al. 2019). Exact in float, since nothing between
/// them but a product and a weighted sum over positions sees the channel.
pub(crate) struct EqualisingFactors<'a> {
    plan: &'a Plan,
    /// Query heads a kv head serves, and the width of a head.
    heads: (usize, usize),
    largest: RefCell<BTreeMap<Site, Vec<f32>>>,
    factors: RefCell<BTreeMap<Site, Vec<f32>>>,
}

impl<'a> EqualisingFactors<'a> {
    pub(crate) fn new(plan: &'a Plan, a: &Architecture) -> Self {
        let heads = (a.query_heads / a.kv_heads.max(1), a.head_dim);
        Self { plan, heads, largest: RefCell::default(), factors: RefCell::default() }
    }

    pub(crate) fn into_factors(self) -> BTreeMap<Site, Vec<f32>> {
        self.factors.into_inner()
    }

    fn pair(&self, block: u32, read: &[f32], producer: BlockSite, consumed: BlockSite) {
        let Some(made) = self.largest.borrow_mut().remove(&Site::Block(block, producer)) else { return };
        // Query heads of a group read one kv head.
        let group = if producer == BlockSite::V { self.heads } else { (1, 1) };
        let channel = |index: usize| match group {
            (1, _) => index,
            (group, width) => index / (group * width) * width + index % width,
        };
        let mut of_made = vec![0.0_f32; made.len()];
        for (index, read) in read.iter().enumerate() {
            let largest = &mut of_made[channel(index)];
            *largest = largest.max(*read);
        }
        let factor = |(made, read): (&f32, &f32)| {
            let factor = (f64::from(*made) / f64::from(*read)).sqrt() as f32;
            if factor.is_normal() { factor } else { 1.0 }
        };
        let factors: Vec<f32> = made.iter().zip(&of_made).map(factor).collect();
        let behind = (0..read.len()).map(|index| factors[channel(index)]).collect();
        let mut all = self.factors.borrow_mut();
        all.insert(Site::Block(block, producer), factors);
        all.insert(Site::Block(block, consumed), behind);
    }
}

impl WeightTransform for EqualisingFactors<'_> {
    fn weight(&self, kind: WeightKind, tensor: Tensor) -> Result<Tensor> {
        use BlockSite::{Act, AttnOut, MlpOut, Up, V, Z};
        let WeightKind::Linear(Site::Block(block, site)) = kind else { return Ok(tensor) };
        let equalised = self.plan.equalised.contains(&Site::Block(block, site));
        match site {
            V | Up => {
                let largest = largest_by_row(&tensor)?;
                self.largest.borrow_mut().insert(Site::Block(block, site), largest);
            }
            AttnOut if equalised => self.pair(block, &largest_by_row(&tensor.t()?.contiguous()?)?, V, Z),
            MlpOut if equalised => self.pair(block, &largest_by_row(&tensor.t()?.contiguous()?)?, Up, Act),
            _ => {}
        }
        Ok(tensor)
    }
}

fn largest_by_row(weight: &Tensor) -> Result<Vec<f32>> {
    let width = weight.dim(1)?.max(1);
    with_values(weight, |values| {
        let largest = |row: &[f32]| row.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        Ok(values.par_chunks(width).map(largest).collect())
    })
}
