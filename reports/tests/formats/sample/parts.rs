//! Parts of a synthetic verdict: rows, sites and scopes.

use std::collections::BTreeMap;

use fidelity_trace::{BlockSite, Site};
use fidelity_verdict::{
    Agreement, BlockError, Coverage, Likely, LogitsResult, Outcome, Profile, Rate, RowResult, ScopeResult, SiteResult,
    Summary,
};

use super::Size;

/// A number in 0 … 1 that looks random.
fn scatter(seed: usize) -> f64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f64 / f64::from(1 << 24)
}

pub(crate) fn summary(typical: f64, interval: bool, n: usize) -> Summary {
    Summary {
        mean: typical * 1.1,
        interval: interval.then_some([typical * 1.02, typical * 1.2]),
        min: typical * 0.4,
        max: typical * 4.0,
        p05: typical * 0.5,
        p50: typical,
        p95: typical * 2.5,
        n,
    }
}

/// Summary of a similarity whose typical distance from 1 is given.
fn similarity(distance: f64, interval: bool, n: usize) -> Summary {
    let of = |factor: f64| 1.0 - distance * factor;
    let interval = interval.then_some([of(1.4), of(0.7)]);
    Summary {
        mean: of(1.0),
        interval,
        min: of(6.0).max(-1.0),
        max: of(0.1),
        p05: of(3.0),
        p50: of(0.8),
        p95: of(0.2),
        n,
    }
}

fn site(error: f64, size: Size) -> SiteResult {
    let n = size.prompts * size.positions as usize;
    let several = size.prompts > 1;
    SiteResult {
        rows: n,
        non_finite_rows: 0,
        constant_rows: 0,
        exact_rows: 0,
        cosine: Some(similarity(error * error / 2.0, several, n)),
        pearson: Some(similarity(error * error / 2.0, several, n)),
        centred_cosine: None,
        relative_l2: Some(summary(error, several, n)),
        nmse: Some(summary(error * error, several, n)),
        sqnr_db: Some(summary(-20.0 * error.log10(), several, n)),
        max_abs: Some(summary(error * 8.0, several, n)),
        norm_ratio: Some(summary(0.99, several, n)),
        logits: None,
    }
}

fn rows(error: f64, size: Size) -> Vec<RowResult> {
    let indices = (0..size.prompts).flat_map(|prompt| (0..size.positions).map(move |position| (prompt, position)));
    let row = |(prompt, position): (usize, u32)| {
        let seed = prompt * 1000 + position as usize;
        let distance = error * error * (0.2 + 1.6 * scatter(seed)) / 2.0;
        let flips = scatter(seed + 7) < error;
        RowResult {
            prompt,
            position,
            token_id: 100 + position,
            finite: true,
            cosine: Some(1.0 - distance),
            pearson: Some(1.0 - distance),
            centred_cosine: None,
            relative_l2: Some((2.0 * distance).sqrt()),
            nmse: Some(2.0 * distance),
            max_abs: Some(error * 8.0),
            kl: Some(distance * 3.0),
            top1: Some(if flips { Agreement::Flip } else { Agreement::Agree }),
            top5: Some(Agreement::Agree),
            reference_choice: Some(300 + position),
            device_choice: Some(300 + position + u32::from(flips)),
            rank: Some(u32::from(flips)),
            delta_log_prob: Some(-distance),
            reference_top5: likely(300 + position),
            device_top5: likely(300 + position + u32::from(flips)),
        }
    };
    indices.map(row).collect()
}

/// Five tokens, `first` before the others.
fn likely(first: u32) -> Vec<Likely> {
    (first..).zip([0.612_345, 0.123_456, 0.0712, 0.002_345, 0.000_123_4]).collect()
}

fn logits(rows: &[RowResult], size: Size, error: f64) -> LogitsResult {
    let count = |wanted| rows.iter().filter(|row| row.top1 == Some(wanted)).count();
    let (agree, ties, flips) = (count(Agreement::Agree), count(Agreement::Tie), count(Agreement::Flip));
    let rate = |matching: usize| Some(matching as f64 / rows.len() as f64);
    let interval = (size.prompts > 1).then_some([0.93, 1.0]);
    LogitsResult {
        kl: Some(summary(error * error, size.prompts > 1, rows.len())),
        top1: Rate { agree, ties, flips, n: rows.len(), rate: rate(agree + ties), rate_strict: rate(agree), interval },
        top5: Rate {
            agree: rows.len(),
            ties: 0,
            flips: 0,
            n: rows.len(),
            rate: rate(rows.len()),
            rate_strict: rate(rows.len()),
            interval,
        },
        rank: Some(summary(0.1, size.prompts > 1, rows.len())),
        delta_log_prob: Some(summary(-error, size.prompts > 1, rows.len())),
        perplexity_ratio: Some(1.0 + error / 10.0),
    }
}

