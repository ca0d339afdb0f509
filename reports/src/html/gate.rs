//! What a gate concluded of the run, metric by metric.

use fidelity_verdict::{Gate, GateConclusion};
use serde::Serialize;

use crate::{
    gate::{prompts, rows, side, spreads, word},
    text::printable,
};

#[derive(Serialize)]
pub(super) struct GateView {
    word: &'static str,
    symbol: &'static str,
    /// The colour of a verdict as bad.
    class: &'static str,
    reason: String,
    exit_code: u8,
    baseline: String,
    run: String,
    prompts: String,
    rows: Vec<RowView>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct RowView {
    fails: bool,
    /// Scope, metric, baseline, run, worse by, 95 % interval, margin, p, result.
    cells: Vec<String>,
}

impl GateView {
    pub(super) fn of(gate: &Gate) -> Self {
        let fails = gate.scopes.values().flat_map(|metrics| metrics.values());
        let fails = fails.map(|found| found.conclusion == GateConclusion::Fail);
        let cells = rows(gate).into_iter().zip(spreads(gate)).map(|(mut cells, mut spread)| {
            cells.insert(5, spread.swap_remove(2));
            cells
        });
        let (symbol, class) = match gate.conclusion {
            GateConclusion::Pass => ("✓", "faithful"),
            GateConclusion::Inconclusive => ("?", "inconclusive"),
            GateConclusion::DeviceFailure => ("!", "degraded"),
            GateConclusion::Fail => ("✗", "broken"),
        };
        Self {
            word: word(gate.conclusion),
            symbol,
            class,
            reason: printable(&gate.reason),
            exit_code: gate.exit_code,
            baseline: side(&gate.baseline),
            run: side(&gate.run),
            prompts: prompts(gate),
            rows: fails.zip(cells).map(|(fails, cells)| RowView { fails, cells }).collect(),
            notes: gate.notes.iter().map(|note| printable(note)).collect(),
        }
    }
}
