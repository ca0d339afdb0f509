//! The tokens of each prompt as they were fed, a cell a token: how far apart the arms are on what follows it, and what each holds most
//! probable.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_trace::Scope;
use fidelity_verdict::{Agreement, Likely, RowResult, Verdict, telling_scopes};
use serde::Serialize;

use crate::{
    numbers::{ABSENT, correlation, magnitude, or_absent},
    text::{printable, truncated},
};

/// Upper ends of the colours but the last: decades of KL, nats.
const EDGES: [f64; 5] = [1e-4, 1e-3, 1e-2, 0.1, 1.0];
/// More cells than this make a page too large; prompts beyond are left out, a longer prompt is cut.
const MOST_CELLS: usize = 3_000;
/// Cells that open, at some 450 bytes each; those with the highest KL, where there are more.
const MOST_OPENING: usize = 700;
/// Columns of a token in its cell, and in a table of the most probable.
const CELL_WIDTH: usize = 18;
const TABLE_WIDTH: usize = 24;

#[derive(Serialize)]
pub(super) struct StripsView {
    legend: Vec<Step>,
    strips: Vec<StripView>,
    prompts_left_out: usize,
    /// How many cells open, and whether others could.
    open: usize,
    only_some_open: bool,
}

/// A colour and the KL it stands for.
#[derive(Serialize)]
struct Step {
    class: String,
    meaning: String,
}

#[derive(Serialize)]
struct StripView {
    prompt: String,
    summary: String,
    open: bool,
    parts: Vec<PartView>,
    cells_left_out: usize,
}

/// Tokens that one scope tells of.
#[derive(Serialize)]
struct PartView {
    scope: &'static str,
    what: &'static str,
    cells: Vec<CellView>,
}

#[derive(Serialize)]
struct CellView {
    class: String,
    text: String,
    kl: String,
    /// What the colour does not say: another first choice, a tie, a row that is not finite.
    mark: &'static str,
    opened: Option<OpenedView>,
}

/// What a cell shows when it is opened.
#[derive(Serialize)]
struct OpenedView {
    id: usize,
    token: String,
    position: u32,
    pearson: String,
    agreement: &'static str,
    /// Token and probability of the reference, then of the device; most probable first.
    likely: Vec<[String; 4]>,
}

/// A row in which both arms have logits.
type Row<'a> = (Scope, &'a RowResult);

impl StripsView {
    /// Absent where no row of logits was compared.
    pub(super) fn of(verdict: &Verdict) -> Option<Self> {
        let mut prompts: Vec<(usize, Vec<Row<'_>>)> = rows(verdict).into_iter().collect();
        prompts.sort_by(|(_, a), (_, b)| worst(b).total_cmp(&worst(a)));
        let all = prompts.len();
        let mut room = MOST_CELLS;
        prompts.retain(|(_, rows)| {
            let fits = room > 0;
            room = room.saturating_sub(rows.len());
            fits
        });
        let shown = || prompts.iter().flat_map(|(_, rows)| rows.iter().take(MOST_CELLS));
        let opening = opening(shown().map(|(_, row)| *row));
        let with_tokens = shown().filter(|(_, row)| !row.reference_top5.is_empty()).count();
        let mut ids = 0..;
        let strips = prompts.iter().enumerate().map(|(index, (prompt, rows))| StripView {
            prompt: verdict.prompts.get(*prompt).map_or_else(|| ABSENT.to_owned(), |prompt| printable(&prompt.id)),
            summary: summary(rows),
            open: index == 0,
            parts: parts(verdict, &rows[..rows.len().min(MOST_CELLS)], &opening, &mut ids),
            cells_left_out: rows.len().saturating_sub(MOST_CELLS),
        });
        let strips: Vec<_> = strips.collect();
        (!strips.is_empty()).then(|| Self {
            legend: legend(),
            prompts_left_out: all - strips.len(),
            open: opening.len(),
            only_some_open: opening.len() < with_tokens,
            strips,
        })
    }
}

/// By prompt, in order of position: the row of the scope that tells most of it.
fn rows(verdict: &Verdict) -> BTreeMap<usize, Vec<Row<'_>>> {
    let telling = telling_scopes(&verdict.scopes);
    let mut by_prompt: BTreeMap<usize, Vec<Row<'_>>> = BTreeMap::new();
    for (scope, result) in &verdict.scopes {
        let of_logits = result.rows.iter().filter(|row| row.reference_choice.is_some());
        for row in of_logits.filter(|row| telling.get(&(row.prompt, row.position)) == Some(scope)) {
            by_prompt.entry(row.prompt).or_default().push((*scope, row));
        }
    }
    by_prompt.values_mut().for_each(|rows| rows.sort_by_key(|(_, row)| row.position));
    by_prompt
}