/// A scope whose error at a site is `error(site)`.
pub(crate) fn scope(size: Size, verdict: Outcome, error: impl Fn(Site) -> f64) -> ScopeResult {
    let drawn = |site: &Site| matches!(site.kind(), "embed" | "resid_mid" | "resid_post" | "final_norm" | "logits");
    let known: Vec<Site> = Site::all(size.blocks).filter(drawn).collect();
    let mut sites: BTreeMap<Site, SiteResult> = known.iter().map(|at| (*at, site(error(*at), size))).collect();
    let rows = rows(error(Site::Logits), size);
    if let Some(last) = sites.get_mut(&Site::Logits) {
        last.logits = Some(logits(&rows, size, error(Site::Logits)));
    }
    let positions: Vec<u32> = (0..size.positions).collect();
    let wave = |at: &Site, position: &u32| {
        let seed = *position as usize * 71 + at.block().unwrap_or(99) as usize * 13 + at.kind().len();
        Some(error(*at) * (0.4 + 1.4 * scatter(seed)) * if *position == 0 { 0.2 } else { 1.0 })
    };
    let profile = known.iter().map(|at| (*at, positions.iter().map(|position| wave(at, position)).collect())).collect();
    let after = |block| error(Site::Block(block, BlockSite::ResidPost));
    let block = |block| BlockError {
        block,
        cumulative: Some(after(block)),
        local: Some(after(block) * (0.3 + 0.4 * scatter(block as usize))),
    };
    ScopeResult {
        verdict,
        reason: "mean Pearson 0.999 and top-1 100 % over 16 rows".into(),
        judged_site: Site::Logits,
        first_bad_site: None,
        first_bad_site_detail: None,
        coverage: Coverage {
            rows_compared: rows.len(),
            prompts_compared: size.prompts,
            sites_compared: known.len(),
            ..Coverage::default()
        },
        sites,
        blocks: (0..size.blocks).map(block).collect(),
        profile: Profile { positions, sites: profile },
        rows,
        outside_range: BTreeMap::new(),
    }
}

/// The same of an encoder: hidden rows are judged, there are no logits, and a prompt has one row of `pooled`.
pub(crate) fn of_encoder(size: Size, verdict: Outcome, error: impl Fn(Site) -> f64) -> ScopeResult {
    let (hidden, pooled) = (error(Site::FinalNorm), error(Site::Pooled));
    let mut result = scope(size, verdict, error);
    result.judged_site = Site::FinalNorm;
    result.reason = "centred cosine 0.999".into();
    result.sites.remove(&Site::Logits);
    result.profile.sites.remove(&Site::Logits);
    result.sites.insert(Site::Pooled, site(pooled, Size { positions: 1, ..size }));
    if let Some(last) = result.sites.get_mut(&Site::FinalNorm) {
        last.centred_cosine = Some(similarity(hidden * hidden, size.prompts > 1, last.rows));
    }
    for row in &mut result.rows {
        row.centred_cosine = row.pearson.map(|plain| 1.0 - 2.0 * (1.0 - plain));
        (row.kl, row.delta_log_prob) = (None, None);
        (row.top1, row.top5, row.reference_choice, row.device_choice, row.rank) = (None, None, None, None, None);
        (row.reference_top5, row.device_top5) = (Vec::new(), Vec::new());
    }
    result
}

/// Rounding of 8-bit weights, growing slowly.
pub(crate) fn rounding(site: Site) -> f64 {
    match site {
        Site::Embed => 0.002,
        Site::Block(block, kind) => {
            0.004 + 0.0008 * f64::from(block) + if kind == BlockSite::ResidPost { 0.0003 } else { 0.0 }
        }
        Site::FinalNorm => 0.03,
        Site::Logits => 0.02,
        Site::Pooled => 0.01,
    }
}

/// Rounding until block 2, in which attention goes wrong.
pub(crate) fn wrong_from_block_2(site: Site) -> f64 {
    match site {
        Site::Embed => rounding(site),
        Site::Block(block, _) if block < 2 => rounding(site),
        Site::Block(block, _) => 0.31 + 0.6 * (1.0 - 1.0 / f64::from(block)),
        Site::FinalNorm => 0.95,
        Site::Logits => 0.9,
        Site::Pooled => 0.8,
    }
}
