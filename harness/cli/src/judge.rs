//! From two traces to a verdict.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_compare::{Header, NotComputed, PromptComparison, PromptSettings, compare_prompt, conclude, generated};
use fidelity_references::{Decoder, Tokenizer, local_blocks};
use fidelity_trace::{ArmKind, CheckpointRow, Deviation, Manifest, PromptRecord, Scope, Status, Trace, in_parallel};
use fidelity_verdict::{ArmIdentity, Arms, Generated, PromptResult, Thresholds, Verdict};

use crate::error::CliError;

/// What helps to judge beyond the two traces.
#[derive(Default)]
pub(crate) struct Helpers<'a> {
    pub(crate) row: Option<&'a CheckpointRow>,
    /// The float32 decoder, to tell what each block adds of its own.
    pub(crate) decoder: Option<&'a Decoder>,
    /// To show generated ids as text.
    pub(crate) tokenizer: Option<&'a Tokenizer>,
    /// The scopes to compare; all when absent.
    pub(crate) scopes: Option<&'a [Scope]>,
    pub(crate) jobs: usize,
}

/// A prompt of the reference and where the arm has it.
struct Pair<'a> {
    reference: usize,
    device: Option<usize>,
    record: &'a PromptRecord,
}

pub(crate) fn judge(reference: &Trace, device: &Trace, helpers: &Helpers<'_>) -> Result<Verdict, CliError> {
    let (ours, its) = (reference.manifest(), device.manifest());
    let pairs = pairs(ours, its);
    if pairs.iter().all(|pair| pair.device.is_none()) {
        return Err(CliError::NothingInCommon);
    }
    let settings = PromptSettings {
        noise_floor: &ours.noise_floor,
        logits_step: its.logits_step.as_deref(),
        network: ours.network,
    };
    let comparisons = in_parallel(pairs.len(), helpers.jobs, |index| {
        compare_pair(&pairs[index], reference, device, &settings, helpers)
    })?;
    let thresholds = Thresholds::compiled_in().with(helpers.row.and_then(|row| row.thresholds.as_ref()))?;
    let statuses =
        |of: &Manifest, index: Option<usize>| index.map_or(Status::Skipped, |index| of.prompts[index].status);
    let header = Header {
        checkpoint: ours.checkpoint.clone(),
        arms: Arms { reference: identity(ours), device: identity(its) },
        network: ours.network,
        expect: helpers.row.map_or_else(Vec::new, |row| row.expect.clone()),
        notes: notes(ours, its),
        noise_floor: ours.noise_floor.clone(),
        prompts: pairs.iter().map(|pair| prompt_result(pair, its)).collect(),
        outside_range: its.prompts.iter().map(|prompt| prompt.outside_range.clone()).collect(),
        reference_not_computed: NotComputed::count(pairs.iter().map(|pair| pair.record.status)),
        device_not_computed: NotComputed::count(pairs.iter().map(|pair| statuses(its, pair.device))),
        generated: generations(&pairs, its, &thresholds, helpers.tokenizer),
        thresholds,
    };
    let mut verdict = conclude(header, comparisons);
    verdict.token_text = helpers.tokenizer.map(|tokenizer| token_text(&verdict, tokenizer)).unwrap_or_default();
    Ok(verdict)
}

/// The text of every id that a row names beside what is most probable.
fn token_text(verdict: &Verdict, tokenizer: &Tokenizer) -> BTreeMap<u32, String> {
    let rows = verdict.scopes.values().flat_map(|scope| &scope.rows).filter(|row| !row.reference_top5.is_empty());
    let ids = rows.flat_map(|row| {
        let likely = row.reference_top5.iter().chain(&row.device_top5).map(|(id, _)| *id);
        likely.chain([row.token_id])
    });
    let ids: BTreeSet<u32> = ids.collect();
    ids.into_iter().map(|id| (id, tokenizer.token_text(id))).collect()
}

fn pairs<'a>(ours: &'a Manifest, its: &Manifest) -> Vec<Pair<'a>> {
    let its: BTreeMap<_, _> =
        its.prompts.iter().enumerate().map(|(index, prompt)| (key(prompt), (index, prompt))).collect();
    let paired = ours.prompts.iter().enumerate().map(|(reference, record)| {
        // Another prompt under the same id is not this prompt.
        let same = its.get(&key(record)).filter(|(_, prompt)| prompt.token_ids == record.token_ids);
        Pair { reference, device: same.map(|(index, _)| *index), record }
    });
    paired.collect()
}

/// What makes a prompt of a trace unique.
fn key(prompt: &PromptRecord) -> (&str, u32) {
    (&prompt.id, prompt.repeat)
}

