//! What a recipe says of one network.
//!
//! A layer writes in the bits of its mode's third field, else of its first. What stands at a site has the fewest bits of
//! those that write it, hand it on (a cache, a slice) and, where linears alone read it, read it.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_references::{Architecture, NormKind, NormPlacement};
use fidelity_trace::{BlockSite, Site};

use super::{
    commands::Setting,
    error::{Fault, Problem},
    layers::{Kind, Layer, layers},
    names::LayerNames,
    precision::Precision,
    script::{Spanned, Value},
    select::Selection,
};

/// What is computed in float32 under every recipe, for lack of a public description of what compiled graphs do there.
const INNARDS: &str = "what norms, softmax, RoPE and activation functions round inside";

/// Bits of codes in which a host feeds the embedding's rows.
const EMBEDDING_BITS: u32 = 16;

/// Of what hands on what it is given, the embedding's codes among it.
const HANDED_ON: Precision = Precision { writes: EMBEDDING_BITS, ..Precision::DEFAULT };

/// How a weight is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightGrid {
    /// Bits: 4, 8 or 16.
    pub bits: u32,
    /// Inputs that share a step; all inputs of an output channel when absent.
    pub group: Option<usize>,
}

/// What a recipe says of each site and weight of one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Bits of activations by site; a site that is not here is not quantised.
    pub activations: BTreeMap<Site, u32>,
    /// By the site that a linear writes.
    pub weights: BTreeMap<Site, WeightGrid>,
    /// The same for a kernel with more than 90 % zeros.
    pub sparse_weights: BTreeMap<Site, WeightGrid>,
    /// Bits of the embedding's rows.
    pub embedding_bits: u32,
    /// Percentiles in place of minimum and maximum.
    pub clipping: BTreeMap<Site, (f64, f64)>,
    /// The residual stream is rotated.
    pub rotated: bool,
    /// Linears whose input channels are equalised with what produces them, by the site that they write.
    pub equalised: BTreeSet<Site>,
    /// Linears whose mean error is taken off, by the site that they write.
    pub bias_corrected: BTreeSet<Site>,
    /// How many calibration prompts are used at most.
    pub calibration_prompts: Option<usize>,
    /// The modes in use, in data-flow order of first use, for people: `a16_w8`.
    pub precisions: Vec<String>,
    /// What the recipe asks for and is not emulated.
    pub not_emulated: Vec<String>,
    /// What each layer reads, holds and writes, in data-flow order.
    pub(crate) layers: Vec<(Layer, Precision)>,
}

/// What is decided of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decided {
    precision: Precision,
    group: Option<usize>,
    clipping: Option<(f64, f64)>,
    equalised: bool,
    bias_corrected: bool,
}

pub(crate) fn plan(settings: &[Setting], a: &Architecture, names: &LayerNames) -> Result<Plan, Problem> {
    let layers = layers(a);
    let decided = decide(settings, a, &layers, names, false)?;
    let sparse = decide(settings, a, &layers, names, true)?;
    let mut plan = Plan {
        activations: BTreeMap::new(),
        weights: weights(&layers, &decided),
        sparse_weights: weights(&layers, &sparse),
        embedding_bits: EMBEDDING_BITS,
        clipping: BTreeMap::new(),
        rotated: false,
        equalised: BTreeSet::new(),
        bias_corrected: BTreeSet::new(),
        calibration_prompts: None,
        precisions: Vec::new(),
        not_emulated: Vec::new(),
        layers: layers.iter().cloned().zip(decided.iter().map(|decided| decided.precision)).collect(),
    };
    plan.of_the_whole(settings);
    for (layer, decided) in layers.iter().zip(&decided) {
        plan.take(layer, decided);
    }
    plan.caps(&layers, &decided);
    plan.refuse_what_does_not_fit(a);
    plan.not_emulated.push(INNARDS.to_owned());
    Ok(plan)
}

fn decide(
    settings: &[Setting],
    a: &Architecture,
    layers: &[Layer],
    names: &LayerNames,
    sparse: bool,
) -> Result<Vec<Decided>, Problem> {
    let at_first =
        Decided { precision: Precision::DEFAULT, group: None, clipping: None, equalised: false, bias_corrected: false };
    let of = |layer: &Layer| match layer.kind {
        // What only hands on changes nothing until a line says so.
        Kind::Embedding | Kind::KCache | Kind::VCache | Kind::FinalSlice => {
            Decided { precision: HANDED_ON, ..at_first }
        }
        _ => at_first,
    };
    let mut decided: Vec<Decided> = layers.iter().map(of).collect();
    let mut groups: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let all = Spanned { value: Value::Glob("*".to_owned()), span: 0..0 };
    for setting in settings {
        let selection = Selection { architecture: a, layers, names, groups: &groups, sparse };
        let mut set = |selector: Option<&Spanned<Value>>, change: &dyn Fn(&mut Decided)| {
            let meant = selection.of(selector.unwrap_or(&all))?;
            decided.iter_mut().zip(meant).filter(|(_, meant)| *meant).for_each(|(decided, _)| change(decided));
            Ok(())
        };
        match setting {
            Setting::Group { name, layers } => {
                let members = selection.of(layers)?;
                groups.insert(name.clone(), members);
            }
            Setting::Precision { layers: selector, mode, weight_group } => {
                if let Some(group) = weight_group {
                    check_group(group, layers, &selection.of(selector)?)?;
                }
                set(Some(selector), &|decided| {
                    decided.precision = mode.unwrap_or(decided.precision);
                    // A line changes what it says and nothing else.
                    decided.group = weight_group.as_ref().map(|group| group.value).or(decided.group);
                })?;
            }
            Setting::BiasCorrection { on, layers } => set(layers.as_ref(), &|decided| decided.bias_corrected = *on)?,
            Setting::Equalization { on, layers } => set(layers.as_ref(), &|decided| decided.equalised = *on)?,
            Setting::ActivationClipping { on, layers, percentiles } => {
                set(layers.as_ref(), &|decided| decided.clipping = on.then_some(*percentiles))?;
            }
            Setting::Rotation { .. } | Setting::CalibrationPrompts(_) | Setting::NotEmulated(_) => {}
        }
    }
    Ok(decided)
}

