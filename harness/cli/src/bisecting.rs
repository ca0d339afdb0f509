//! What is measured at each size of a bisection: a checkpoint of that size, or prompts, run as `fidelity run` runs them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use fidelity_diagnose::{LEAST_PROMPTS, Reading, Step, forge};
use fidelity_references::Checkpoint;
use fidelity_trace::{Intervention, Network, PromptRecord};
use fidelity_verdict::{BisectionAxis, Verdict};
use serde_json::json;

use crate::{
    args::{BisectArgs, CheckpointArgs, OutputArgs, PromptArgs, RunArgs},
    commands::run::{Ended, run_one},
    error::CliError,
    inputs::Inputs,
    progress::Progress,
    resources,
};

pub(crate) struct Bench<'a> {
    args: &'a BisectArgs,
    by: BisectionAxis,
    /// Sizes are compiled models.
    on_device: bool,
    folder: &'a Path,
    progress: &'a Progress,
    /// Of the whole checkpoint; of a ladder, of its smallest.
    inputs: Inputs,
    /// The checkpoints of a ladder by width.
    rungs: BTreeMap<usize, PathBuf>,
    /// How often a size was measured.
    measured: BTreeMap<usize, usize>,
}

/// Something to be run.
struct Variant {
    name: String,
    /// None for the checkpoint itself.
    steps: Option<Vec<Step>>,
    /// The block that is left out, and how many there are.
    skipped: Option<u32>,
    blocks: u32,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        args: &'a BisectArgs,
        on_device: bool,
        folder: &'a Path,
        progress: &'a Progress,
    ) -> Result<Self, CliError> {
        let rungs = args.ladder.as_deref().map(rungs).transpose()?.unwrap_or_default();
        let mut checkpoint = args.checkpoint.clone();
        if let Some(first) = rungs.values().next() {
            checkpoint.weights = Some(first.clone());
        }
        progress.say("reading the checkpoint");
        let inputs = Inputs::gather(&checkpoint, &args.prompts, progress)?;
        let architecture = inputs.checkpoint.architecture();
        if architecture.network() == Network::Encoder {
            return Err(CliError::BisectEncoder);
        }
        if let Some(block) = args.block.filter(|block| *block >= architecture.blocks) {
            return Err(CliError::NoBlock { block, blocks: architecture.blocks });
        }
        Ok(Self { args, by: args.by, on_device, folder, progress, inputs, rungs, measured: BTreeMap::new() })
    }

    /// The sizes there are, the smallest first.
    pub(crate) fn sizes(&self) -> Result<Vec<usize>, CliError> {
        let a = self.inputs.checkpoint.architecture();
        Ok(match self.by {
            BisectionAxis::Block => (1..=a.blocks).collect(),
            BisectionAxis::Head => (0..=a.query_heads).collect(),
            BisectionAxis::Hidden => self.rungs.keys().copied().collect(),
            BisectionAxis::Position => {
                let mut lengths: Vec<usize> = self.inputs.prompts.iter().map(|prompt| prompt.token_ids.len()).collect();
                lengths.sort_unstable_by(|a, b| b.cmp(a));
                let longest =
                    lengths.get(LEAST_PROMPTS - 1).copied().ok_or(CliError::FewPrompts { least: LEAST_PROMPTS })?;
                (1..=longest).collect()
            }
        })
    }

    /// What the arm computes at a size.
    pub(crate) fn measure(&mut self, size: usize) -> Result<Reading, CliError> {
        let blocks = self.inputs.checkpoint.architecture().blocks;
        let variant = |name: String, steps| Variant { name, steps, skipped: None, blocks: blocks as u32 };
        let verdict = match self.by {
            BisectionAxis::Block if size == blocks => self.run(size, &variant("whole".into(), None))?,
            BisectionAxis::Block => {
                let depth =
                    Variant { blocks: size as u32, ..variant(format!("depth-{size}"), Some(vec![Step::Depth(size)])) };
                self.run(size, &depth)?
            }
            BisectionAxis::Head => {
                let block = self.args.block.unwrap_or_default();
                let steps = vec![Step::Depth(block + 1), Step::FirstHeads { block, heads: size }];
                let heads = variant(format!("block-{block}-heads-{size}"), Some(steps));
                self.run(size, &Variant { blocks: block as u32 + 1, ..heads })?
            }
            BisectionAxis::Hidden => self.run(size, &variant(format!("hidden-{size}"), None))?,
            BisectionAxis::Position => {
                let verdict = self.run(size, &variant(format!("tokens-{size}"), None))?;
                return Ok(Reading::at_position(&verdict, size - 1));
            }
        };
        Ok(Reading::of(&verdict))
    }

    /// What the arm computes without a block; none where nothing would be left of the network, or it is not compiled.
    pub(crate) fn without(&mut self, block: usize) -> Result<Option<Reading>, CliError> {
        let blocks = self.inputs.checkpoint.architecture().blocks;
        let name = format!("skip-{block}");
        if blocks == 1 || (self.on_device && self.compiled(&name).is_none_or(|hef| !hef.exists())) {
            return Ok(None);
        }
        let steps = Some(vec![Step::Skip(block)]);
        let variant = Variant { name, steps, skipped: Some(block as u32), blocks: blocks as u32 };
        // No size is measured as often.
        self.run(usize::MAX, &variant).map(|verdict| Some(Reading::of(&verdict)))
    }

    fn compiled(&self, name: &str) -> Option<PathBuf> {
        self.args.hefs.as_ref().map(|folder| folder.join(format!("{name}.hef")))
    }

    /// Runs a variant, or reads what it came to before.
    fn run(&mut self, size: usize, variant: &Variant) -> Result<Verdict, CliError> {
        let times = self.measured.entry(size).or_default();
        *times += 1;
        let name = if *times == 1 { variant.name.clone() } else { format!("{}-again-{}", variant.name, *times - 1) };
        let out = self.folder.join(&name);
        let written = out.join("verdict.json");
        if written.is_file() {
            let text = resources::read(&written)?;
            return Ok(Verdict::parse(&text, &written.display().to_string())?);
        }
        self.progress.say(&format!("measuring {name}"));
        let args = self.arguments(size, variant, out)?;
        match run_one(&args)? {
            Ended::Judged(ran) => Ok(ran.verdict),
            Ended::Recorded(_) => unreachable!("no shard is asked for"),
        }
    }

    fn arguments(&self, size: usize, variant: &Variant, out: PathBuf) -> Result<RunArgs, CliError> {
        let args = self.args;
        let checkpoint = match (&variant.steps, self.rungs.get(&size)) {
            (Some(steps), _) => self.of_folder(self.forged(variant, steps)?),
            (None, Some(rung)) => self.of_folder(rung.clone()),
            (None, None) => args.checkpoint.clone(),
        };
        let mut arm = args.arm.clone();
        arm.fault = self.faults(variant)?;
        let row = self.inputs.row.as_ref();
        arm.recipe = arm.recipe.or_else(|| row.and_then(|row| row.recipe.clone()));
        arm.calibration = arm.calibration.or_else(|| row.and_then(|row| row.calibration.clone()));
        let positions = self.by == BisectionAxis::Position;
        if self.on_device && !positions {
            arm.hailo.hef = Some(self.hef(variant, &checkpoint)?);
        }
        let prompts = PromptArgs {
            prompts: Some(self.prompts(positions.then_some(size))?),
            prompt: Vec::new(),
            new_tokens: if positions { Some(0) } else { args.prompts.new_tokens },
            scopes: if positions { Some("prefill".into()) } else { args.prompts.scopes.clone() },
            no_cache: true,
            ..args.prompts.clone()
        };
        Ok(RunArgs {
            checkpoint,
            arm,
            prompts,
            output: OutputArgs { out: Some(out), resume: true, quiet: true },
            json: false,
            discard_traces: true,
            no_diagnosis: true,
            shard: None,
            command: None,
            gate: None,
            history: Some("none".into()),
        })
    }

    fn of_folder(&self, folder: PathBuf) -> CheckpointArgs {
        CheckpointArgs { checkpoint: None, weights: Some(folder), offline: self.args.checkpoint.offline }
    }

    /// Forges a variant unless it is there.
    fn forged(&self, variant: &Variant, steps: &[Step]) -> Result<PathBuf, CliError> {
        let folder = self.folder.join("checkpoints").join(&variant.name);
        if !folder.exists() {
            self.progress.say(&format!("forging {}", variant.name));
            forge(&self.inputs.checkpoint, steps, &folder)?;
        }
        Ok(folder)
    }

    /// Faults in the blocks that are left, where those are now.
    fn faults(&self, variant: &Variant) -> Result<Vec<String>, CliError> {
        let mut kept = Vec::new();
        for fault in &self.args.arm.fault {
            let mut fault: Intervention = fault.parse()?;
            match (fault.block, variant.skipped) {
                (Some(block), Some(skipped)) if block == skipped => continue,
                (Some(block), Some(skipped)) if block > skipped => fault.block = Some(block - 1),
                (Some(block), None) if block >= variant.blocks => continue,
                _ => {}
            }
            kept.push(fault.to_string());
        }
        Ok(kept)
    }

    /// The compiled model of a variant.
    fn hef(&self, variant: &Variant, checkpoint: &CheckpointArgs) -> Result<String, CliError> {
        if variant.steps.is_none() && self.by == BisectionAxis::Block {
            return self.args.arm.hailo.hef.clone().ok_or(CliError::NoHef);
        }
        let hef = self.compiled(&variant.name).ok_or(CliError::NoHefs)?;
        if !hef.exists() {
            let folder = checkpoint.weights.clone().unwrap_or_default();
            return Err(CliError::NotCompiled { folder, hef, out: self.folder.to_owned() });
        }
        Ok(hef.display().to_string())
    }

    /// The prompts as ids, which do not depend on the checkpoint's folder; cut to their first tokens where they are that long.
    fn prompts(&self, tokens: Option<usize>) -> Result<String, CliError> {
        let line = |prompt: &PromptRecord| {
            let ids = match tokens {
                None => Some(prompt.token_ids.as_slice()),
                Some(tokens) => prompt.token_ids.get(..tokens),
            };
            ids.map(|ids| format!("{}\n", json!({ "id": prompt.id, "token_ids": ids })))
        };
        let text: String = self.inputs.prompts.iter().filter_map(line).collect();
        let path = self
            .folder
            .join(tokens.map_or_else(|| "prompts.jsonl".to_owned(), |tokens| format!("prompts-{tokens}.jsonl")));
        resources::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

/// The folders of a ladder by width.
fn rungs(ladder: &Path) -> Result<BTreeMap<usize, PathBuf>, CliError> {
    let failed = |source| CliError::Read { path: ladder.to_owned(), source };
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(ladder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join("config.json").is_file() {
            let checkpoint = Checkpoint::open(&path, &path.file_name().unwrap_or_default().to_string_lossy())?;
            found.insert(checkpoint.architecture().hidden, path);
        }
    }
    if found.is_empty() {
        return Err(CliError::NoLadder { folder: ladder.to_owned() });
    }
    Ok(found)
}
