//! The instrument that quantises activations and counts what lies outside their calibrated ranges.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_references::{Chunk, Decoder, Instrument, Part};
use fidelity_trace::{Capture, FirstPosition, OutsideRange, Scope, Site};

use crate::{
    Beyond, Grid,
    basis::Basis,
    first_position::{Fed, PrefixRows, Span, is_apart, with_spans},
};

/// The grid of a site, and what the calibration saw there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteGrid {
    pub(crate) grid: Grid,
    pub(crate) calibrated: (f32, f32),
}

/// How position 0 is computed apart from the others.
#[derive(Clone)]
pub(crate) struct First {
    pub(crate) way: FirstPosition,
    /// Its grids, where it is quantised.
    pub(crate) grids: BTreeMap<Site, Grid>,
    /// The float network, where it is not.
    pub(crate) float: Option<Decoder>,
}

/// Quantises every site that has a grid, in one pass over its values.
pub(crate) struct Quantiser<'a> {
    grids: &'a BTreeMap<Site, SiteGrid>,
    basis: &'a Basis,
    first: Option<&'a First>,
    fed: Fed,
    /// What position 0 is in float; an error of computing it comes out at the next site.
    prefix: Result<PrefixRows>,
    scope: Option<Scope>,
    seen: BTreeMap<(Scope, Site), Beyond>,
}

impl<'a> Quantiser<'a> {
    pub(crate) fn new(grids: &'a BTreeMap<Site, SiteGrid>, basis: &'a Basis, first: Option<&'a First>) -> Self {
        let prefix = Ok(PrefixRows::default());
        Self { grids, basis, first, fed: Fed::default(), prefix, scope: None, seen: BTreeMap::new() }
    }

    /// Quantises a tensor and counts what lies outside, if the site has a grid.
    fn quantised(&mut self, site: Site, tensor: Tensor) -> Result<Tensor> {
        let Some(SiteGrid { grid, calibrated: (min, max) }) = self.grids.get(&site) else { return Ok(tensor) };
        let (quantised, beyond) = grid.apply_within(&tensor, *min, *max)?;
        if let Some(scope) = self.scope {
            let seen = self.seen.entry((scope, site)).or_default();
            *seen = seen.with(beyond);
        }
        Ok(quantised)
    }

    /// The same with position 0 apart: the others are quantised without it.
    fn quantised_apart(&mut self, site: Site, tensor: &Tensor, spans: &[Span], first: &First) -> Result<Tensor> {
        let (min, max) = self.grids.get(&site).map_or((0.0, 0.0), |site| site.calibrated);
        let filler = 0.0_f32.max(min).min(max);
        let mut own = Vec::with_capacity(spans.len());
        let others = with_spans(tensor, spans, |_, values| {
            own.push(values.to_vec());
            values.fill(filler);
        })?;
        let others = self.quantised(site, others)?;
        let (grid, prefix) = (first.grids.get(&site), &self.prefix);
        let mut own = own.into_iter();
        with_spans(&others, spans, |span, values| {
            let own = own.next().unwrap_or_default();
            let row = prefix.as_ref().ok().and_then(|rows| rows.row(span.token, site));
            match (row, grid) {
                (Some(row), _) => values.copy_from_slice(row),
                (None, Some(grid)) => values.iter_mut().zip(own).for_each(|(value, x)| *value = grid.nearest(x)),
                (None, None) => values.copy_from_slice(&own),
            }
        })
    }

    /// Stores what lay outside, of all prompts computed together, with the first of them: also where nothing did, so that shares of
    /// all prompts do not depend on which of them were computed together.
    pub(crate) fn store(self, captures: &mut [Capture], scopes: &[Scope]) {
        let Some(first) = captures.first_mut() else { return };
        for ((scope, site), beyond) in &self.seen {
            let (min, max) = self.grids[site].calibrated;
            let (min, max) = (f64::from(min), f64::from(max));
            let excess = (min - f64::from(beyond.lowest)).max(f64::from(beyond.highest) - max).max(0.0);
            let width = max - min;
            let widths = match beyond.outside {
                0 => 0.0,
                _ if width > 0.0 => excess / width,
                _ => f64::from(f32::MAX),
            };
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
    fn feeding(&mut self, chunks: &[Chunk<'_>]) {
        let Some(first) = self.first else { return };
        self.fed = Fed::new(chunks);
        if let (Some(float), Ok(rows)) = (&first.float, &mut self.prefix)
            && let Err(error) = rows.of_tokens(float, self.fed.tokens())
        {
            self.prefix = Err(error);
        }
    }

    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let Some(first) = self.first.filter(|first| is_apart(first.way, site)) else {
            return self.quantised(site, tensor);
        };
        if self.prefix.is_err() {
            return std::mem::replace(&mut self.prefix, Ok(PrefixRows::default())).map(|_| tensor);
        }
        match self.fed.spans(site, part, tensor.dims()) {
            none if none.is_empty() => self.quantised(site, tensor),
            spans => self.quantised_apart(site, &tensor, &spans, first),
        }
    }

    fn begin(&mut self, scope: Option<Scope>) {
        self.scope = scope;
    }

    fn tapped(&self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        self.basis.undo(site, tensor)
    }
}
