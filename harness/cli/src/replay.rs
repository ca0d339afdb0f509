//! A stored trace in the place of the device: it decides what the reference computes, and is judged as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use fidelity_reports::printable;
use fidelity_trace::{
    Arm, ArmKind, CheckpointRow, Manifest, PromptRecord, Registry, Scope, ScopeTrace, Site, Status, Taps, Trace,
};
use fidelity_verdict::Verdict;

use crate::{args::PromptArgs, error::CliError, inputs::Inputs};

/// A stored trace and what it holds.
pub(crate) struct Replay {
    pub(crate) trace: Trace,
    path: PathBuf,
    scopes: BTreeSet<Scope>,
    sites: BTreeSet<Site>,
    /// The tokens fed after each prompt, by prompt of the trace; `None` where they are not one after another.
    fed: Vec<Option<Vec<u32>>>,
    /// Ids that must be generated for every row to have its counterpart.
    needed: usize,
    /// Ids that were generated, as far as the trace says.
    new_tokens: usize,
}

impl Replay {
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        let trace = Trace::open(path)?;
        let mut replay = Self {
            trace,
            path: path.to_owned(),
            scopes: BTreeSet::new(),
            sites: BTreeSet::new(),
            fed: Vec::new(),
            needed: 0,
            new_tokens: 0,
        };
        let prompts = replay.trace.manifest().prompts.clone();
        for (index, prompt) in prompts.iter().enumerate() {
            replay.look(index, prompt)?;
        }
        // The rows of some sites are as wide as what was asked for, not as what came.
        let asked = replay.trace.manifest().other.get("settings").and_then(|it| it["new_tokens"].as_u64());
        let asked = asked.filter(|_| replay.needed > 0).map_or(0, |asked| usize::try_from(asked).unwrap_or(usize::MAX));
        replay.new_tokens = replay.needed.max(asked);
        match prompts.iter().find(|prompt| prompt.status == Status::Failed) {
            _ if !replay.scopes.is_empty() => Ok(replay),
            Some(failed) => Err(CliError::EveryPromptFailed(failed.error.clone().unwrap_or_default())),
            None => Err(replay.wrong("no prompt in it was computed, so there is nothing to judge")),
        }
    }

    fn look(&mut self, index: usize, prompt: &PromptRecord) -> Result<(), CliError> {
        if prompt.status != Status::Ok {
            self.fed.push(Some(Vec::new()));
            return Ok(());
        }
        let stored = self.trace.prompt(index)?;
        let held = stored.scopes.iter().filter(|(_, scope)| !scope.positions.is_empty());
        for (scope, captured) in held {
            self.scopes.insert(*scope);
            self.sites.extend(captured.sites.keys());
        }
        let steps = [Scope::Tbt, Scope::TbtSelf].into_iter().find_map(|scope| stored.scopes.get(&scope));
        let fed = steps.map_or_else(|| Some(Vec::new()), |steps| after_prompt(steps, prompt.token_ids.len()));
        let mut needed = fed.as_ref().map_or(0, |fed| if fed.is_empty() { 0 } else { fed.len() + 1 });
        if let Some(generated) = &prompt.generated {
            self.scopes.insert(Scope::TbtFree);
            needed = needed.max(generated.ids.len());
        }
        let reach = steps.and_then(|steps| steps.positions.iter().max());
        let steps = reach.map_or(0, |last| (*last as usize + 2).saturating_sub(prompt.token_ids.len()));
        self.needed = self.needed.max(needed).max(steps);
        self.fed.push(fed);
        Ok(())
    }

    /// What is asked of the reference: what was asked for, and of the rest what the trace holds.
    pub(crate) fn asked(&self, asked: &PromptArgs) -> Result<PromptArgs, CliError> {
        let names = |scopes: &BTreeSet<Scope>| scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(",");
        if let Some(list) = &asked.scopes {
            let lacking =
                list.split(',').map(str::trim).filter_map(Scope::named).find(|scope| !self.scopes.contains(scope));
            if let Some(scope) = lacking {
                return Err(self.wrong(&format!("--scopes asks for {scope}, but it holds {}", names(&self.scopes))));
            }
        }
        let known = asked.taps.trim() != "default" || self.sites.iter().all(|site| Taps::Default.includes(*site));
        let sites = || self.sites.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        Ok(PromptArgs {
            scopes: asked.scopes.clone().or_else(|| Some(names(&self.scopes))),
            taps: if known { asked.taps.clone() } else { sites() },
            new_tokens: asked.new_tokens.or(Some(self.new_tokens)),
            prompts: asked.prompts.clone(),
            prompt: asked.prompt.clone(),
            ..*asked
        })
    }

    /// Refuses a checkpoint that cannot be the trace's.
    pub(crate) fn check(&self, inputs: &Inputs, reference: &Path) -> Result<(), CliError> {
        let blocks = inputs.checkpoint.architecture().blocks;
        if let Some(site) = self.sites.iter().find(|site| site.block().is_some_and(|block| block as usize >= blocks)) {
            return Err(
                self.wrong(&format!("it holds {site}, but the checkpoint has {blocks} blocks: is it of another one?"))
            );
        }
        let vocabulary = inputs.checkpoint.architecture().vocabulary;
        if let Some(id) = self.fed.iter().flatten().flatten().find(|id| **id as usize >= vocabulary) {
            return Err(self.wrong(&format!("it was fed token {id}, but the checkpoint's vocabulary is {vocabulary}")));
        }
        // The reference is written there, and may be deleted afterwards.
        let same = |path: &Path| fs::canonicalize(path).ok();
        if same(&self.path).is_some_and(|own| same(reference).is_some_and(|reference| own.starts_with(reference))) {
            return Err(self.wrong("the reference would be written over it; choose another folder with --out"));
        }
        Ok(())
    }

    /// What the reference is fed after each of its prompts, so that every row of the trace has its counterpart; `None` when
    /// the trace holds no steps, or steps with gaps, and the reference feeds its own ids.
    pub(crate) fn continuations(&self, inputs: &Inputs) -> Option<Vec<Vec<u32>>> {
        if !self.steps() || self.fed.iter().any(Option::is_none) {
            return None;
        }
        let key = |prompt: &PromptRecord| (prompt.id.clone(), prompt.repeat, prompt.token_ids.clone());
        let held = &self.trace.manifest().prompts;
        let fed: BTreeMap<_, _> = held.iter().map(key).zip(self.fed.iter().flatten()).collect();
        let continued = inputs.prompts.iter().map(|prompt| {
            let mut ids = fed.get(&key(prompt)).map_or_else(Vec::new, |ids| (*ids).clone());
            ids.truncate(inputs.new_tokens.saturating_sub(1));
            // The last id of a continuation is not fed.
            ids.extend((!ids.is_empty()).then_some(0));
            ids
        });
        Some(continued.collect())
    }

    fn steps(&self) -> bool {
        self.scopes.contains(&Scope::Tbt) || self.scopes.contains(&Scope::TbtSelf)
    }

    /// The row of checkpoints.toml, if the trace says that it is of this checkpoint; a name alone proves nothing.
    pub(crate) fn own_row<'r>(&self, row: Option<&'r CheckpointRow>) -> Option<&'r CheckpointRow> {
        row.filter(|row| is_of(self.trace.manifest(), row))
    }

    /// Says whose trace this is, and what a reader must know of it. `fed` is what the reference was fed after each prompt.
    pub(crate) fn sign(
        &self,
        verdict: &mut Verdict,
        row: Option<&CheckpointRow>,
        reference: &Manifest,
        fed: Option<&[Vec<u32>]>,
        new_tokens: usize,
    ) {
        let manifest = self.trace.manifest();
        verdict.arms.device.arm = replayed(&manifest.arm);
        let said = &manifest.checkpoint;
        if said.name.is_empty() && said.source.is_empty() {
            verdict.notes.push("the replayed trace does not say which checkpoint it is of".to_owned());
        } else if (&said.name, &said.source) != (&verdict.checkpoint.name, &verdict.checkpoint.source) {
            let (name, source) = (&said.name, &said.source);
            verdict.notes.push(format!("the replayed trace says it is of checkpoint {name} ({source})"));
        }
        if let Some(row) = row.filter(|row| self.own_row(Some(row)).is_none())
            && (row.thresholds.is_some() || !row.expect.is_empty())
        {
            let name = &row.name;
            verdict.notes.push(format!(
                "thresholds and expectations of `{name}` in checkpoints.toml were not applied: the trace is not of that name and source"
            ));
        }
        let own = reference.prompts.iter().map(|prompt| prompt.generated.as_ref().map_or(&[][..], |it| &it.ids));
        let differs = |(fed, own): &(&Vec<u32>, &[u32])| fed.iter().rev().skip(1).rev().zip(*own).any(|(a, b)| a != b);
        match fed.unwrap_or_default().iter().zip(own).filter(differs).count() {
            0 => {}
            count => verdict.notes.push(format!(
                "in {count} prompts the arm was fed other ids after the prompt than the reference would choose; the reference was fed the arm's"
            )),
        }
        if new_tokens < self.needed && !verdict.scopes.keys().all(|scope| matches!(scope, Scope::Base | Scope::Prefill))
        {
            verdict.notes.push(format!(
                "the trace reaches {} ids beyond its prompts, the reference generated {new_tokens}: later steps were not compared",
                self.needed
            ));
        }
        if self.steps() && self.fed.iter().any(Option::is_none) {
            verdict.notes.push(
                "the trace's steps are not one position after another: the reference was fed its own greedy ids"
                    .to_owned(),
            );
        }
    }

    /// Whether any prompt has rows of a site.
    pub(crate) fn holds(&self, site: Site) -> bool {
        self.sites.contains(&site)
    }

    /// The name of the checkpoint that the trace says it is of, if that is a row of checkpoints.toml.
    pub(crate) fn own_name(&self, registry: &Registry) -> Result<String, CliError> {
        let said = &self.trace.manifest().checkpoint;
        match registry.rows.iter().find(|row| is_of(self.trace.manifest(), row)) {
            Some(row) => Ok(row.name.clone()),
            None if said.name.is_empty() && said.source.is_empty() => {
                Err(self.wrong("it does not say which checkpoint it is of; give --checkpoint or --weights"))
            }
            None => {
                let (name, source) = (printable(&said.name), printable(&said.source));
                Err(self.wrong(&format!(
                    "it is of checkpoint `{name}` ({source}), which is not in checkpoints.toml; give --weights"
                )))
            }
        }
    }

    pub(crate) fn wrong(&self, reason: &str) -> CliError {
        CliError::UnfitTrace { trace: self.path.clone(), reason: reason.to_owned() }
    }
}

