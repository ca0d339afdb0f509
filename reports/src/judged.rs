//! What a scope was judged by: logits, or the hidden rows of an encoder, of which there are other numbers to show.

use fidelity_trace::Site;
use fidelity_verdict::{RowResult, ScopeResult, SiteResult, Summary, Verdict};

use crate::numbers::{ABSENT, site_correlation};

/// Whether hidden rows were judged, so that nothing about logits is to be shown.
pub(crate) fn is_encoder(verdict: &Verdict) -> bool {
    verdict.scopes.values().any(of_hidden)
}

pub(crate) fn of_hidden(result: &ScopeResult) -> bool {
    result.judged_site != Site::Logits
}

/// The site that was judged.
pub(crate) fn site(result: &ScopeResult) -> Option<&SiteResult> {
    result.sites.get(&result.judged_site)
}

/// The similarity that decided: Pearson of logits, centred cosine of hidden rows.
pub(crate) fn similarity(result: &ScopeResult) -> Option<&Summary> {
    let site = site(result)?;
    if of_hidden(result) { site.centred_cosine.as_ref() } else { site.pearson.as_ref() }
}

/// The deciding similarity of one row.
pub(crate) fn row_similarity(result: &ScopeResult, row: &RowResult) -> Option<f64> {
    if of_hidden(result) { row.centred_cosine } else { row.pearson }
}

/// What the deciding similarity is called.
pub(crate) fn similarity_name(result: &ScopeResult) -> &'static str {
    if of_hidden(result) { "centred cosine" } else { "Pearson" }
}

/// The deciding similarity in words.
pub(crate) fn correlation(result: &ScopeResult, pick: impl FnOnce(&Summary) -> f64) -> String {
    site(result).map_or_else(|| ABSENT.to_owned(), |site| site_correlation(site, similarity(result), pick))
}

/// Plain cosine of a site in words.
pub(crate) fn plain_cosine(result: &ScopeResult, site: Site, pick: impl FnOnce(&Summary) -> f64) -> String {
    let found = result.sites.get(&site);
    found.map_or_else(|| ABSENT.to_owned(), |found| site_correlation(found, found.cosine.as_ref(), pick))
}
