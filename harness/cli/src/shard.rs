//! A part of a run's or a recording's prompts, computed by itself: which prompts, and what `fidelity merge` must know of them.
//!
//! A prompt's shard depends on its place alone. A row does not depend on which prompts are computed together (docs/ARCHITECTURE.md),
//! and neither calibration nor what a device can compute depends on the shard, so that the shards together hold what one run would.

use std::{fs, io::Read, path::Path};

use fidelity_reports::{duration, printable};
use fidelity_trace::{PromptRecord, Scope, Status, Trace, hex};
use fidelity_verdict::ExitCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    args::{ArmArgs, PromptArgs, RecordArgs, RunArgs, Slice},
    arms::{ArmPlan, ArmRequest},
    error::CliError,
    inputs::Inputs,
    output::print,
    resources,
    run_folder::RunFolder,
};

/// What a shard's folder holds beside its traces; written last.
pub(crate) const FILE: &str = "shard.json";
const FORMAT: &str = "fidelity-shard";
const VERSION: u32 = 1;
/// shard.json above this is refused.
const MOST_BYTES: u64 = 64 << 20;

/// What was asked for, whatever the shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Work {
    /// `run` or `record`.
    pub(crate) command: String,
    /// The arm, as asked for.
    pub(crate) device: String,
    /// The emulator that is the arm, or that runs beside a device.
    pub(crate) arm: Option<ArmRequest>,
    /// Sites, as asked for.
    pub(crate) taps: String,
    /// Whether what is not faithful is diagnosed.
    pub(crate) diagnosed: bool,
}

impl Work {
    pub(crate) fn run(args: &RunArgs, plan: Option<&ArmPlan>) -> Self {
        Self::of("run", &args.arm, &args.prompts, plan, !args.no_diagnosis)
    }

    pub(crate) fn record(args: &RecordArgs, plan: Option<&ArmPlan>) -> Self {
        Self::of("record", &args.arm, &args.prompts, plan, false)
    }

    fn of(command: &str, arm: &ArmArgs, prompts: &PromptArgs, plan: Option<&ArmPlan>, diagnosed: bool) -> Self {
        Self {
            command: command.to_owned(),
            device: arm.device.clone(),
            arm: plan.map(|plan| plan.request().clone()),
            taps: prompts.taps.clone(),
            diagnosed,
        }
    }

    /// The traces of its folder; `record` writes one, into the folder itself.
    pub(crate) fn traces(&self) -> Vec<&'static str> {
        match (self.command.as_str(), self.device.as_str(), &self.arm) {
            ("record", ..) => vec![""],
            (_, "hailo", Some(_)) => vec!["reference", "arm", "emulator"],
            _ => vec!["reference", "arm"],
        }
    }
}

/// shard.json.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Shard {
    format: String,
    version: u32,
    pub(crate) fidelity: String,
    pub(crate) shard: Slice,
    /// Prompts of all shards.
    pub(crate) prompts: usize,
    /// SHA-256 over all of them.
    pub(crate) prompts_sha256: String,
    pub(crate) prompts_origin: String,
    /// The row of checkpoints.toml, if it was asked for by one.
    pub(crate) row: Option<String>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) new_tokens: usize,
    /// How many keys a position may see, where a device's cache has fewer entries than the sequence tokens.
    pub(crate) keys: Option<u32>,
    pub(crate) work: Work,
    #[serde(flatten)]
    pub(crate) told: Told,
}

/// What is known only once a shard was computed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    /// What whoever reads the verdict must know of the device.
    pub(crate) notes: Vec<String>,
    /// The ids that the arm was fed, by prompt of the shard.
    pub(crate) continuations: Vec<Vec<u32>>,
}

/// Which prompts were left.
pub(crate) struct Cut {
    shard: Slice,
    prompts: usize,
    prompts_sha256: String,
    own: usize,
}