/// Whether a trace says that it is of the checkpoint of a row.
pub(crate) fn is_of(manifest: &Manifest, row: &CheckpointRow) -> bool {
    row.name == manifest.checkpoint.name && row.source.to_string() == manifest.checkpoint.source
}

fn replayed(arm: &Arm) -> Arm {
    if arm.kind == ArmKind::Replay {
        return arm.clone();
    }
    let kind = arm.kind.to_string();
    let name = if arm.name.starts_with(&kind) { arm.name.clone() } else { format!("{kind} {}", arm.name) };
    Arm { kind: ArmKind::Replay, name: format!("of {}", name.trim_end()), detail: arm.detail.clone() }
}

/// The tokens of the steps, if they are those of the positions after a prompt, one after another.
fn after_prompt(steps: &ScopeTrace, prompt: usize) -> Option<Vec<u32>> {
    let fed: BTreeMap<u32, u32> = steps.positions.iter().copied().zip(steps.token_ids.iter().copied()).collect();
    let consecutive = fed.keys().zip(prompt..).all(|(position, expected)| *position as usize == expected);
    consecutive.then(|| fed.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_fed_again_only_if_none_is_missing() {
        let steps = |positions: &[u32]| ScopeTrace {
            positions: positions.to_vec(),
            token_ids: positions.iter().map(|position| position + 100).collect(),
            ..ScopeTrace::default()
        };
        assert_eq!(after_prompt(&steps(&[4, 3, 5]), 3), Some(vec![103, 104, 105]));
        assert_eq!(after_prompt(&steps(&[3, 5]), 3), None);
        assert_eq!(after_prompt(&steps(&[4]), 3), None);
        assert_eq!(after_prompt(&steps(&[]), 3), Some(vec![]));
    }

    #[test]
    fn a_replayed_arm_says_what_it_is_a_replay_of() {
        let arm = |kind, name: &str| replayed(&Arm { kind, name: name.into(), detail: serde_json::Map::new() }).name;
        assert_eq!(arm(ArmKind::Emulator, "a16w8"), "of emulator a16w8");
        assert_eq!(arm(ArmKind::Import, ""), "of import");
        assert_eq!(arm(ArmKind::Replay, "of emulator a16w8"), "of emulator a16w8");
    }
}
