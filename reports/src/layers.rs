//! The error of one scope, layer by layer.

use std::collections::BTreeSet;

use fidelity_trace::{BlockSite, Scope, Site};
use fidelity_verdict::{ScopeResult, SiteResult, Verdict};

use crate::numbers::{ABSENT, magnitude};

/// One layer: a block, or a site outside of the blocks.
pub(crate) struct Layer {
    /// `embed`, `final_norm`, `logits`, `pooled` or the block's index.
    pub(crate) name: String,
    /// Residual stream after attention.
    pub(crate) middle: Value,
    /// Residual stream after the block, or the site itself.
    pub(crate) output: Value,
    /// 95th percentile over rows of the output.
    pub(crate) output_p95: Value,
    /// What the block adds of its own.
    pub(crate) local: Value,
    /// The reference's noise at the output.
    pub(crate) noise: Value,
    /// The first bad site, if it is in this layer.
    pub(crate) first_bad: Option<Site>,
}

/// A relative L2 and how it is written.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) number: Option<f64>,
    pub(crate) text: String,
}

impl Value {
    fn of(number: Option<f64>) -> Self {
        Self { number, text: number.map_or_else(|| ABSENT.to_owned(), magnitude) }
    }

    /// A summary of a site; where no row is finite, it says so.
    fn of_site(site: Option<&SiteResult>, pick: impl FnOnce(&fidelity_verdict::Summary) -> f64) -> Self {
        let Some(site) = site else { return Self::of(None) };
        match &site.relative_l2 {
            None if site.non_finite_rows > 0 => Self { number: None, text: "not finite".into() },
            summary => Self::of(summary.as_ref().map(pick)),
        }
    }
}

/// The scope whose layers are worth showing first: the first with layers that is not faithful, or else the first with layers.
pub(crate) fn telling_scope(verdict: &Verdict) -> Option<(Scope, &ScopeResult)> {
    let layered =
        || verdict.scopes.iter().filter(|(_, result)| has_layers(result)).map(|(scope, result)| (*scope, result));
    let unfaithful = |result: &ScopeResult| result.verdict != fidelity_verdict::Outcome::Faithful;
    // The probe does not decide, so it is not what to look at first.
    layered().find(|(scope, result)| unfaithful(result) && *scope != Scope::TbtSelf).or_else(|| layered().next())
}

/// Whether anything but logits was compared.
pub(crate) fn has_layers(result: &ScopeResult) -> bool {
    !result.blocks.is_empty() || result.sites.keys().any(|site| *site != Site::Logits)
}

/// The layers of a scope, as data flows.
pub(crate) fn layers(verdict: &Verdict, result: &ScopeResult) -> Vec<Layer> {
    let blocks: BTreeSet<u32> = result.blocks.iter().map(|block| block.block).chain(blocks_of(result)).collect();
    let blocks = blocks.into_iter().map(|block| block_layer(verdict, result, block));
    let single = |site| result.sites.contains_key(&site).then(|| single_layer(verdict, result, site));
    let ends = [Site::FinalNorm, Site::Logits, Site::Pooled].into_iter().filter_map(single);
    single(Site::Embed).into_iter().chain(blocks).chain(ends).collect()
}

fn blocks_of(result: &ScopeResult) -> impl Iterator<Item = u32> {
    result.sites.keys().chain(&result.first_bad_site).filter_map(|site| site.block())
}

fn block_layer(verdict: &Verdict, result: &ScopeResult, block: u32) -> Layer {
    let site = |kind| result.sites.get(&Site::Block(block, kind));
    let own = result.blocks.iter().find(|own| own.block == block);
    let (middle, post) = (site(BlockSite::ResidMid), site(BlockSite::ResidPost));
    let output = match post {
        None => Value::of(own.and_then(|own| own.cumulative)),
        site => Value::of_site(site, |summary| summary.p50),
    };
    Layer {
        name: block.to_string(),
        middle: Value::of_site(middle, |summary| summary.p50),
        output,
        output_p95: Value::of_site(post, |summary| summary.p95),
        local: Value::of(own.and_then(|own| own.local)),
        noise: Value::of(noise_floor(verdict, Site::Block(block, BlockSite::ResidPost))),
        first_bad: result.first_bad_site.filter(|site| site.block() == Some(block)),
    }
}

fn single_layer(verdict: &Verdict, result: &ScopeResult, site: Site) -> Layer {
    let found = result.sites.get(&site);
    Layer {
        name: site.kind().to_owned(),
        middle: Value::of(None),
        output: Value::of_site(found, |summary| summary.p50),
        output_p95: Value::of_site(found, |summary| summary.p95),
        local: Value::of(None),
        noise: Value::of(noise_floor(verdict, site)),
        first_bad: result.first_bad_site.filter(|bad| *bad == site),
    }
}

/// The reference's own noise at a site, relative L2.
pub(crate) fn noise_floor(verdict: &Verdict, site: Site) -> Option<f64> {
    verdict.noise_floor.get(&site.to_string()).copied()
}
