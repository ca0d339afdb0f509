//! The axes that the charts of one scope share.

use std::{collections::BTreeSet, ops::Range};

use fidelity_trace::{BlockSite, Site};
use fidelity_verdict::ScopeResult;

use super::plot::Axis;
use crate::judged;

/// Most labels that fit under a chart.
const MOST_LABELS: usize = 32;

/// The positions of a scope, one column each, so that charts and heat map line up.
pub(super) struct Columns {
    /// Ascending.
    pub(super) positions: Vec<u32>,
}

impl Columns {
    pub(super) fn of(result: &ScopeResult) -> Self {
        let rows = result.rows.iter().map(|row| row.position);
        let positions: BTreeSet<u32> = result.profile.positions.iter().copied().chain(rows).collect();
        Self { positions: positions.into_iter().collect() }
    }

    /// The middle of a position's column.
    pub(super) fn middle(&self, position: u32) -> f64 {
        let (Ok(index) | Err(index)) = self.positions.binary_search(&position);
        index as f64 + 0.5
    }

    pub(super) fn axis(&self) -> Axis {
        let step = step(self.positions.len());
        let ticks = self.positions.iter().step_by(step).map(|at| (self.middle(*at), at.to_string()));
        Axis { caption: "position".into(), range: 0.0..self.positions.len() as f64, ticks: ticks.collect() }
    }
}

/// Every how many columns one is labelled: a power of two.
fn step(columns: usize) -> usize {
    columns.div_ceil(MOST_LABELS).next_power_of_two()
}

/// The network from left to right: embed, a unit a block, final_norm, logits or an encoder's pooled row.
pub(super) struct Network {
    blocks: u32,
    /// What comes out, and what it is called.
    last: (Site, &'static str),
}

impl Network {
    pub(super) fn of(result: &ScopeResult) -> Self {
        let sites = result.sites.keys().filter_map(|site| site.block());
        let blocks = result.blocks.iter().map(|block| block.block);
        let last = if judged::of_hidden(result) { (Site::Pooled, "pooled") } else { (Site::Logits, "logits") };
        Self { blocks: sites.chain(blocks).max().map_or(0, |last| last + 1), last }
    }

    /// Where a site is, later sites further to the right.
    pub(super) fn at(&self, site: Site) -> f64 {
        let end = self.margin() + f64::from(self.blocks);
        match site {
            Site::Embed => self.margin() * 0.5,
            Site::Block(block, kind) => self.margin() + f64::from(block) + share(kind),
            Site::FinalNorm => end + self.margin() * 0.5,
            Site::Logits | Site::Pooled => end + self.margin() * 1.5,
        }
    }

    /// Where a block begins and ends.
    pub(super) fn across(&self, block: u32) -> [f64; 2] {
        [0.0, 1.0].map(|share| self.margin() + f64::from(block) + share)
    }

    /// Room for a site outside of the blocks: wide enough for its name.
    fn margin(&self) -> f64 {
        (f64::from(self.blocks) * 0.09).max(1.0)
    }

    pub(super) fn axis(&self) -> Axis {
        let blocks = (0..self.blocks).step_by(step(self.blocks as usize));
        let blocks = blocks.map(|block| (self.margin() + f64::from(block) + 0.5, block.to_string()));
        let end = |site, name: &str| (self.at(site), name.to_owned());
        let ends = [end(Site::FinalNorm, "norm"), end(self.last.0, self.last.1)];
        Axis {
            caption: "block".into(),
            range: 0.0..self.margin() * 3.0 + f64::from(self.blocks),
            ticks: std::iter::once(end(Site::Embed, "embed")).chain(blocks).chain(ends).collect(),
        }
    }
}

/// How far through its block a site is: the residual stream leaves at the right edge.
fn share(kind: BlockSite) -> f64 {
    let index = BlockSite::ALL.iter().position(|site| *site == kind).unwrap_or(0);
    (index as f64 + 0.5) / BlockSite::ALL.len() as f64
}

/// A logarithmic axis in whole decades, kept between two bounds.
pub(super) fn decades(caption: &str, values: impl Iterator<Item = f64>, within: Range<i32>) -> Axis {
    let logarithms: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10).collect();
    let lowest = logarithms.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = (highest.floor() as i32 + 1).clamp(within.start + 2, within.end);
    let bottom = (lowest.floor().min(f64::from(top)) as i32).clamp(within.start, top - 2);
    let step = if top - bottom > 6 { 2 } else { 1 };
    let ticks = (bottom..=top).rev().step_by(step).map(|power| (f64::from(power), power_of_ten(power)));
    Axis { caption: caption.to_owned(), range: f64::from(bottom)..f64::from(top), ticks: ticks.collect() }
}

/// Where a value is on an axis of [`decades`]: zero and less at the lower edge.
pub(super) fn on_decades(value: f64, axis: &Axis) -> f64 {
    let at = if value > 0.0 { value.log10() } else { axis.range.start };
    at.clamp(axis.range.start, axis.range.end)
}

fn power_of_ten(power: i32) -> String {
    match power {
        -2..=0 => format!("{:.1$}", 10f64.powi(power), power.unsigned_abs() as usize),
        1..=3 => format!("{}", 10i32.pow(power.unsigned_abs())),
        _ => format!("1e{power}"),
    }
}

/// An axis on which 0, 0.9, 0.99, 0.999 … are equally far apart.
pub(super) fn nines(caption: &str, values: impl Iterator<Item = f64>) -> Axis {
    let values: Vec<f64> = values.map(to_nines).collect();
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = highest.ceil().clamp(3.0, MOST_NINES);
    let bottom = if lowest < 0.0 { to_nines(-1.0) } else { lowest.floor().clamp(0.0, 1.0) };
    let ticks = (bottom.ceil() as i32..=top as i32).map(|count| (f64::from(count), nines_label(count)));
    let negative = (lowest < 0.0).then(|| (to_nines(-1.0), "-1".to_owned()));
    Axis { caption: caption.to_owned(), range: bottom..top, ticks: negative.into_iter().chain(ticks).collect() }
}

/// Above this many nines a correlation is drawn as 1.
const MOST_NINES: f64 = 8.0;

/// Where a correlation is on an axis of [`nines`], before it is kept inside of it.
pub(super) fn to_nines(correlation: f64) -> f64 {
    let distance = (1.0 - correlation).max(10f64.powf(-MOST_NINES));
    -distance.log10()
}

fn nines_label(count: i32) -> String {
    match count {
        0 => "0".to_owned(),
        count if f64::from(count) >= MOST_NINES => "1".to_owned(),
        count => format!("0.{}", "9".repeat(count.unsigned_abs() as usize)),
    }
}
