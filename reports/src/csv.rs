//! CSV for other tools: every row of the judged site, every site. Full precision, absent is an empty cell.

use ::csv::Writer;
use fidelity_trace::{BlockSite, Scope, Site};
use fidelity_verdict::{Agreement, RowResult, SiteResult, Summary, Verdict};

use crate::layers::noise_floor;

const POSITIONS: [&str; 19] = [
    "scope",
    "prompt_id",
    "position",
    "token_id",
    "finite",
    "pearson",
    "cosine",
    "relative_l2",
    "nmse",
    "max_abs",
    "kl",
    "top1",
    "top5",
    "reference_choice",
    "device_choice",
    "rank",
    "delta_log_prob",
    "site",
    "centred_pearson",
];

const LAYERS: [&str; 20] = [
    "scope",
    "site",
    "block",
    "rows",
    "non_finite_rows",
    "cosine_mean",
    "cosine_min",
    "pearson_mean",
    "pearson_min",
    "relative_l2_mean",
    "relative_l2_p50",
    "relative_l2_p95",
    "relative_l2_max",
    "nmse_mean",
    "sqnr_db_mean",
    "max_abs_max",
    "norm_ratio_mean",
    "noise_floor",
    "local_p50",
    "centred_pearson_mean",
];

/// One line per row of the judged site, by scope; what is of logits only is empty in an encoder's.
#[must_use]
pub fn positions_csv(verdict: &Verdict) -> String {
    let rows = verdict.scopes.iter().flat_map(|(scope, result)| {
        result.rows.iter().map(move |row| position(verdict, *scope, result.judged_site, row))
    });
    lines(&POSITIONS, rows)
}

/// One line per site, by scope; `local_p50` stands at the block's `resid_post`.
#[must_use]
pub fn layers_csv(verdict: &Verdict) -> String {
    let sites = verdict
        .scopes
        .iter()
        .flat_map(|(scope, result)| result.sites.iter().map(move |(site, found)| (*scope, *site, found)));
    lines(&LAYERS, sites.map(|(scope, site, found)| layer(verdict, scope, site, found)))
}

fn lines<const N: usize>(header: &[&str; N], records: impl Iterator<Item = [String; N]>) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    let all_written = "writing to memory cannot fail, and every record has N cells";
    writer.write_record(header).expect(all_written);
    records.for_each(|record| writer.write_record(&record).expect(all_written));
    let bytes = writer.into_inner().expect(all_written);
    String::from_utf8(bytes).expect("made of strings")
}

fn position(verdict: &Verdict, scope: Scope, site: Site, row: &RowResult) -> [String; 19] {
    let prompt = verdict.prompts.get(row.prompt).map_or_else(String::new, |prompt| outside_text(&prompt.id));
    [
        scope.to_string(),
        prompt,
        row.position.to_string(),
        row.token_id.to_string(),
        row.finite.to_string(),
        float(row.pearson),
        float(row.cosine),
        float(row.relative_l2),
        float(row.nmse),
        float(row.max_abs),
        float(row.kl),
        agreement(row.top1).to_owned(),
        agreement(row.top5).to_owned(),
        integer(row.reference_choice),
        integer(row.device_choice),
        integer(row.rank),
        float(row.delta_log_prob),
        site.to_string(),
        float(row.centred_pearson),
    ]
}

fn layer(verdict: &Verdict, scope: Scope, site: Site, found: &SiteResult) -> [String; 20] {
    let of = |summary: &Option<Summary>, pick: fn(&Summary) -> f64| float(summary.as_ref().map(pick));
    [
        scope.to_string(),
        site.to_string(),
        integer(site.block()),
        found.rows.to_string(),
        found.non_finite_rows.to_string(),
        of(&found.cosine, |summary| summary.mean),
        of(&found.cosine, |summary| summary.min),
        of(&found.pearson, |summary| summary.mean),
        of(&found.pearson, |summary| summary.min),
        of(&found.relative_l2, |summary| summary.mean),
        of(&found.relative_l2, |summary| summary.p50),
        of(&found.relative_l2, |summary| summary.p95),
        of(&found.relative_l2, |summary| summary.max),
        of(&found.nmse, |summary| summary.mean),
        of(&found.sqnr_db, |summary| summary.mean),
        of(&found.max_abs, |summary| summary.max),
        of(&found.norm_ratio, |summary| summary.mean),
        float(noise_floor(verdict, site)),
        float(local_error(verdict, scope, site)),
        of(&found.centred_pearson, |summary| summary.mean),
    ]
}

fn local_error(verdict: &Verdict, scope: Scope, site: Site) -> Option<f64> {
    let block = site.block().filter(|_| site.kind() == BlockSite::ResidPost.name())?;
    let blocks = &verdict.scopes.get(&scope)?.blocks;
    blocks.iter().find(|own| own.block == block)?.local
}

/// The shortest text that reads back as the same number.
fn float(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:?}"))
}

fn integer(value: Option<u32>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

const fn agreement(agreement: Option<Agreement>) -> &'static str {
    match agreement {
        Some(Agreement::Agree) => "agree",
        Some(Agreement::Tie) => "tie",
        Some(Agreement::Flip) => "flip",
        None => "",
    }
}

/// Text from outside, which no spreadsheet shall take for a formula.
fn outside_text(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) { format!("'{text}") } else { text.to_owned() }
}