impl Cut {
    /// Leaves a shard's prompts in `inputs`; they keep the names of their files.
    pub(crate) fn of(shard: Slice, inputs: &mut Inputs) -> Self {
        let (prompts, prompts_sha256) = (inputs.prompts.len(), digest(&inputs.prompts));
        let mut place = 0..;
        inputs.prompts.retain(|_| place.next().is_some_and(|place| shard.holds(place)));
        Self { shard, prompts, prompts_sha256, own: inputs.prompts.len() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.own == 0
    }

    /// Writes shard.json and run.json.
    pub(crate) fn finish(
        &self,
        folder: RunFolder,
        work: &Work,
        inputs: &Inputs,
        told: Told,
    ) -> Result<RecordedShard, CliError> {
        let shard = Shard {
            format: FORMAT.to_owned(),
            version: VERSION,
            fidelity: env!("CARGO_PKG_VERSION").to_owned(),
            shard: self.shard,
            prompts: self.prompts,
            prompts_sha256: self.prompts_sha256.clone(),
            prompts_origin: inputs.prompts_origin.clone(),
            row: inputs.row.as_ref().map(|row| row.name.clone()),
            scopes: inputs.scopes.clone(),
            new_tokens: inputs.new_tokens,
            keys: inputs.keys,
            work: work.clone(),
            told,
        };
        let mut failed = 0;
        if !self.is_empty() {
            for trace in work.traces() {
                let trace = Trace::open(&folder.path().join(trace))?;
                failed += trace.manifest().prompts.iter().filter(|prompt| prompt.status != Status::Ok).count();
            }
        }
        folder.describe(&inputs.prompts_origin)?;
        let text = serde_json::to_string(&shard).map(|text| text + "\n").unwrap_or_default();
        resources::write(&folder.path().join(FILE), text)?;
        Ok(RecordedShard { shard: self.shard, own: self.own, of: self.prompts, failed, folder })
    }
}

/// A shard whose traces are written.
pub(crate) struct RecordedShard {
    shard: Slice,
    own: usize,
    of: usize,
    failed: usize,
    folder: RunFolder,
}

impl RecordedShard {
    /// Says what was recorded. Exit code 0 says that it was, not that anything is faithful.
    pub(crate) fn say(&self) -> u8 {
        let Self { shard, own, of, failed, folder } = self;
        let time = duration(folder.wall_time());
        let folder = printable(&folder.path().display().to_string());
        let what = match (own, failed) {
            (0, _) => format!("is empty: there are {of} prompts"),
            (_, 0) => format!("recorded: {own} of {of} prompts"),
            (_, failed) => format!("recorded: {own} of {of} prompts, {failed} failed"),
        };
        print(&format!("shard {shard} {what}, not judged · {time} · join with `fidelity merge` · folder {folder}\n"));
        if *failed > 0 { ExitCode::Device.code() } else { ExitCode::Pass.code() }
    }
}

impl Shard {
    /// Reads the shard.json of a folder, if it has one.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, CliError> {
        let path = folder.join(FILE);
        let unfit = |reason: String| CliError::NoShard { folder: folder.to_owned(), reason };
        if !path.exists() {
            return Ok(None);
        }
        let failed = |source| CliError::Read { path: path.clone(), source };
        let mut text = Vec::new();
        let file = fs::File::open(&path).map_err(failed)?;
        file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(unfit(format!("{FILE} has more than {MOST_BYTES} bytes")));
        }
        let shard: Self = serde_json::from_slice(&text).map_err(|error| unfit(format!("{FILE}: {error}")))?;
        let known = shard.format == FORMAT && shard.version == VERSION;
        let whole = (1..=shard.shard.of).contains(&shard.shard.index) && shard.prompts > 0;
        let of_known = ["run", "record"].contains(&shard.work.command.as_str());
        match known && whole && of_known {
            true => Ok(Some(shard)),
            false => Err(unfit(format!("{FILE} is not of format {FORMAT}, version {VERSION}"))),
        }
    }

    /// How many prompts the shard has.
    pub(crate) fn own(&self) -> usize {
        let Slice { index, of } = self.shard;
        (self.prompts + of - index) / of
    }
}

/// Over ids, texts and tokens.
pub(crate) fn digest(prompts: &[PromptRecord]) -> String {
    let identity: Vec<_> = prompts.iter().map(|prompt| (&prompt.id, &prompt.text, &prompt.token_ids)).collect();
    hex(&Sha256::digest(json!(identity).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prompt_is_of_one_shard_whatever_follows_it() {
        for of in 1..=5 {
            for place in 0..20 {
                let holding = (1..=of).filter(|index| Slice { index: *index, of }.holds(place)).count();
                assert_eq!(holding, 1);
            }
        }
    }

    #[test]
    fn shards_are_as_large_as_what_they_hold() {
        for (prompts, of) in [(1, 1), (7, 3), (2, 5), (16, 4)] {
            for index in 1..=of {
                let shard = Slice { index, of };
                let held = (0..prompts).filter(|place| shard.holds(*place)).count();
                assert_eq!((prompts + of - index) / of, held, "{shard} of {prompts}");
            }
        }
    }
}
