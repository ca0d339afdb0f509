//! Why an arm is wrong: which fault explains it, how well, and what would decide.

use std::collections::BTreeMap;

use fidelity_trace::{FaultFamily, Scope, Site};
use serde::{Deserialize, Serialize};

/// The name of a diagnosis that finds nothing wrong.
pub const CLEAN: &str = "clean";
/// The name of a diagnosis that finds no explanation.
pub const UNEXPLAINED: &str = "unexplained";

/// What explains an arm. Predictions are what the reference (or an emulator of the recipe) computes with a fault injected; they
/// are scored against what the arm computed, on logits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// `clean`, the canonical name of a fault, or `unexplained`.
    pub name: String,
    /// The fault's family; absent for the other two.
    pub family: Option<FaultFamily>,
    /// The only block it is in; absent for a fault of every block or of the whole network.
    pub block: Option<u32>,
    /// How: the fault's value as `--fault` takes it.
    pub parameter: Option<String>,
    /// What it comes to, in one sentence.
    pub sentence: String,
    /// Mean Pearson of the arm and the prediction that the name stands for (for `unexplained`: the closest one).
    pub score: Option<f64>,
    /// Mean squared error of that prediction, in variances of a row of logits (NMSE), mean over prompts.
    pub residual: Option<f64>,
    /// How far the next explanation of another name, or none, is behind.
    pub margin: Option<Margin>,
    /// The best explanation of another name.
    pub runner_up: Option<Candidate>,
    /// How well the arm is explained by nothing being wrong.
    pub clean: Candidate,
    /// The best explanations, best first, one a name.
    pub ranked: Vec<Candidate>,
    /// Faults that predict the same here, as `--fault` takes them: no row of this trace tells them apart.
    pub equivalent: Vec<String>,
    /// The first bad site of the first bad scope, against the reference.
    pub first_bad_site: Option<BadSite>,
    /// Mean NMSE against the reference by scope: which of them are wrong tells cache, table, graph and host apart.
    pub scopes: BTreeMap<Scope, f64>,
    /// What speaks for it, one sentence each.
    pub evidence: Vec<String>,
    /// The experiments that would decide or confirm, the cheapest first.
    pub next: Vec<String>,
    /// What to change; empty where nothing is named.
    pub remedy: String,
    /// A command that shows the fault by itself; absent where there is none.
    pub confirm: Option<String>,
    /// What predictions were made with: `reference`, or `emulator` under the recipe of this name.
    pub predicted_by: String,
    /// What the predictions cost, in passes of the reference over all rows compared.
    pub passes: f64,
    /// What the arm was run on again, in order; empty where there was a trace alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
}

/// One more run of the arm, made to decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// What for: `repeat`, `one_token`, `poke`, `prefix`, `self_only`, `new_prompt`.
    pub kind: String,
    /// Tokens of its prompt.
    pub tokens: usize,
    /// Steps after the prompt.
    pub steps: usize,
    /// What it cost, in steps of the device.
    pub device_steps: usize,
    /// What it showed.
    pub found: String,
}

/// How far an explanation is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    /// NMSE of the other less that of the best, mean over prompts.
    pub difference: f64,
    /// Its standard error over prompts; absent with fewer than two.
    pub standard_error: Option<f64>,
    /// Prompts.
    pub prompts: usize,
}

/// A fault that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// As `--fault` takes it, or `clean`.
    pub fault: String,
    /// Its canonical name, or `clean`.
    pub name: String,
    /// Mean Pearson of arm and prediction.
    pub score: f64,
    /// Mean NMSE of arm and prediction.
    pub residual: f64,
}

/// The first site that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BadSite {
    /// The scope.
    pub scope: Scope,
    /// The site.
    pub site: Site,
    /// The last site before it that is right, where one is held.
    pub after: Option<Site>,
}

impl Diagnosis {
    /// The fault that is named, as `--fault` takes it; empty where none is.
    #[must_use]
    pub fn as_fault(&self) -> String {
        if !self.names_a_fault() {
            return String::new();
        }
        let block = self.block.map_or_else(String::new, |block| format!("@{block}"));
        let value = self.parameter.as_ref().map_or_else(String::new, |value| format!("={value}"));
        format!("{}{block}{value}", self.name)
    }

    /// Whether a fault is named.
    #[must_use]
    pub fn names_a_fault(&self) -> bool {
        self.name != CLEAN && self.name != UNEXPLAINED
    }
}
