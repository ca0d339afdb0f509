//! What is asked of a sweep: its cells, in order, and what all of them share.

use std::{collections::BTreeSet, path::Path};

use fidelity_verdict::CellKey;
use serde::{Deserialize, Serialize};

use crate::{
    args::{Slice, SweepArgs},
    error::CliError,
    resources,
    sweep::read,
};

/// What a sweep's folder holds beside its cells.
pub(crate) const FILE: &str = "sweep.json";
const FORMAT: &str = "fidelity-sweep";
const VERSION: u32 = 1;
/// Most cells that are read of a file.
const MOST_CELLS: usize = 1 << 16;

/// sweep.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    format: String,
    version: u32,
    fidelity: String,
    /// Checkpoint by checkpoint, arm by arm, recipe by recipe.
    pub(crate) cells: Vec<CellKey>,
    /// Arguments of `run` that every cell is given.
    shared: Vec<String>,
    /// And those that cells of a device alone are given: other arms refuse them.
    #[serde(default)]
    of_device: Vec<String>,
    /// Whether covariates of the profile are measured.
    pub(crate) profiled: bool,
    /// The part of the cells that is run here.
    pub(crate) shard: Option<Slice>,
}

impl Matrix {
    pub(crate) fn asked(args: &SweepArgs) -> Result<Self, CliError> {
        let registry = resources::registry()?;
        let all = || registry.rows.iter().map(|row| row.name.clone()).collect();
        let checkpoints: Vec<String> = if args.all { all() } else { args.checkpoints.clone() };
        let mut seen = BTreeSet::new();
        if let Some(twice) = checkpoints.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(CliError::CheckpointTwice(twice.clone()));
        }
        // A name that is neither a row nor a path is a mistake, not a result.
        for name in checkpoints.iter().filter(|name| !Path::new(name).exists()) {
            registry.row(name)?;
        }
        if let Some(other) = args.device.iter().find(|device| !["emulator", "hailo"].contains(&device.as_str())) {
            return Err(CliError::SweepDevice(other.clone()));
        }
        if args.hailo.hef.is_some() && checkpoints.len() > 1 {
            return Err(CliError::SweepHef(checkpoints.len()));
        }
        let recipes = if args.recipe.is_empty() { vec![String::new()] } else { args.recipe.clone() };
        let mut cells = Vec::new();
        for checkpoint in &checkpoints {
            for device in &args.device {
                for recipe in &recipes {
                    let [checkpoint, device, recipe] = [checkpoint, device, recipe].map(String::clone);
                    cells.push(CellKey { checkpoint, device, recipe });
                }
            }
        }
        Ok(Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            fidelity: env!("CARGO_PKG_VERSION").to_owned(),
            cells,
            shared: shared(args),
            of_device: of_device(args),
            profiled: !args.no_profile,
            shard: args.shard,
        })
    }

    /// Arguments of `run` that a cell of that arm is given.
    pub(crate) fn shared_with(&self, device: &str) -> impl Iterator<Item = String> {
        let of_device = if device == "hailo" { self.of_device.as_slice() } else { &[] };
        self.shared.iter().chain(of_device).cloned()
    }

    /// Reads sweep.json.
    pub(crate) fn read(folder: &Path) -> Result<Self, CliError> {
        let path = folder.join(FILE);
        let matrix: Self = read(&path)?;
        let whole = matrix.shard.is_none_or(|shard| (1..=shard.of).contains(&shard.index));
        match matrix.format == FORMAT && matrix.version == VERSION && whole && matrix.cells.len() <= MOST_CELLS {
            true => Ok(matrix),
            false => {
                Err(CliError::NoShard { folder: path, reason: format!("not of format {FORMAT}, version {VERSION}") })
            }
        }
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), CliError> {
        let text = serde_json::to_string(self).map(|text| text + "\n").unwrap_or_default();
        resources::write(&folder.join(FILE), text)
    }

    /// Which part of it this is, and all of it.
    pub(crate) fn whole(mut self) -> (Slice, Self) {
        let shard = self.shard.take().unwrap_or(Slice { index: 1, of: 1 });
        (shard, self)
    }

    /// The cells that are run here.
    pub(crate) fn own(&self) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(|index| self.shard.is_none_or(|shard| shard.holds(*index)))
    }
}

/// Arguments of `run` that every cell is given.
fn shared(args: &SweepArgs) -> Vec<String> {
    let mut words = Vec::new();
    let mut give = |flag: &str, value: Option<String>| {
        words.extend(value.map(|value| [flag.to_owned(), value]).into_iter().flatten());
    };
    let prompts = &args.prompts;
    give("--calibration", args.calibration.clone());
    give("--prompts", prompts.prompts.clone());
    prompts.prompt.iter().for_each(|prompt| give("--prompt", Some(prompt.clone())));
    give("--new-tokens", prompts.new_tokens.map(|count| count.to_string()));
    give("--scopes", prompts.scopes.clone());
    give("--taps", Some(prompts.taps.clone()).filter(|taps| taps != "default"));
    let flags = [("--no-diagnosis", args.no_diagnosis), ("--discard-traces", args.discard_traces)];
    words.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned()));
    words
}

/// Arguments of `run` that are of a device alone.
fn of_device(args: &SweepArgs) -> Vec<String> {
    let rows = args.hailo.prefill_rows.map(|rows| ["--prefill-rows".to_owned(), rows.to_string()]);
    let accepted = args.hailo.accept_failed_audit.then(|| "--accept-failed-audit".to_owned());
    rows.into_iter().flatten().chain(accepted).collect()
}
