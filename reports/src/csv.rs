//! CSV for other tools: every row of the judged site, every site. Full precision, absent is an empty cell.

use ::csv::Writer;
use fidelity_trace::{BlockSite, Scope, Site};
use fidelity_verdict::{Agreement, RowResult, ScopeResult, SiteResult, Summary, Verdict};

use crate::{arms::ArmReports, judged, layers::noise_floor};

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
    "centred_cosine",
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
    "centred_cosine_mean",
];

const ARMS: [&str; 17] = [
    "arm",
    "kind",
    "name",
    "verdict",
    "exit_code",
    "scope",
    "scope_verdict",
    "rows",
    "pearson_mean",
    "pearson_min",
    "top1",
    "ties",
    "flips",
    "kl_mean",
    "first_bad_site",
    "reason",
    "folder",
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

/// One line per arm and scope; an arm of which nothing was compared has one line without a scope.
#[must_use]
pub fn arms_csv(arms: &ArmReports<'_>) -> String {
    let records = arms.verdicts.iter().enumerate().flat_map(|(index, verdict)| {
        let scopes = verdict.scopes.iter().map(|(scope, result)| Some((*scope, result)));
        let scopes: Vec<_> = if verdict.scopes.is_empty() { vec![None] } else { scopes.collect() };
        scopes.into_iter().map(move |scope| arm(index, verdict, arms.folders, scope))
    });
    lines(&ARMS, records)
}

fn arm(index: usize, verdict: &Verdict, folders: &[String], scope: Option<(Scope, &ScopeResult)>) -> [String; 17] {
    let result = scope.map(|(_, result)| result);
    let pearson = result.and_then(judged::similarity);
    let logits = result.and_then(judged::site).and_then(|site| site.logits.as_ref());
    let identity = &verdict.arms.device.arm;
    [
        (index + 1).to_string(),
        identity.kind.to_string(),
        outside_text(&identity.name),
        verdict.verdict.to_string(),
        verdict.exit_code.to_string(),
        scope.map_or_else(String::new, |(scope, _)| scope.to_string()),
        result.map_or_else(String::new, |result| result.verdict.to_string()),
        result.map_or_else(String::new, |result| result.coverage.rows_compared.to_string()),
        float(pearson.map(|pearson| pearson.mean)),
        float(pearson.map(|pearson| pearson.min)),
        float(logits.and_then(|logits| logits.top1.rate)),
        logits.map_or_else(String::new, |logits| logits.top1.ties.to_string()),
        logits.map_or_else(String::new, |logits| logits.top1.flips.to_string()),
        float(logits.and_then(|logits| logits.kl.as_ref()).map(|kl| kl.mean)),
        result.and_then(|result| result.first_bad_site).map_or_else(String::new, |site| site.to_string()),
        outside_text(&verdict.reason),
        folders.get(index).cloned().unwrap_or_default(),
    ]
}

pub(crate) fn lines<const N: usize>(header: &[&str; N], records: impl Iterator<Item = [String; N]>) -> String {
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
        float(row.centred_cosine),
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
        of(&found.centred_cosine, |summary| summary.mean),
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
pub(crate) fn outside_text(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) { format!("'{text}") } else { text.to_owned() }
}
