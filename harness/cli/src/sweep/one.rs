//! One cell: the same code as `fidelity run`, and a row that says what became of it.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use fidelity_reports::printable;
use fidelity_trace::Registry;
use fidelity_verdict::{CELL_FORMAT, CELL_VERSION, Cell, CellState, Covariate, Covariates, ExitCode};

use crate::{
    args::{CheckpointArgs, PromptArgs, SweepArgs},
    arms::ArmPlan,
    commands::{
        merge::parse_run,
        run::{Ended, run_one},
    },
    device::Device,
    error::CliError,
    inputs::Inputs,
    output,
    progress::Progress,
    resources,
    sweep::{Matrix, cell_folder, finished, keep, known},
};

/// Runs cells, checkpoint after checkpoint.
pub(crate) struct Runner<'a> {
    pub(crate) args: &'a SweepArgs,
    pub(crate) matrix: &'a Matrix,
    pub(crate) folder: &'a Path,
    pub(crate) progress: &'a Progress,
    registry: Registry,
    /// The checkpoint that was looked at last: its cells come one after another.
    last: Option<(String, Looked)>,
}

/// A checkpoint that could be opened, and what is known of it; else why it could not.
type Looked = Result<(Inputs, Covariates), (CellState, u8, String)>;

impl<'a> Runner<'a> {
    pub(crate) fn new(
        args: &'a SweepArgs,
        matrix: &'a Matrix,
        folder: &'a Path,
        progress: &'a Progress,
    ) -> Result<Self, CliError> {
        Ok(Self { args, matrix, folder, progress, registry: resources::registry()?, last: None })
    }

    /// A cell's result: of an earlier sweep that it finished in, else run now. What fails is a result; an interrupted sweep ends.
    pub(crate) fn cell(&mut self, index: usize) -> Result<Cell, CliError> {
        if let Some(done) = finished(self.folder, self.matrix, index)?.filter(|cell| cell.state == CellState::Done) {
            return Ok(done);
        }
        let mut cell = self.unrun(index);
        match self.words(index) {
            Err(reason) => cell.reason = reason,
            Ok(words) => self.run(index, words, &mut cell)?,
        }
        keep(self.folder, &cell)?;
        Ok(cell)
    }

