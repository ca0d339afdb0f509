//! What a command is asked to compute: checkpoint, prompts, scopes, sites. Everything is checked before anything is written.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Mutex, PoisonError},
};

use fidelity_emulator::{CalibrationSet, Distribution};
use fidelity_references::{Checkpoint, HubSettings, fetch};
use fidelity_trace::{
    BosConvention, CheckpointRow, Network, Prompt, PromptRecord, Scope, Site, Source, Taps, prompts_from_texts,
};

use crate::{
    args::{CheckpointArgs, PromptArgs},
    error::CliError,
    output,
    progress::Progress,
    resources, threads,
};

/// How many ids are generated after each prompt unless asked otherwise.
const DEFAULT_NEW_TOKENS: usize = 32;

/// A KV-cache is allocated for the whole sequence before its first step.
const LONGEST_SEQUENCE: usize = 1 << 20;

pub(crate) struct Inputs {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) row: Option<CheckpointRow>,
    pub(crate) prompts: Vec<PromptRecord>,
    pub(crate) prompts_origin: String,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) taps: Taps,
    pub(crate) new_tokens: usize,
    pub(crate) jobs: usize,
    /// A kept reference may be used, and this one kept.
    pub(crate) cached: bool,
    /// How many keys a position may see, where a device's cache has fewer entries than the sequence tokens.
    pub(crate) keys: Option<u32>,
}

impl Inputs {
    pub(crate) fn gather(
        checkpoint: &CheckpointArgs,
        asked: &PromptArgs,
        progress: &Progress,
    ) -> Result<Self, CliError> {
        Self::with_prompts(checkpoint, asked, progress, |checkpoint, row| {
            let (origin, prompts) = prompts(asked, row)?;
            Ok((origin, tokenised(checkpoint, row, &prompts)?))
        })
    }

    /// The same for prompts that a trace holds, already tokenised.
    pub(crate) fn gather_from(
        checkpoint: &CheckpointArgs,
        asked: &PromptArgs,
        recorded: &[PromptRecord],
        origin: String,
        progress: &Progress,
    ) -> Result<Self, CliError> {
        Self::with_prompts(checkpoint, asked, progress, |_, _| {
            Ok((origin, recorded.iter().enumerate().map(|(index, prompt)| unrecorded(index, prompt)).collect()))
        })
    }

    fn with_prompts(
        checkpoint: &CheckpointArgs,
        asked: &PromptArgs,
        progress: &Progress,
        prompts: impl FnOnce(&Checkpoint, Option<&CheckpointRow>) -> Result<(String, Vec<PromptRecord>), CliError>,
    ) -> Result<Self, CliError> {
        let feeding = scopes(asked)?;
        let taps = Taps::parse(&asked.taps)?;
        let (checkpoint, row) = open(checkpoint, progress)?;
        warn(&checkpoint);
        let architecture = checkpoint.architecture();
        taps.check(architecture.blocks as u32)?;
        if let Some(site) = taps.named().into_iter().find(|site| !architecture.computes(*site)) {
            return Err(CliError::SiteNotComputed { site: site.kind(), model_type: architecture.model_type.clone() });
        }
        let ((scopes, new_tokens), taps) = match architecture.network() {
            Network::Decoder => (feeding, taps),
            // What is judged must be kept.
            Network::Encoder => (of_encoder(asked)?, taps.with(&[Site::FinalNorm, Site::Pooled])),
        };
        let (origin, prompts) = prompts(&checkpoint, row.as_ref())?;
        let inputs = Self {
            checkpoint,
            row,
            prompts,
            prompts_origin: origin,
            scopes,
            taps,
            new_tokens,
            cached: !asked.no_cache,
            keys: None,
            jobs: threads::use_cores(asked.jobs),
        };
        inputs.prompts.iter().try_for_each(|prompt| {
            check_ids(&inputs.checkpoint, &prompt.id, &prompt.token_ids).and_then(|()| inputs.check_length(prompt))
        })?;
        Ok(inputs)
    }

    /// Lets no position see more than `keys` keys.
    pub(crate) fn limit_keys(&mut self, keys: u32) {
        self.checkpoint.limit_keys(keys);
        self.keys = Some(keys);
    }

    fn check_length(&self, prompt: &PromptRecord) -> Result<(), CliError> {
        let architecture = self.checkpoint.architecture();
        let (generated, remedy) = match self.new_tokens {
            0 => (String::new(), ""),
            count => (format!(" and generates {count}"), " or --new-tokens"),
        };
        let too_long = |limit_name, limit, generated: &str, remedy| CliError::PromptTooLong {
            prompt: prompt.id.clone(),
            found: prompt.token_ids.len(),
            generated: generated.to_owned(),
            limit_name,
            limit,
            remedy,
        };
        let row = self.row.as_ref();
        let limit = |value: Option<u32>| value.map(|value| value as usize);
        let (length, total) = (prompt.token_ids.len(), prompt.token_ids.len().saturating_add(self.new_tokens));
        if let Some(prefill) = limit(row.and_then(|row| row.prefill)).filter(|prefill| length > *prefill) {
            return Err(too_long("the compiled prefill (`prefill` in checkpoints.toml)", prefill, "", ""));
        }
        if let Some(cache) = limit(row.and_then(|row| row.cache)).filter(|cache| total > *cache) {
            return Err(too_long("the compiled KV-cache (`cache` in checkpoints.toml)", cache, &generated, remedy));
        }
        let longest = architecture.longest_sequence();
        if total > longest {
            return Err(too_long("max_position_embeddings in config.json", longest, &generated, remedy));
        }
        if total > LONGEST_SEQUENCE {
            return Err(too_long("the longest sequence that is computed", LONGEST_SEQUENCE, &generated, remedy));
        }
        Ok(())
    }

