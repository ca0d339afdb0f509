//! One prompt of two traces: match the rows, measure them, forget the tensors.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_trace::{BlockSite, Network, PromptTrace, Scope, ScopeTrace, Site, Tensor};
use fidelity_verdict::Agreement;

use crate::{
    agreement::{self, Grid},
    local::local_errors,
    logits::{self, LogSoftmax, LogitsRow},
    matching::{Dependence, Matching, Pair, match_rows},
    row::{self, Measured, RowMetrics},
};

/// What measuring a prompt needs to know of the two traces' manifests.
#[derive(Clone, Copy, Debug)]
pub struct PromptSettings<'a> {
    /// The reference's noise floor, relative L2 by site.
    pub noise_floor: &'a BTreeMap<String, f64>,
    /// The step of the arm's logit grid, one entry a shard.
    pub logits_step: Option<&'a [f64]>,
    /// What kind of network the reference says it is.
    pub network: Network,
}

/// The measurements of one prompt, a few numbers a row. The default is a prompt that was not computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptComparison {
    pub(crate) scopes: BTreeMap<Scope, ScopeComparison>,
}

/// The measurements of one scope of one prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScopeComparison {
    /// The arm holds this scope.
    pub(crate) in_device: bool,
    /// Positions of the reference whose judged rows the arm does not have.
    pub(crate) rows_missing: usize,
    /// Positions at which the two were fed different tokens.
    pub(crate) rows_other_token: usize,
    /// Positions of the arm that the reference does not have.
    pub(crate) rows_extra: usize,
    /// Compared rows by site, in ascending order of position.
    pub(crate) sites: BTreeMap<Site, Vec<SiteRow>>,
    /// What is measured on logits only, row for row with `sites[Logits]`.
    pub(crate) logits: Vec<LogitsRow>,
    /// Centred cosine of an encoder's judged rows, row for row with `sites[FinalNorm]`; absent where not defined.
    pub(crate) centred: Vec<Option<f64>>,
    /// Rows not compared because the reference is not finite there, by site.
    pub(crate) reference_not_finite: BTreeMap<Site, usize>,
    /// Sites that only the reference holds.
    pub(crate) sites_missing: BTreeSet<Site>,
    /// Sites whose rows have another shape in the arm, and how they differ.
    pub(crate) incomparable: BTreeMap<Site, String>,
    /// Local errors by block.
    pub(crate) local: BTreeMap<u32, Vec<f64>>,
}

/// One compared row of one site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SiteRow {
    /// Position in the token sequence.
    pub(crate) position: u32,
    /// Token fed there.
    pub(crate) token_id: u32,
    /// Absent when the arm's row is not finite.
    pub(crate) metrics: Option<RowMetrics>,
}

/// Compares one prompt of two traces.
///
/// Rows meet by scope and position; a position fed different tokens is not compared. `local` holds, in scope `base`, the
/// reference's `blocks.i.resid_post` computed from the arm's own input of block i.
///
/// # Panics
/// When a tensor holds fewer rows than its scope has positions; reading a stored trace refuses such a file.
#[must_use]
pub fn compare_prompt(
    reference: &PromptTrace,
    device: &PromptTrace,
    local: Option<&PromptTrace>,
    settings: &PromptSettings<'_>,
) -> PromptComparison {
    let both: BTreeSet<Scope> = reference.scopes.keys().chain(device.scopes.keys()).copied().collect();
    let with_tensors = both.into_iter().filter(|scope| *scope != Scope::TbtFree);
    let scopes = with_tensors.map(|scope| {
        let local = local.filter(|_| scope == Scope::Base).and_then(|local| local.scopes.get(&scope));
        (scope, compare_scope(scope, [reference, device].map(|prompt| prompt.scopes.get(&scope)), local, settings))
    });
    PromptComparison { scopes: scopes.collect() }
}

fn compare_scope(
    scope: Scope,
    [reference, device]: [Option<&ScopeTrace>; 2],
    local: Option<&ScopeTrace>,
    settings: &PromptSettings<'_>,
) -> ScopeComparison {
    let absent = ScopeTrace::default();
    let (in_device, reference, device) = (device.is_some(), reference.unwrap_or(&absent), device.unwrap_or(&absent));
    let dependence = match (settings.network, scope) {
        (Network::Encoder, _) => Dependence::All,
        (Network::Decoder, Scope::TbtSelf) => Dependence::Own,
        (Network::Decoder, _) => Dependence::Earlier,
    };
    let Matching { pairs, missing, other_token, extra } = match_rows(reference, device, dependence);
    let judged = settings.network.judged_site();
    let mut comparison = ScopeComparison {
        in_device,
        rows_missing: missing,
        rows_other_token: other_token,
        rows_extra: extra,
        local: local.map(|local| local_errors(device, local, &pairs)).unwrap_or_default(),
        ..ScopeComparison::default()
    };
    for (site, expected) in &reference.sites {
        match device.sites.get(site).map(|found| (found, shapes_differ(*site, expected, found))) {
            None => {
                comparison.sites_missing.insert(*site);
            }
            Some((_, Some(difference))) => {
                comparison.incomparable.insert(*site, difference);
            }
            Some((found, None)) => {
                let of_prompt = site.is_per_prompt().then(|| pairs.last().map(of_whole_prompt)).map(Vec::from_iter);
                let rows = comparison.measure_site(*site, expected, found, of_prompt.as_ref().unwrap_or(&pairs));
                if *site == Site::FinalNorm && *site == judged {
                    comparison.centred = centred(expected, found, &rows);
                }
                if *site == Site::Logits {
                    let noise = Noise { by_row: reference.logits_noise.as_deref(), floor: settings.noise_floor };
                    let row = |row: &_| logits_row(expected, found, row, noise, Grid::new(settings.logits_step));
                    comparison.logits = rows.iter().map(row).collect();
                }
            }
        }
    }
    if reference.sites.contains_key(&judged) && !comparison.sites.contains_key(&judged) {
        comparison.rows_missing += pairs.len();
    }
    comparison
}