    /// The cell before anything is known.
    fn unrun(&self, index: usize) -> Cell {
        let key = self.matrix.cells[index].clone();
        let of_row =
            self.registry.rows.iter().find(|row| row.name == key.checkpoint).and_then(|row| row.recipe.clone());
        let recipe = match (key.recipe.as_str(), key.device.as_str()) {
            ("", "hailo") => of_row.unwrap_or_else(|| "as compiled".to_owned()),
            ("", _) => of_row.unwrap_or_else(|| "a16w8".to_owned()),
            (recipe, _) => Path::new(recipe).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Cell {
            format: CELL_FORMAT.to_owned(),
            version: CELL_VERSION,
            index,
            state: CellState::NotRun,
            reason: String::new(),
            exit_code: ExitCode::Inconclusive.code(),
            checkpoint: key.checkpoint.clone(),
            source: String::new(),
            revision: None,
            weights_sha256: None,
            arm: key.device.clone(),
            recipe,
            recipe_sha256: None,
            verdict: None,
            scopes: BTreeMap::new(),
            covariates: Covariates::new(),
            versions: BTreeMap::from([("fidelity".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            run: cell_folder(self.matrix, index),
            command: String::new(),
            key,
        }
    }

    /// The command of the cell; else why it has none.
    fn words(&self, index: usize) -> Result<Vec<String>, String> {
        let key = &self.matrix.cells[index];
        let row = self.registry.rows.iter().find(|row| row.name == key.checkpoint);
        let flag = if row.is_some() { "--checkpoint" } else { "--weights" };
        let mut words = ["run", flag, &key.checkpoint, "--device", &key.device].map(str::to_owned).to_vec();
        if !key.recipe.is_empty() {
            words.extend(["--recipe".to_owned(), key.recipe.clone()]);
        }
        if key.device == "hailo" {
            let hef = self.hef(&key.checkpoint).ok_or("checkpoints.toml names no compiled model (`hef`) of it")?;
            words.extend(["--hef".to_owned(), hef]);
        }
        words.extend(self.matrix.shared_with(&key.device));
        Ok(words)
    }

    /// The compiled model of a checkpoint.
    fn hef(&self, checkpoint: &str) -> Option<String> {
        let row = self.registry.rows.iter().find(|row| row.name == checkpoint);
        self.args.hailo.hef.clone().or_else(|| row.and_then(|row| row.hef.clone()))
    }

    fn run(&mut self, index: usize, words: Vec<String>, cell: &mut Cell) -> Result<(), CliError> {
        cell.command = command(&words);
        let parsed = parse_run(self.complete(index, &words))?;
        self.look(&cell.key.checkpoint, &parsed.checkpoint)?;
        let Some((_, looked)) = &self.last else { return Ok(()) };
        match looked {
            Err((state, code, reason)) => {
                (cell.state, cell.exit_code, cell.reason) = (*state, *code, reason.clone());
                return Ok(());
            }
            Ok((inputs, covariates)) => {
                let identity = inputs.checkpoint.identity();
                cell.checkpoint.clone_from(&identity.name);
                cell.source.clone_from(&identity.source);
                cell.weights_sha256.clone_from(&identity.weights_sha256);
                cell.covariates.clone_from(covariates);
                // What the recipe is worth to the checkpoint is said by the run, if it cannot be read.
                if let (Ok(Device::Emulator), Ok(plan)) =
                    (Device::asked(&parsed.arm), ArmPlan::make(&parsed.arm, inputs))
                {
                    cell.covariates.extend(plan.quantised().map(known::of_recipe).unwrap_or_default());
                }
            }
        }
        let mut run = parsed;
        run.command = Some(cell.command.clone());
        match run_one(&run) {
            Ok(Ended::Judged(ran)) => {
                cell.conclude(&ran.verdict);
                // Of a file on the worker's machine its logits tell.
                let shards = ran.logit_shards.filter(|_| cell.key.device == "hailo");
                if let Some(shards) = shards {
                    cell.covariates.entry(Covariate::LmHeadShards).or_insert(shards as f64);
                }
                let told =
                    ran.environment.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
                cell.versions.extend(told);
            }
            Ok(Ended::Recorded(_)) => cell.reason = "a shard has no verdict".to_owned(),
            Err(error) => (cell.state, cell.exit_code, cell.reason) = failure(error)?,
        }
        Ok(())
    }

    /// The words that change nothing of the result.
    fn complete(&self, index: usize, words: &[String]) -> Vec<OsString> {
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words.extend(["--out".into(), self.folder.join(cell_folder(self.matrix, index)).into(), "--resume".into()]);
        let (hailo, prompts) = (&self.args.hailo, &self.args.prompts);
        let mut give = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| [OsString::from(flag), value.into()]).into_iter().flatten());
        };
        give("--jobs", prompts.jobs.map(|jobs| jobs.to_string()));
        give("--worker", hailo.worker.worker.clone());
        if self.matrix.cells[index].device == "hailo" {
            give("--device-id", hailo.device_id.clone());
            give("--wait", hailo.wait.map(|seconds| seconds.to_string()));
            give("--step-timeout", hailo.step_timeout.map(|seconds| seconds.to_string()));
        }
        words.extend(prompts.no_cache.then(|| "--no-cache".into()));
        words.extend(self.args.offline.then(|| "--offline".into()));
        words.extend(self.args.output.quiet.then(|| "--quiet".into()));
        words
    }

    /// Opens and profiles the checkpoint unless it is the last one.
    fn look(&mut self, name: &str, asked: &CheckpointArgs) -> Result<(), CliError> {
        if self.last.as_ref().is_some_and(|(last, _)| last == name) {
            return Ok(());
        }
        self.last = None;
        let prompts =
            PromptArgs { new_tokens: Some(0), scopes: None, taps: "default".into(), ..self.args.prompts.clone() };
        let gathered = Inputs::gather(asked, &prompts, self.progress);
        let looked = gathered.and_then(|inputs| {
            let mut covariates = known::of_checkpoint(&inputs, self.matrix.profiled, self.progress)?;
            covariates.extend(self.hef(name).map(|hef| known::of_compiled(Path::new(&hef))).unwrap_or_default());
            Ok((inputs, covariates))
        });
        let looked = match looked {
            Ok(looked) => Ok(looked),
            Err(error) => Err(failure(error)?),
        };
        self.last = Some((name.to_owned(), looked));
        Ok(())
    }
}

/// What an error is to its cell: what the Hub does not give was not run. An interruption is the sweep's.
fn failure(error: CliError) -> Result<(CellState, u8, String), CliError> {
    let code = error.exit_code();
    if code == ExitCode::Interrupted {
        return Err(error);
    }
    let reason = error.to_string();
    output::warn(&printable(&reason));
    Ok(match error {
        CliError::Hub(_) => (CellState::NotRun, ExitCode::Inconclusive.code(), reason),
        _ => (CellState::Failed, code.code(), reason),
    })
}

/// The command, ready to be pasted into a shell.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    std::iter::once("fidelity".to_owned()).chain(words.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}