    /// What the emulator is calibrated on: the checkpoint's own calibration prompts unless others are asked for, or values drawn
    /// in the place of their embeddings.
    pub(crate) fn calibration(&self, asked: Option<&str>) -> Result<CalibrationSet, CliError> {
        let (file, distribution) = match asked {
            None | Some("prompts") => (None, Distribution::Prompts),
            Some("uniform") => (None, Distribution::Uniform),
            Some("normal") => (None, Distribution::Normal),
            Some(file) => (Some(file), Distribution::Prompts),
        };
        let (origin, prompts) = calibration_prompts(&self.checkpoint, self.row.as_ref(), file)?;
        prompts.iter().try_for_each(|prompt| self.check_calibrated(&prompt.id, &prompt.token_ids))?;
        let prompts = prompts.into_iter().map(|prompt| prompt.token_ids).collect();
        Ok(CalibrationSet { origin, prompts, distribution })
    }

    /// Refuses ids to calibrate on that the checkpoint cannot be fed.
    pub(crate) fn check_calibration(&self, prompts: &[Vec<u32>]) -> Result<(), CliError> {
        let mut numbered = prompts.iter().enumerate();
        numbered.try_for_each(|(index, ids)| self.check_calibrated(&format!("{index}"), ids))
    }

    fn check_calibrated(&self, prompt: &str, token_ids: &[u32]) -> Result<(), CliError> {
        check_ids(&self.checkpoint, prompt, token_ids)?;
        let longest = self.checkpoint.architecture().longest_sequence();
        if token_ids.len() <= longest {
            return Ok(());
        }
        Err(CliError::PromptTooLong {
            prompt: format!("{prompt} (calibration)"),
            found: token_ids.len(),
            generated: String::new(),
            limit_name: "max_position_embeddings in config.json",
            limit: longest,
            remedy: "",
        })
    }
}

/// Says the warnings of a checkpoint once, however often it is opened: a sweep opens it for every cell.
fn warn(checkpoint: &Checkpoint) {
    static SAID: Mutex<BTreeSet<[String; 4]>> = Mutex::new(BTreeSet::new());
    let identity = checkpoint.identity();
    for warning in checkpoint.warnings() {
        let weights = identity.weights_sha256.clone().unwrap_or_default();
        let said = [identity.name.clone(), identity.source.clone(), weights, warning.clone()];
        if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(said) {
            output::warn(warning);
        }
    }
}

/// Where calibration prompts come from, and they: those asked for, else the checkpoint's own.
pub(crate) fn calibration_prompts(
    checkpoint: &Checkpoint,
    row: Option<&CheckpointRow>,
    asked: Option<&str>,
) -> Result<(String, Vec<PromptRecord>), CliError> {
    let of_row = row.and_then(|row| row.calibration.as_deref());
    let (resource, prompts) = resources::prompts("--calibration", asked.or(of_row).unwrap_or("calibration"))?;
    Ok((resource.origin, tokenised(checkpoint, row, &prompts)?))
}

/// Refuses prompts without tokens, and ids that the checkpoint has no embedding of.
pub(crate) fn check_ids(checkpoint: &Checkpoint, prompt: &str, token_ids: &[u32]) -> Result<(), CliError> {
    if token_ids.is_empty() {
        return Err(CliError::NoTokens { prompt: prompt.to_owned() });
    }
    let vocabulary = checkpoint.architecture().vocabulary;
    match token_ids.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
        Some((position, id)) => {
            Err(CliError::IdOutsideVocabulary { prompt: prompt.to_owned(), id: *id, position, vocabulary })
        }
        None => Ok(()),
    }
}