impl ScopeComparison {
    /// Stores the rows of a site and returns them with their pairs.
    fn measure_site<'p>(
        &mut self,
        site: Site,
        reference: &Tensor,
        device: &Tensor,
        pairs: &'p [Pair],
    ) -> Vec<(&'p Pair, Option<RowMetrics>)> {
        let mut rows = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match row::measure(reference.row(pair.reference), device.row(pair.device)) {
                Measured::ReferenceNotFinite => *self.reference_not_finite.entry(site).or_insert(0) += 1,
                Measured::DeviceNotFinite => rows.push((pair, None)),
                Measured::Finite(metrics) => rows.push((pair, Some(metrics))),
            }
        }
        let kept = rows.iter().map(|(pair, metrics)| SiteRow {
            position: pair.position,
            token_id: pair.token_id,
            metrics: *metrics,
        });
        self.sites.insert(site, kept.collect());
        rows
    }
}

/// The one row that a prompt has of a site; it stands at the prompt's last position.
fn of_whole_prompt(last: &Pair) -> Pair {
    Pair { reference: 0, device: 0, next_token: None, ..*last }
}

/// Cosine of each row less the reference's mean row: what all rows of a prompt have in common says nothing about any of them,
/// and in an encoder it can be most of a row.
fn centred(reference: &Tensor, device: &Tensor, rows: &[(&Pair, Option<RowMetrics>)]) -> Vec<Option<f64>> {
    let centre = row::mean_row((0..reference.rows()).map(|index| reference.row(index)), reference.row_len());
    let of_row = |(pair, metrics): &(&Pair, Option<RowMetrics>)| {
        metrics.and_then(|_| row::centred_cosine(reference.row(pair.reference), device.row(pair.device), &centre))
    };
    rows.iter().map(of_row).collect()
}

/// How the rows of a site differ in shape between the arms, if they do. Rows are never trimmed to fit.
fn shapes_differ(site: Site, reference: &Tensor, device: &Tensor) -> Option<String> {
    let (expected, found) = (reference.row_len(), device.row_len());
    if expected != found {
        return Some(format!("the arm has {found} values a row, the reference {expected}"));
    }
    if expected == 0 {
        return Some("the rows hold no values".to_owned());
    }
    // A flat row may be the same heads and dimensions laid side by side; one with keys last may be another width.
    let keys_last = matches!(site, Site::Block(_, BlockSite::Scores | BlockSite::Pattern));
    let differs = keys_last && reference.shape.last() != device.shape.last();
    differs.then(|| {
        format!("a row of the arm has shape {:?}, of the reference {:?}", &device.shape[1..], &reference.shape[1..])
    })
}

/// What is known of the reference's own error in its logits.
#[derive(Clone, Copy)]
struct Noise<'a> {
    by_row: Option<&'a [f32]>,
    floor: &'a BTreeMap<String, f64>,
}

impl Noise<'_> {
    /// The error of one logit in a row: measured there, or else the noise floor × ‖row‖₂ / √V (the floor being relative
    /// L2, this is the root mean square error of a logit), or else 0.
    fn at(self, index: usize, row: &[f32]) -> f64 {
        let measured = self.by_row.and_then(|rows| rows.get(index)).copied().map(f64::from);
        measured.filter(|noise| noise.is_finite()).unwrap_or_else(|| {
            let floor = self.floor.get(Site::Logits.kind()).copied().unwrap_or(0.0);
            floor * row::norm(row) / (row.len() as f64).sqrt()
        })
    }
}

fn logits_row(
    reference: &Tensor,
    device: &Tensor,
    (pair, metrics): &(&Pair, Option<RowMetrics>),
    noise: Noise<'_>,
    grid: Grid<'_>,
) -> LogitsRow {
    let (expected, found) = (reference.row(pair.reference), device.row(pair.device));
    // The choice in a constant row is the lowest id, whatever the reference wanted: no agreement.
    let chooses = metrics.is_some_and(|row| !row.constant);
    let (top1, top5) = if chooses {
        let noise = noise.at(pair.reference, expected);
        let grid = grid.if_it_holds(found);
        (agreement::top1(expected, found, noise, grid), agreement::top5(expected, found, grid))
    } else {
        (Agreement::Flip, Agreement::Flip)
    };
    let ours = LogSoftmax::of(expected);
    let its = metrics.map(|_| LogSoftmax::of(found));
    LogitsRow {
        top1,
        top5,
        reference_choice: logits::id(logits::choice(expected)),
        metrics: its.as_ref().map(|its| logits::measure(&ours, its, pair.next_token)),
        reference_top5: ours.top5(),
        device_top5: its.as_ref().map(LogSoftmax::top5).unwrap_or_default(),
    }
}