fn compare_pair(
    pair: &Pair<'_>,
    reference: &Trace,
    device: &Trace,
    settings: &PromptSettings<'_>,
    helpers: &Helpers<'_>,
) -> Result<PromptComparison, CliError> {
    let computed = |trace: &Trace, index: usize| trace.manifest().prompts[index].status == Status::Ok;
    let Some(index) = pair.device.filter(|index| computed(device, *index) && computed(reference, pair.reference))
    else {
        return Ok(PromptComparison::default());
    };
    let (ours, mut its) = (reference.prompt(pair.reference)?, device.prompt(index)?);
    its.scopes.retain(|scope, _| helpers.scopes.is_none_or(|scopes| scopes.contains(scope)));
    let tokens = pair.record.token_ids.len();
    let local = helpers.decoder.map(|decoder| local_blocks(decoder, tokens, &its)).transpose();
    let local = local.map_err(|source| CliError::Compute { what: "the blocks' own error", source })?.flatten();
    Ok(compare_prompt(&ours, &its, local.as_ref(), settings))
}

fn identity(manifest: &Manifest) -> ArmIdentity {
    ArmIdentity {
        arm: manifest.arm.clone(),
        deviations: manifest.deviations.clone(),
        logits_step: manifest.logits_step.clone(),
    }
}

fn notes(ours: &Manifest, its: &Manifest) -> Vec<String> {
    let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    let mut notes = Vec::new();
    if differ(&ours.checkpoint.weights_sha256, &its.checkpoint.weights_sha256) {
        notes.push("the two traces are of different weights (weights_sha256 differs)".to_owned());
    }
    let known: BTreeMap<_, _> = ours.prompts.iter().map(|prompt| (key(prompt), &prompt.token_ids)).collect();
    let count = |what: &dyn Fn(&PromptRecord) -> bool| its.prompts.iter().filter(|prompt| what(prompt)).count();
    match count(&|prompt| !known.contains_key(&key(prompt))) {
        0 => {}
        count => notes.push(format!("{count} prompts of the arm are not in the reference and were not compared")),
    }
    match count(&|prompt| known.get(&key(prompt)).is_some_and(|ids| **ids != prompt.token_ids)) {
        0 => {}
        count => {
            notes.push(format!("{count} prompts have other tokens in the arm under the same id and were not compared"))
        }
    }
    if ours.arm.kind != ArmKind::Reference {
        notes.push(format!(
            "the first trace is of the arm `{}`, not of a reference: this compares two arms",
            ours.arm.kind
        ));
    }
    if ours.deviations.iter().any(|deviation| deviation.kind != "emulation") {
        notes.push("the first trace carries a fault injected on purpose: it is no judge".to_owned());
    }
    for (whose, manifest) in [("reference", ours), ("arm", its)] {
        if !manifest.complete {
            notes.push(format!("the {whose}'s trace is not complete: its recording was cut short"));
        }
    }
    let not_emulated: Vec<&str> = its.deviations.iter().flat_map(Deviation::not_emulated).collect();
    if !not_emulated.is_empty() {
        notes.push(format!("not emulated: {}", not_emulated.join(", ")));
    }
    if ours.noise_floor.is_empty() {
        notes.push("the reference did not measure its noise floor; exact equality counts as noise 0".to_owned());
    }
    notes
}

fn prompt_result(pair: &Pair<'_>, its: &Manifest) -> PromptResult {
    let record = pair.record;
    let device = pair.device.map(|index| &its.prompts[index]);
    let (status, error) = match (record.status, device) {
        (Status::Ok, Some(device)) => (device.status, device.error.clone()),
        (Status::Ok, None) => (Status::Skipped, Some("not in the arm's trace, or other tokens there".to_owned())),
        (status, _) => (status, record.error.clone()),
    };
    PromptResult {
        id: record.id.clone(),
        text: record.text.clone(),
        token_ids: record.token_ids.clone(),
        status,
        error,
    }
}

fn generations(
    pairs: &[Pair<'_>],
    its: &Manifest,
    thresholds: &Thresholds,
    tokenizer: Option<&Tokenizer>,
) -> Option<Generated> {
    let ids = |record: &PromptRecord| record.generated.as_ref().map(|generated| generated.ids.clone());
    let reference: Vec<_> = pairs.iter().map(|pair| ids(pair.record)).collect();
    let device: Vec<_> = pairs.iter().map(|pair| pair.device.and_then(|index| ids(&its.prompts[index]))).collect();
    let mut generated = generated(&reference, &device, thresholds)?;
    if let Some(tokenizer) = tokenizer {
        generated.reference_text = generated.reference_ids.iter().map(|ids| tokenizer.decode(ids)).collect();
        generated.device_text = generated.device_ids.iter().map(|ids| tokenizer.decode(ids)).collect();
    }
    Some(generated)
}