/// The checkpoint that was asked for, and its row.
pub(crate) fn open(
    asked: &CheckpointArgs,
    progress: &Progress,
) -> Result<(Checkpoint, Option<CheckpointRow>), CliError> {
    let registry = resources::registry()?;
    let name = match (&asked.checkpoint, &asked.weights) {
        (Some(name), _) => Some(name.as_str()),
        (None, Some(_)) => None,
        (None, None) => Some("demo"),
    };
    let row = name.map(|name| registry.row(name)).transpose()?.cloned();
    if let Some(path) = &asked.weights {
        let stem = if path.is_file() { path.file_stem() } else { path.file_name() };
        let own_name = || stem.map_or_else(|| "weights".to_owned(), |name| name.to_string_lossy().into_owned());
        let name = row.as_ref().map_or_else(own_name, |row| row.name.clone());
        let checkpoint =
            if path.is_file() { Checkpoint::open_gguf(path, &name)? } else { Checkpoint::open(path, &name)? };
        return Ok((checkpoint, row));
    }
    let row = row.expect("without --weights there is a name, and a name has a row");
    match &row.source {
        Source::Embedded(what) if what == "demo" => Ok((Checkpoint::demo()?, Some(row))),
        Source::Embedded(what) => Err(CliError::NotEmbedded { name: row.name, embedded: what.clone() }),
        Source::Folder(name) => Ok((Checkpoint::open(Path::new(name), &row.name)?, Some(row))),
        Source::Hub(repository) => Ok((from_hub(repository, &row, asked.offline, progress)?, Some(row))),
    }
}

fn from_hub(repository: &str, row: &CheckpointRow, offline: bool, progress: &Progress) -> Result<Checkpoint, CliError> {
    let settings = HubSettings::from_environment(offline);
    let snapshot = fetch(repository, &row.revision, &settings, &|line| progress.say(line))?;
    if let Some(warning) = &snapshot.warning {
        output::warn(warning);
    }
    Ok(Checkpoint::open_snapshot(&snapshot, &row.name, repository)?)
}

/// The scopes to run and how many ids to generate.
fn scopes(asked: &PromptArgs) -> Result<(Vec<Scope>, usize), CliError> {
    let new_tokens = asked.new_tokens.unwrap_or(DEFAULT_NEW_TOKENS);
    let Some(list) = &asked.scopes else {
        // Without generated ids there is nothing to step through.
        let offered = Scope::ALL.into_iter();
        return Ok((offered.filter(|scope| new_tokens >= needed_tokens(*scope)).collect(), new_tokens));
    };
    let mut scopes = Vec::new();
    for name in list.split(',').map(str::trim) {
        let scope = Scope::named(name).ok_or_else(|| CliError::Scope(name.to_owned()))?;
        let needed = needed_tokens(scope);
        if new_tokens < needed {
            return Err(CliError::TooFewNewTokens { scope: scope.name(), new_tokens, needed });
        }
        scopes.push(scope);
    }
    scopes.sort_unstable();
    scopes.dedup();
    Ok((scopes, new_tokens))
}

/// An encoder is fed whole and generates nothing.
fn of_encoder(asked: &PromptArgs) -> Result<(Vec<Scope>, usize), CliError> {
    if let Some(count) = asked.new_tokens.filter(|count| *count > 0) {
        return Err(CliError::EncoderGenerates(count));
    }
    let names = asked.scopes.iter().flat_map(|list| list.split(',')).map(str::trim);
    match names.filter_map(Scope::named).find(|scope| *scope != Scope::Base) {
        Some(scope) => Err(CliError::EncoderScope(scope)),
        None => Ok((vec![Scope::Base], 0)),
    }
}

/// n generated ids take n − 1 steps, since the last id is not fed.
const fn needed_tokens(scope: Scope) -> usize {
    match scope {
        Scope::Base | Scope::Prefill => 0,
        Scope::TbtFree => 1,
        Scope::Tbt | Scope::TbtSelf => 2,
    }
}

fn prompts(asked: &PromptArgs, row: Option<&CheckpointRow>) -> Result<(String, Vec<Prompt>), CliError> {
    if !asked.prompt.is_empty() {
        let texts = asked.prompt.iter().map(String::as_str);
        return Ok(("--prompt".into(), prompts_from_texts(texts, "--prompt")?));
    }
    let of_row = row.and_then(|row| row.prompts.as_deref());
    let (resource, prompts) =
        resources::prompts("--prompts", asked.prompts.as_deref().or(of_row).unwrap_or("default"))?;
    Ok((resource.origin, prompts))
}

/// The prompt as it is before an arm has computed it. A foreign trace may name its files as it likes.
fn unrecorded(index: usize, prompt: &PromptRecord) -> PromptRecord {
    let own = PromptRecord::new(index, prompt.id.clone(), prompt.text.clone(), prompt.token_ids.clone());
    PromptRecord { repeat: prompt.repeat, ..own }
}

pub(crate) fn tokenised(
    checkpoint: &Checkpoint,
    row: Option<&CheckpointRow>,
    prompts: &[Prompt],
) -> Result<Vec<PromptRecord>, CliError> {
    let bos = row.map_or(BosConvention::Tokenizer, |row| row.bos);
    let records = prompts.iter().enumerate().map(|(index, prompt)| {
        let token_ids = match (&prompt.token_ids, &prompt.text) {
            (Some(ids), _) => ids.clone(),
            (None, text) => checkpoint.encode(text.as_deref().unwrap_or_default(), bos)?,
        };
        Ok(PromptRecord::new(index, prompt.id.clone(), prompt.text.clone(), token_ids))
    });
    records.collect()
}
