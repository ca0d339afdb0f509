//! Runs over time: series, what changed between two runs, CSV, and the tables of a terminal.

use ::csv::Writer;
use fidelity_verdict::{PastRun, PastScope};

use crate::{
    numbers::{ABSENT, correlation, percent},
    terminal::{Style, history_tables},
    text::printable,
};

const HEAD: [&str; 18] = [
    "begun",
    "wall_seconds",
    "folder",
    "checkpoint",
    "arm",
    "injected",
    "verdict",
    "exit_code",
    "reason",
    "diagnosis",
    "scope",
    "scope_verdict",
    "rows",
    "first_bad_site",
    "metric",
    "value",
    "low",
    "high",
];

/// The runs as tables, a series after another, in at most [`Style::width`] columns.
#[must_use]
pub fn history_terminal(runs: &[PastRun], style: Style) -> String {
    history_tables(&series(runs), style)
}

/// A line for every metric of every scope of every run, and what decides its numbers; a run without scopes has one line.
#[must_use]
pub fn history_csv(runs: &[PastRun]) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    let head = HEAD.into_iter().chain(["n", "id"]).map(str::to_owned);
    let versions = PastRun::VERSIONS.iter().map(|name| name.to_lowercase());
    write(&mut writer, head.chain(versions).collect());
    for run in runs {
        let rows = run.scopes.iter().flat_map(|(scope, result)| of_scope(scope.name(), result));
        let mut rows: Vec<[String; 9]> = rows.collect();
        if rows.is_empty() {
            rows.push(Default::default());
        }
        for row in rows {
            let of_run = [
                &run.begun,
                &run.wall_seconds.to_string(),
                &run.folder,
                &run.checkpoint,
                &run.arm,
                &run.injected,
                run.verdict.name(),
                &run.exit_code.to_string(),
                &run.reason,
                run.diagnosis.as_deref().unwrap_or_default(),
            ]
            .map(str::to_owned);
            let versions = PastRun::VERSIONS.iter().map(|name| run.versions.get(*name).cloned().unwrap_or_default());
            write(&mut writer, of_run.into_iter().chain(row).chain([run.id.clone()]).chain(versions).collect());
        }
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn of_scope(scope: &str, result: &PastScope) -> Vec<[String; 9]> {
    let of_scope = [
        scope.to_owned(),
        result.verdict.to_string(),
        result.rows.to_string(),
        result.first_bad_site.clone().unwrap_or_default(),
    ];
    let with = |metric: [String; 5]| {
        let mut row: [String; 9] = Default::default();
        row[..4].clone_from_slice(&of_scope);
        row[4..].clone_from_slice(&metric);
        row
    };
    if result.estimates.is_empty() {
        return vec![with(Default::default())];
    }
    let of_metrics = result.estimates.iter().map(|(metric, estimate)| {
        let ends = estimate.interval.map_or([String::new(), String::new()], |ends| ends.map(|end| end.to_string()));
        let [low, high] = ends;
        with([metric.clone(), estimate.value.to_string(), low, high, estimate.n.to_string()])
    });
    of_metrics.collect()
}

fn write(writer: &mut Writer<Vec<u8>>, fields: Vec<String>) {
    // Cannot fail: it writes into memory, and all rows are as long.
    let _ = writer.write_record(fields);
}

/// Runs by series, each in the order they came; the series whose last run is latest comes last, where a terminal ends.
pub(crate) fn series(runs: &[PastRun]) -> Vec<Vec<&PastRun>> {
    let mut all: Vec<Vec<&PastRun>> = Vec::new();
    for run in runs {
        match all.iter_mut().find(|series| series[0].series() == run.series()) {
            Some(series) => series.push(run),
            None => all.push(vec![run]),
        }
    }
    all.sort_by(|a, b| a.last().map(|run| &run.begun).cmp(&b.last().map(|run| &run.begun)));
    all
}

/// Checkpoint, arm and what was injected.
pub(crate) fn series_name(run: &PastRun) -> String {
    let injected = if run.injected.is_empty() { String::new() } else { format!(" with {}", run.injected) };
    printable(&format!("{}, {}{injected}", run.checkpoint, run.arm))
}

/// When it began, to the minute.
pub(crate) fn minute(run: &PastRun) -> String {
    printable(&run.begun.chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect::<String>())
}

/// What a row says of a run: its telling scope, the deciding similarity and the top-1 rate there.
pub(crate) struct Told {
    pub(crate) scope: String,
    pub(crate) similarity: Option<f64>,
    pub(crate) value: String,
    pub(crate) interval: String,
    pub(crate) top1: String,
}

pub(crate) fn told(run: &PastRun) -> Told {
    let scope = run.telling_scope();
    let found = scope.and_then(|(_, result)| result.similarity()).map(|(_, estimate)| estimate);
    let top1 = scope.and_then(|(_, result)| result.estimates.get("top1"));
    let absent = || ABSENT.to_owned();
    Told {
        scope: scope.map_or_else(absent, |(scope, _)| scope.to_string()),
        similarity: found.map(|estimate| estimate.value),
        value: found.map_or_else(absent, |estimate| correlation(estimate.value)),
        interval: found
            .and_then(|estimate| estimate.interval)
            .map_or_else(String::new, |[low, high]| format!("[{}, {}]", correlation(low), correlation(high))),
        top1: top1.map_or_else(absent, |estimate| percent(estimate.value)),
    }
}

/// What the deciding similarity of a series is called.
pub(crate) fn similarity_name(runs: &[&PastRun]) -> &'static str {
    let mut names = runs.iter().filter_map(|run| Some(run.telling_scope()?.1.similarity()?.0));
    names.next_back().unwrap_or("Pearson")
}

/// What differs from the run before, each as `recipe 2d27… → 99aa…`.
pub(crate) fn changes(run: &PastRun, before: Option<&PastRun>) -> Vec<String> {
    let of = before.into_iter().flat_map(|before| run.changes(before));
    of.map(|(name, was, is)| format!("{name} {} → {}", short(was), short(is))).collect()
}

/// Digests in their first 12 digits.
fn short(value: &str) -> String {
    let digest = value.len() >= 40 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    printable(if digest { &value[..12] } else { value })
}
