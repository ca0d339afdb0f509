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

/// The Pearson that decided: of hidden rows the centred one.
pub(crate) fn pearson(result: &ScopeResult) -> Option<&Summary> {
    let site = site(result)?;
    if of_hidden(result) { site.centred_pearson.as_ref() } else { site.pearson.as_ref() }
}

/// The deciding Pearson of one row.
pub(crate) fn row_pearson(result: &ScopeResult, row: &RowResult) -> Option<f64> {
    if of_hidden(result) { row.centred_pearson } else { row.pearson }
}

/// What the deciding Pearson is called.
pub(crate) fn pearson_name(result: &ScopeResult) -> &'static str {
    if of_hidden(result) { "centred Pearson" } else { "Pearson" }
}

/// The deciding Pearson in words.
pub(crate) fn correlation(result: &ScopeResult, pick: impl FnOnce(&Summary) -> f64) -> String {
    site(result).map_or_else(|| ABSENT.to_owned(), |site| site_correlation(site, pearson(result), pick))
}

/// Plain Pearson of a site in words.
pub(crate) fn plain_correlation(result: &ScopeResult, site: Site, pick: impl FnOnce(&Summary) -> f64) -> String {
    let found = result.sites.get(&site);
    found.map_or_else(|| ABSENT.to_owned(), |found| site_correlation(found, found.pearson.as_ref(), pick))
}
