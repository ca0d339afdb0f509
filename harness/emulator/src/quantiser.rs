//! The instrument that quantises activations and counts what lies outside their calibrated ranges.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_references::{Instrument, Part};
use fidelity_trace::{Capture, OutsideRange, Scope, Site};

use crate::{Beyond, Grid, basis::Basis};

/// The grid of a site, and what the calibration saw there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteGrid {
    pub(crate) grid: Grid,
    pub(crate) calibrated: (f32, f32),
}

/// Quantises every site that has a grid, in one pass over its values.
pub(crate) struct Quantiser<'a> {
    grids: &'a BTreeMap<Site, SiteGrid>,
    basis: &'a Basis,
    scope: Option<Scope>,
    seen: BTreeMap<(Scope, Site), Beyond>,
}

impl<'a> Quantiser<'a> {
    pub(crate) fn new(grids: &'a BTreeMap<Site, SiteGrid>, basis: &'a Basis) -> Self {
        Self { grids, basis, scope: None, seen: BTreeMap::new() }
    }

    /// Stores what lay outside, of all prompts computed together, with the first of them.
    pub(crate) fn store(self, captures: &mut [Capture], scopes: &[Scope]) {
        let Some(first) = captures.first_mut() else { return };
        for ((scope, site), beyond) in self.seen.iter().filter(|(_, beyond)| beyond.outside > 0) {
            let (min, max) = self.grids[site].calibrated;
            let (min, max) = (f64::from(min), f64::from(max));
            let excess = (min - f64::from(beyond.lowest)).max(f64::from(beyond.highest) - max).max(0.0);
            let width = max - min;
            let widths = if width > 0.0 { excess / width } else { f64::from(f32::MAX) };
            let outside = OutsideRange { values: beyond.values, outside: beyond.outside, widths };
            first.outside_range.entry(*scope).or_default().insert(*site, outside);
        }
        // Where one pass is both scopes' capture, it is both scopes' count.
        if scopes.contains(&Scope::Base)
            && let Some(counted) = first.outside_range.get(&Scope::Prefill).cloned()
        {
            first.outside_range.entry(Scope::Base).or_insert(counted);
        }
    }
}

impl Instrument for Quantiser<'_> {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        let Some(SiteGrid { grid, calibrated: (min, max) }) = self.grids.get(&site) else { return Ok(tensor) };
        let (quantised, beyond) = grid.apply_within(&tensor, *min, *max)?;
        if let Some(scope) = self.scope {
            let seen = self.seen.entry((scope, site)).or_default();
            *seen = seen.with(beyond);
        }
        Ok(quantised)
    }

    fn begin(&mut self, scope: Option<Scope>) {
        self.scope = scope;
    }

    fn tapped(&self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        self.basis.undo(site, tensor)
    }
}
