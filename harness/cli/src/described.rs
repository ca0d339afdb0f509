//! What a run's folder says of the run beside its verdict: run.json read back, and the gate that was asked.

use std::{fs, path::Path};

use fidelity_reports::{Circumstances, Machine, write_page};
use fidelity_verdict::{GATE_FORMAT, GATE_VERSION, Gate, PastRun, Verdict};
use serde_json::Value;

use crate::{
    error::CliError,
    history,
    run_folder::{command_line, shell_line},
};

/// What run.json says; nothing where there is none or another program wrote it.
#[derive(Default)]
pub(crate) struct Described {
    id: Option<String>,
    /// The command line that made the run.
    command: Option<String>,
    machine: Option<Machine>,
}

impl Described {
    pub(crate) fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("run.json")).ok();
        let Some(described) = text.and_then(|text| serde_json::from_str::<Value>(&text).ok()) else {
            return Self::default();
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let arguments = described["command"].as_array().map(|all| all.iter().skip(1).filter_map(text));
        let host = &described["host"];
        let machine = text(&described["fidelity"]).map(|fidelity| Machine {
            fidelity,
            host: [
                text(&host["os"]),
                text(&host["architecture"]),
                host["cores"].as_u64().map(|n| format!("{n} cores")),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
            begun: text(&described["begun"]).unwrap_or_default(),
        });
        Self { id: text(&described["id"]), command: arguments.map(shell_line), machine }
    }

    /// The command line that made the run, else this one.
    pub(crate) fn command(&self) -> String {
        self.command.clone().unwrap_or_else(command_line)
    }

    /// The run among those before it, as far as the history that is asked for knows it.
    pub(crate) fn past(&self, asked: Option<&str>) -> Vec<PastRun> {
        self.id.as_deref().map(|id| history::until(asked, id)).unwrap_or_default()
    }

    /// What a report of the run shows beside its verdict.
    pub(crate) fn circumstances<'a>(
        &'a self,
        reproduce: &'a str,
        past: &'a [PastRun],
        gate: Option<&'a Gate>,
    ) -> Circumstances<'a> {
        Circumstances { reproduce, past, machine: self.machine.as_ref(), gate }
    }
}

/// The gate in a run's folder, if one was asked of this very verdict: writing another verdict removes it.
pub(crate) fn gate_of(folder: &Path) -> Option<Gate> {
    let text = fs::read_to_string(folder.join("gate.json")).ok()?;
    let gate: Gate = serde_json::from_str(&text).ok()?;
    (gate.format == GATE_FORMAT && gate.version == GATE_VERSION).then_some(gate)
}

/// Writes a stored run's page again, now with its gate.
pub(crate) fn show_gate(folder: &Path, verdict: &Verdict, gate: &Gate, history: Option<&str>) -> Result<(), CliError> {
    let described = Described::read(folder);
    let (reproduce, past) = (described.command(), described.past(history));
    Ok(write_page(folder, verdict, &described.circumstances(&reproduce, &past, Some(gate)))?)
}
