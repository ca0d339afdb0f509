//! `fidelity history`: runs over time.

use fidelity_history::History;
use fidelity_reports::{history_csv, history_html, history_terminal};

use crate::{
    args::HistoryArgs,
    error::CliError,
    history::place,
    output::{emit, print, style},
    resources,
};

pub(crate) fn history(args: &HistoryArgs) -> Result<u8, CliError> {
    let path = place(args.history.as_deref()).ok_or(CliError::NoHistory)?;
    let mut runs = History::existing(&path)?.runs(args.checkpoint.as_deref())?;
    if runs.is_empty() {
        let checkpoint = args.checkpoint.clone().unwrap_or_default();
        return Err(CliError::NotInHistory { path, checkpoint });
    }
    if let Some(last) = args.last {
        runs = runs.split_off(runs.len().saturating_sub(last.get()));
    }
    if let Some(file) = &args.plot {
        resources::write(file, history_html(&runs)?)?;
    }
    match &args.csv {
        Some(file) if file.as_os_str() == "-" => {
            emit(&history_csv(&runs));
            return Ok(0);
        }
        Some(file) => resources::write(file, history_csv(&runs))?,
        None => {}
    }
    let written: Vec<String> =
        [&args.csv, &args.plot].into_iter().flatten().map(|file| format!(" · wrote {}", file.display())).collect();
    print(&format!(
        "{}\n{} run{} in {}{}\n",
        history_terminal(&runs, style()),
        runs.len(),
        if runs.len() == 1 { "" } else { "s" },
        path.display(),
        written.concat()
    ));
    Ok(0)
}