fn check_group(group: &Spanned<usize>, layers: &[Layer], meant: &[bool]) -> Result<(), Problem> {
    let meant = layers.iter().zip(meant).filter(|(_, meant)| **meant);
    let linears = meant.filter_map(|(layer, _)| layer.linear.map(|linear| (layer, linear.inputs)));
    match linears.into_iter().find(|(_, inputs)| inputs % group.value != 0) {
        Some((layer, inputs)) => {
            let fault = Fault::Group { group: group.value, inputs, layer: layer.name() };
            Err(fault.at(group.span.clone()))
        }
        None => Ok(()),
    }
}

fn weights(layers: &[Layer], decided: &[Decided]) -> BTreeMap<Site, WeightGrid> {
    let linears = layers.iter().zip(decided).filter(|(layer, _)| layer.linear.is_some());
    linears
        .map(|(layer, decided)| (layer.site, WeightGrid { bits: decided.precision.weights, group: decided.group }))
        .collect()
}

impl Plan {
    fn of_the_whole(&mut self, settings: &[Setting]) {
        for setting in settings {
            match setting {
                Setting::Rotation { on } => self.rotated = *on,
                Setting::CalibrationPrompts(count) => self.calibration_prompts = Some(*count),
                Setting::NotEmulated(what) if !self.not_emulated.contains(what) => self.not_emulated.push(what.clone()),
                _ => {}
            }
        }
    }

    fn take(&mut self, layer: &Layer, decided: &Decided) {
        let Layer { kind, site, .. } = *layer;
        let bits = decided.precision.writes;
        match kind {
            Kind::Embedding => self.embedding_bits = bits,
            _ => {
                let at_site = self.activations.entry(site).or_insert(bits);
                *at_site = (*at_site).min(bits);
                let mode = decided.precision.to_string();
                if decided.precision != HANDED_ON && !self.precisions.contains(&mode) {
                    self.precisions.push(mode);
                }
            }
        }
        if let Some(percentiles) = decided.clipping {
            self.clipping.insert(site, percentiles);
        }
        if decided.equalised && matches!(kind, Kind::OProj | Kind::DownProj) {
            self.equalised.insert(site);
        }
        if decided.bias_corrected && layer.linear.is_some() {
            self.bias_corrected.insert(site);
        }
    }

    /// A linear that reads fewer bits than were written reads those alone.
    fn caps(&mut self, layers: &[Layer], decided: &[Decided]) {
        let mut readers: BTreeMap<Site, BTreeSet<u32>> = BTreeMap::new();
        for (layer, decided) in layers.iter().zip(decided) {
            match layer.linear.map(|linear| linear.reads) {
                Some(Some(site)) => {
                    readers.entry(site).or_default().insert(decided.precision.reads);
                }
                // In a network with norms after the sums, what linears read is the residual stream itself.
                Some(None) if decided.precision.reads == 8 => {
                    self.once("8-bit reads of a 16-bit residual stream", layers)
                }
                _ => {}
            }
        }
        for (site, bits) in readers {
            let Some(at_site) = self.activations.get_mut(&site) else { continue };
            if let Some(fewest) = bits.first().filter(|fewest| **fewest < *at_site) {
                if bits.len() > 1 {
                    let said = format!("reads of {} in different bits (the fewest, {fewest}, are taken)", site.kind());
                    if !self.not_emulated.contains(&said) {
                        self.not_emulated.push(said);
                    }
                }
                *at_site = *fewest;
            }
        }
    }

    fn once(&mut self, what: &str, layers: &[Layer]) {
        let sixteen = |layer: &Layer| {
            let residual = matches!(layer.site, Site::Block(_, BlockSite::ResidPost | BlockSite::MlpNorm));
            residual && self.activations.get(&layer.site) == Some(&16)
        };
        if layers.iter().any(sixteen) && !self.not_emulated.iter().any(|said| said == what) {
            self.not_emulated.push(what.to_owned());
        }
    }

    /// What is exact only in some networks.
    fn refuse_what_does_not_fit(&mut self, a: &Architecture) {
        let rotatable = a.norm == NormKind::Rms && a.norm_placement == NormPlacement::Before && !a.embedding_norm;
        if self.rotated && !rotatable {
            self.rotated = false;
            self.not_emulated.push("quarot (a rotation passes through RMSNorm alone)".to_owned());
        }
        let gated = a.mlp_kind == fidelity_references::MlpKind::Gated;
        let before = self.equalised.len();
        self.equalised.retain(|site| gated || !matches!(site, Site::Block(_, BlockSite::MlpOut)));
        if self.equalised.len() < before {
            self.not_emulated.push("equalization of down_proj (an activation function stands before it)".to_owned());
        }
    }
}
