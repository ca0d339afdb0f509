//! results.csv: one line a cell and scope. docs/SWEEP.md explains the columns.

use ::csv::Writer;
use fidelity_trace::Scope;
use fidelity_verdict::{Cell, CellScope, CellState, Covariate, Measured, Outcome, RESULT_COLUMNS};

/// The cells; one of which nothing was compared has one line without a scope. Covariates follow the other columns.
#[must_use]
pub fn sweep_csv(cells: &[Cell]) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    let header = RESULT_COLUMNS.into_iter().chain(Covariate::ALL.map(Covariate::name));
    // A Vec cannot fail to be written to, and all records are as long as the header.
    let _ = writer.write_record(header);
    for cell in cells {
        let scopes: Vec<_> = cell.scopes.iter().map(Some).collect();
        for scope in if scopes.is_empty() { vec![None] } else { scopes } {
            let _ = writer.write_record(record(cell, scope));
        }
    }
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

fn record(cell: &Cell, scope: Option<(&Scope, &CellScope)>) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let found = scope.map(|(_, found)| found);
    let verdict = found.map(|found| found.verdict);
    let outcome = match verdict.filter(|_| cell.state == CellState::Done) {
        Some(Outcome::Faithful) => "pass",
        Some(Outcome::Degraded | Outcome::Broken) => "fail",
        Some(Outcome::Inconclusive) | None => "",
    };
    let versions = cell.versions.iter().map(|(name, version)| format!("{name}={version}")).collect::<Vec<_>>();
    let mut record = vec![
        (cell.index + 1).to_string(),
        cell.checkpoint.clone(),
        cell.source.clone(),
        text(&cell.revision),
        text(&cell.weights_sha256),
        cell.key.device.clone(),
        cell.arm.clone(),
        cell.recipe.clone(),
        text(&cell.recipe_sha256),
        scope.map_or_else(String::new, |(scope, _)| scope.to_string()),
        "verdict".to_owned(),
        cell.state.name().to_owned(),
        outcome.to_owned(),
        verdict.map_or_else(String::new, |verdict| verdict.to_string()),
        found.map_or_else(|| cell.reason.clone(), |found| found.reason.clone()),
        cell.exit_code.to_string(),
    ];
    let measured: [fn(&CellScope) -> Option<Measured>; 4] =
        [|scope| scope.pearson, |scope| scope.top1, |scope| scope.kl, |scope| scope.nmse];
    for pick in measured {
        let measured = found.and_then(pick);
        let interval = measured.and_then(|measured| measured.interval);
        let values = [measured.map(|it| it.value), interval.map(|it| it[0]), interval.map(|it| it[1])];
        record.extend(values.map(|value| value.map_or_else(String::new, |value| value.to_string())));
    }
    let count = |value: Option<usize>| value.map_or_else(String::new, |value| value.to_string());
    record.extend([count(found.map(|it| it.prompts)), count(found.map(|it| it.rows)), versions.join("; ")]);
    record.extend([cell.run.clone(), cell.command.clone()]);
    let known = |covariate| cell.covariates.get(&covariate).map_or_else(String::new, ToString::to_string);
    record.extend(Covariate::ALL.map(known));
    record
}
