//! The charts of an activation profile, on a page of their own.

use fidelity_trace::{BlockSite, Site};
use fidelity_verdict::{ActivationProfile, SiteActivations};
use serde::Serialize;

use super::{
    axes::{decades, on_decades},
    plot::{Axis, Ink, Mark, Plot},
};
use crate::{ReportError, identity::checkpoint_name};

/// Sites whose magnitudes are drawn by block.
const BY_MAGNITUDE: [BlockSite; 4] = [BlockSite::ResidPost, BlockSite::AttnOut, BlockSite::MlpOut, BlockSite::Act];
/// Sites of which is drawn what bits leave.
const BY_SQNR: [BlockSite; 4] = [BlockSite::ResidPost, BlockSite::MlpOut, BlockSite::Act, BlockSite::MlpNorm];

/// What the template is filled with.
#[derive(Serialize)]
pub(super) struct ActivationsPage {
    checkpoint: String,
    size: String,
    charts: Vec<Figure>,
}

#[derive(Serialize)]
struct Figure {
    title: String,
    svg: String,
}

impl ActivationsPage {
    /// Magnitudes by block and by position, what 8 bits leave, and where attention goes.
    pub(super) fn of(profile: &ActivationProfile) -> Result<Self, ReportError> {
        let mut charts = Vec::new();
        for kind in BY_MAGNITUDE {
            charts.extend(magnitudes(profile, kind)?);
        }
        charts.extend(by_position(profile)?);
        for kind in BY_SQNR {
            charts.extend(sqnr(profile, kind)?);
        }
        charts.extend(sinks(profile)?);
        Ok(Self {
            checkpoint: checkpoint_name(&profile.checkpoint),
            size: format!("{} prompts, {} tokens", profile.prompts.len(), profile.tokens),
            charts,
        })
    }
}

fn of_kind(profile: &ActivationProfile, kind: BlockSite) -> Vec<(u32, &SiteActivations)> {
    let sites = profile.sites.iter().filter_map(|(site, found)| match site {
        Site::Block(block, own) if *own == kind => Some((*block, found)),
        _ => None,
    });
    sites.collect()
}

fn blocks(count: usize) -> Axis {
    let step = count.div_ceil(32).next_power_of_two();
    let ticks = (0..count).step_by(step).map(|block| (block as f64 + 0.5, block.to_string()));
    Axis { caption: "block".into(), range: 0.0..count.max(1) as f64, ticks: ticks.collect() }
}

/// Largest, 99.9th percentile and median magnitude.
fn magnitudes(profile: &ActivationProfile, kind: BlockSite) -> Result<Option<Figure>, ReportError> {
    let sites = of_kind(profile, kind);
    if sites.is_empty() {
        return Ok(None);
    }
    let picks: [fn(&SiteActivations) -> f64; 3] =
        [|site| site.largest.value.abs(), |site| site.magnitude.p999, |site| site.magnitude.p50];
    let values = sites.iter().flat_map(|(_, site)| picks.map(|pick| pick(site)));
    let y = decades("magnitude (log scale)", values, -9..39);
    let inks = [Ink::Value, Ink::Spread, Ink::Noise];
    let line = |(pick, ink): (fn(&SiteActivations) -> f64, Ink)| {
        let points = sites.iter().map(|(block, site)| (f64::from(*block) + 0.5, on_decades(pick(site), &y)));
        Mark::Line(ink, vec![points.collect()])
    };
    let marks = picks.into_iter().zip(inks).map(line).collect();
    let description = format!("Magnitudes of {} by block; sites.csv holds the same numbers.", kind.name());
    let x = blocks(profile.sinks.len().max(sites.len()));
    let svg = Plot { name: "magnitudes", description, height: 240, x, y, marks }.svg()?;
    Ok(Some(Figure {
        title: format!("{}: largest magnitude, 99.9th percentile, median (from above)", kind.name()),
        svg,
    }))
}

/// The largest magnitude of the residual stream by position, over all blocks.
fn by_position(profile: &ActivationProfile) -> Result<Option<Figure>, ReportError> {
    let sites = of_kind(profile, BlockSite::ResidPost);
    let length = sites.iter().map(|(_, site)| site.by_position.len()).max().unwrap_or(0);
    if length == 0 {
        return Ok(None);
    }
    let largest =
        |position: usize| sites.iter().filter_map(|(_, site)| *site.by_position.get(position)?).fold(0.0_f64, f64::max);
    let y = decades("largest magnitude of resid_post (log scale)", (0..length).map(largest), -9..39);
    let points = (0..length).map(|position| (position as f64 + 0.5, on_decades(largest(position), &y))).collect();
    let x = Axis { caption: "position".into(), ..blocks(length) };
    let description =
        "Largest magnitude of the residual stream by position; positions.csv holds it by site.".to_owned();
    let marks = vec![Mark::Dots(Ink::Value, points)];
    let svg = Plot { name: "positions", description, height: 220, x, y, marks }.svg()?;
    Ok(Some(Figure { title: "resid_post by position: largest magnitude over all blocks".to_owned(), svg }))
}

/// Predicted SQNR of the median row.
fn sqnr(profile: &ActivationProfile, kind: BlockSite) -> Result<Option<Figure>, ReportError> {
    let sites = of_kind(profile, kind);
    if sites.is_empty() {
        return Ok(None);
    }
    let top = 120.0;
    let ticks = (0..=6).map(|step| (f64::from(step) * 20.0, (step * 20).to_string()));
    let y = Axis { caption: "SQNR of the median row, dB".into(), range: 0.0..top, ticks: ticks.collect() };
    let line = |pick: fn(&SiteActivations) -> Option<f64>, ink| {
        let points = sites.iter().filter_map(|(block, site)| Some((f64::from(*block) + 0.5, pick(site)?.min(top))));
        Mark::Line(ink, vec![points.collect()])
    };
    let marks =
        vec![line(|site| site.sqnr_8.median_row_db, Ink::Value), line(|site| site.sqnr_16.median_row_db, Ink::Noise)];
    let description = format!("Predicted SQNR of {} by block; sites.csv holds the same numbers.", kind.name());
    let x = blocks(profile.sinks.len().max(sites.len()));
    let svg = Plot { name: "sqnr", description, height: 200, x, y, marks }.svg()?;
    Ok(Some(Figure { title: format!("{}: predicted SQNR at 8 bits (below) and 16 bits (above)", kind.name()), svg }))
}

fn sinks(profile: &ActivationProfile) -> Result<Option<Figure>, ReportError> {
    if profile.sinks.is_empty() {
        return Ok(None);
    }
    let ticks = (0..=4).map(|step| (f64::from(step) * 0.25, format!("{} %", step * 25)));
    let y = Axis { caption: "share of attention".into(), range: 0.0..1.0, ticks: ticks.collect() };
    let line = |pick: fn(&fidelity_verdict::AttentionSink) -> f64, ink| {
        let points = profile.sinks.iter().map(|sink| (f64::from(sink.block) + 0.5, pick(sink).clamp(0.0, 1.0)));
        Mark::Line(ink, vec![points.collect()])
    };
    let marks = vec![line(|sink| sink.mean, Ink::Value), line(|sink| sink.head_mean, Ink::Spread)];
    let description = "Attention to the first token by block; sinks.csv holds the same numbers.".to_owned();
    let x = blocks(profile.sinks.len());
    let svg = Plot { name: "sinks", description, height: 200, x, y, marks }.svg()?;
    Ok(Some(Figure {
        title: "Attention to the first token: mean over heads, and the head with the most".to_owned(),
        svg,
    }))
}