/// Mean KL; a row that is not finite is worse than any number.
fn worst(rows: &[Row<'_>]) -> f64 {
    let sum: f64 = rows.iter().map(|(_, row)| badness(row)).sum();
    sum / rows.len() as f64
}

fn badness(row: &RowResult) -> f64 {
    if row.finite { row.kl.unwrap_or(0.0) } else { f64::INFINITY }
}

/// Prompt and position of the cells that open.
fn opening<'a>(rows: impl Iterator<Item = &'a RowResult>) -> BTreeSet<(usize, u32)> {
    let mut rows: Vec<_> = rows.filter(|row| !row.reference_top5.is_empty()).collect();
    rows.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
    rows.into_iter().take(MOST_OPENING).map(|row| (row.prompt, row.position)).collect()
}

fn summary(rows: &[Row<'_>]) -> String {
    let count = |wanted: &dyn Fn(&RowResult) -> bool| rows.iter().filter(|(_, row)| wanted(row)).count();
    let highest = rows.iter().filter_map(|(_, row)| row.kl).reduce(f64::max);
    let words = [
        (count(&|row| row.finite && row.top1 == Some(Agreement::Flip)), "other first choices"),
        (count(&|row| row.finite && row.top1 == Some(Agreement::Tie)), "tied"),
        (count(&|row| !row.finite), "not finite"),
    ];
    let words = words.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| match (count, word) {
        (1, "other first choices") => ", 1 other first choice".to_owned(),
        (count, word) => format!(", {count} {word}"),
    });
    let tokens = if rows.len() == 1 { "token" } else { "tokens" };
    format!("{} {tokens}, highest KL {}{}", rows.len(), or_absent(highest, magnitude), words.collect::<String>())
}

/// Runs of tokens of one scope.
fn parts(
    verdict: &Verdict,
    rows: &[Row<'_>],
    opening: &BTreeSet<(usize, u32)>,
    ids: &mut impl Iterator<Item = usize>,
) -> Vec<PartView> {
    let of_scope = |part: &[Row<'_>]| {
        let (scope, _) = part[0];
        let cells = part.iter().map(|(_, row)| {
            let id = opening.contains(&(row.prompt, row.position)).then(|| ids.next()).flatten();
            CellView::of(verdict, row, id)
        });
        PartView { scope: scope.name(), what: fed_in(scope), cells: cells.collect() }
    };
    rows.chunk_by(|(a, _), (b, _)| a == b).map(of_scope).collect()
}

const fn fed_in(scope: Scope) -> &'static str {
    match scope {
        Scope::Base | Scope::Prefill => "the prompt",
        Scope::Tbt | Scope::TbtFree | Scope::TbtSelf => "the reference's own continuation, as it was fed",
    }
}

