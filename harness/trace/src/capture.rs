//! What one arm computed for one prompt, in memory.

use std::collections::BTreeMap;

use crate::{OutsideRange, Scope, Site, Taps};

/// A tensor whose first axis is the row.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Extents, rows first.
    pub shape: Vec<usize>,
    /// Row-major values.
    pub values: Vec<f32>,
}

impl Tensor {
    /// How many rows it holds.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Values in one row.
    #[must_use]
    pub fn row_len(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Row `index`, flattened.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        let width = self.row_len();
        &self.values[index * width..(index + 1) * width]
    }
}

/// The rows about to be captured: one entry a row.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Position of each row in the token sequence.
    pub positions: &'a [u32],
    /// Token fed at each row.
    pub token_ids: &'a [u32],
}

/// Everything captured in one scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScopeCapture {
    /// Position of each row in the token sequence.
    pub positions: Vec<u32>,
    /// Token fed at each row.
    pub token_ids: Vec<u32>,
    /// Tensors by site; the first axis of each has one entry a row, but of a site with one row a prompt just one.
    pub sites: BTreeMap<Site, Tensor>,
    /// max |Δ| over the vocabulary between these logits and the same in float64, per row.
    pub logits_noise: Option<Vec<f32>>,
}

/// Collects what a [`crate::Subject`] computes for one prompt.
#[derive(Clone, Debug)]
pub struct Capture {
    taps: Taps,
    /// By scope, in the order scopes run.
    pub scopes: BTreeMap<Scope, ScopeCapture>,
    /// The arm's own greedy ids.
    pub generated: Option<Vec<u32>>,
    /// Relative L2 distance of float32 from float64, the worst row of each site.
    pub noise_floor: BTreeMap<Site, f64>,
    /// Values outside their calibrated ranges, as [`crate::PromptRecord::outside_range`] says.
    pub outside_range: BTreeMap<Scope, BTreeMap<Site, OutsideRange>>,
}

impl Capture {
    /// An empty capture that keeps the sites of `taps`.
    #[must_use]
    pub fn new(taps: Taps) -> Self {
        Self {
            taps,
            scopes: BTreeMap::new(),
            generated: None,
            noise_floor: BTreeMap::new(),
            outside_range: BTreeMap::new(),
        }
    }

    /// Whether tensors of this site are kept; a subject need not hand over the others.
    #[must_use]
    pub fn wants(&self, site: Site) -> bool {
        self.taps.includes(site)
    }

    /// Appends rows to a scope. Call once per chunk, before its tensors.
    pub fn rows(&mut self, scope: Scope, rows: Rows<'_>) {
        let captured = self.scopes.entry(scope).or_default();
        captured.positions.extend_from_slice(rows.positions);
        captured.token_ids.extend_from_slice(rows.token_ids);
    }

    /// Appends a chunk of a site's values; `shape` has the chunk's rows first and the same tail in every chunk.
    ///
    /// # Panics
    /// When `values` does not fill `shape`, or the tail changes between chunks: a fault of the subject.
    pub fn tensor(&mut self, scope: Scope, site: Site, shape: &[usize], values: &[f32]) {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{scope}/{site}: values do not fill the shape");
        let sites = &mut self.scopes.entry(scope).or_default().sites;
        match sites.get_mut(&site) {
            Some(tensor) => {
                assert_eq!(tensor.shape[1..], shape[1..], "{scope}/{site}: the shape of a row changed");
                tensor.shape[0] += shape[0];
                tensor.values.extend_from_slice(values);
            }
            None => {
                sites.insert(site, Tensor { shape: shape.to_vec(), values: values.to_vec() });
            }
        }
    }

    /// Takes a copy of one scope's capture as another's: for arms that compute both in one pass.
    pub fn alias(&mut self, from: Scope, to: Scope) {
        if let Some(captured) = self.scopes.get(&from).cloned() {
            self.scopes.insert(to, captured);
        }
    }
}