impl CellView {
    fn of(verdict: &Verdict, row: &RowResult, id: Option<usize>) -> Self {
        let mark = match (row.finite, row.top1) {
            (false, _) => "✗",
            (true, Some(Agreement::Flip)) => "≠",
            (true, Some(Agreement::Tie)) => "≈",
            (true, Some(Agreement::Agree) | None) => "",
        };
        Self {
            class: if row.finite { class(row.kl) } else { "nan".to_owned() },
            text: token(verdict, row.token_id, CELL_WIDTH),
            kl: if row.finite { or_absent(row.kl, magnitude) } else { "not finite".to_owned() },
            mark,
            opened: id.map(|id| OpenedView::of(verdict, row, id)),
        }
    }
}

impl OpenedView {
    fn of(verdict: &Verdict, row: &RowResult, id: usize) -> Self {
        let side = |likely: &[Likely], at: usize| match likely.get(at) {
            Some((id, probability)) => [quoted(verdict, *id), share(*probability)],
            None => [ABSENT, ABSENT].map(str::to_owned),
        };
        let line = |at: usize| {
            let [ours, p_ours] = side(&row.reference_top5, at);
            let [its, p_its] = side(&row.device_top5, at);
            [ours, p_ours, its, p_its]
        };
        let most = row.reference_top5.len().max(row.device_top5.len());
        Self {
            id,
            token: format!("{} (id {})", quoted(verdict, row.token_id), row.token_id),
            position: row.position,
            pearson: or_absent(row.pearson, correlation),
            agreement: match (row.finite, row.top1) {
                (false, _) => "the device's row is not finite",
                (true, Some(Agreement::Agree)) => "the same first choice",
                (true, Some(Agreement::Tie)) => "another first choice, a tie",
                (true, Some(Agreement::Flip)) => "another first choice",
                (true, None) => ABSENT,
            },
            likely: (0..most).map(line).collect(),
        }
    }
}

/// A probability to three digits, and never 1 for what is less.
fn share(probability: f64) -> String {
    let text = format!("{probability:.3}");
    match text.as_str() {
        "1.000" if probability < 1.0 => ">0.999".to_owned(),
        "0.000" if probability > 0.0 => magnitude(probability),
        _ => text,
    }
}

/// A token's text, or its id where no text is known.
fn token(verdict: &Verdict, id: u32, width: usize) -> String {
    match verdict.token_text.get(&id).filter(|text| !text.is_empty()) {
        // A cell of nothing but space would have no name.
        Some(text) if text.trim().is_empty() => truncated(&printable(&visible(text)), width),
        Some(text) => truncated(&printable(text), width),
        None => format!("#{id}"),
    }
}

fn visible(space: &str) -> String {
    space.chars().map(|character| if character.is_control() { character } else { '␣' }).collect()
}

/// The same where a space at either end must be seen.
fn quoted(verdict: &Verdict, id: u32) -> String {
    let known = verdict.token_text.get(&id).is_some_and(|text| !text.is_empty());
    let text = token(verdict, id, TABLE_WIDTH);
    if known { format!("“{text}”") } else { text }
}

fn class(kl: Option<f64>) -> String {
    let step = kl.map_or(0, |kl| EDGES.iter().filter(|edge| kl > **edge).count());
    format!("k{step}")
}

fn legend() -> Vec<Step> {
    let ends = EDGES.iter().map(|edge| format!("≤ {edge}"));
    let all = ends.chain([format!("> {}", EDGES[EDGES.len() - 1])]);
    all.enumerate().map(|(step, meaning)| Step { class: format!("k{step}"), meaning }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_do_not_round_to_all_or_nothing() {
        assert_eq!([1.0, 0.9999, 0.1234, 0.0, 2e-5].map(share), ["1.000", ">0.999", "0.123", "0.000", "2.00e-5"]);
    }

    #[test]
    fn a_colour_begins_above_its_edge() {
        let classes = [None, Some(0.0), Some(1e-4), Some(1.1e-4), Some(1.0), Some(30.0)].map(class);
        assert_eq!(classes, ["k0", "k0", "k0", "k1", "k4", "k5"]);
    }
}
