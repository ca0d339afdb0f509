//! Everything that ends the program early, and what it exits with.

use std::{io, path::PathBuf};

use fidelity_compare::GateError;
use fidelity_device::{hef::HefError, import::ImportError, supervisor::Failure};
use fidelity_diagnose::{AdviseError, DiagnoseError, ForgeError, ResultsError};
use fidelity_emulator::{EmulatorError, LayerNamesError, RecipeError};
use fidelity_history::HistoryError;
use fidelity_references::{CheckpointError, HubError};
use fidelity_reports::ReportError;
use fidelity_trace::{FaultError, PromptError, RegistryError, Scope, TapsError, TraceError, WriteError};
use fidelity_verdict::{BaselineError, ExitCode, ThresholdsError, VerdictError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Prompts(#[from] PromptError),
    #[error(transparent)]
    Taps(#[from] TapsError),
    #[error(transparent)]
    Fault(#[from] FaultError),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    LayerNames(#[from] LayerNamesError),
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    #[error(transparent)]
    Advise(AdviseError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Verdict(#[from] VerdictError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    #[error(
        "there is no baseline {path}; make one of a good run with `fidelity bless RUN`, or name another with --{flag} FILE"
    )]
    NoBaseline { path: PathBuf, flag: &'static str },
    #[error("{path} is no baseline: it is no file of up to {limit} bytes")]
    NotABaseline { path: PathBuf, limit: u64 },
    #[error(transparent)]
    Thresholds(#[from] ThresholdsError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("{path}: {source}")]
    Hef { path: String, source: HefError },
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("cannot read {path}: {source}; check its name and rights")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot {action} {path}: {source}; check rights and free space")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "checkpoint `{name}` says it is embedded as `{embedded}`, but only `demo` is compiled in; correct its source in checkpoints.toml"
    )]
    NotEmbedded { name: String, embedded: String },
    #[error("{flag}: there is no file `{name}` and nothing built in of that name; built in: {known}")]
    NoResource { flag: &'static str, name: String, known: String },
    #[error("--device: `{0}` is not an arm; arms are `emulator`, `hailo` and `replay=TRACE`")]
    Device(String),
    #[error("--device: `{0}` names no trace; write replay=TRACE with the folder of a stored trace")]
    NoReplayTrace(String),
    #[error("{flag} does not go with --device {device}; drop it")]
    ForAnotherDevice { flag: &'static str, device: &'static str },
    #[error("--first-position changes how a recipe is emulated, and `--recipe none` is float32; drop one of them")]
    FirstPositionWithoutRecipe,
    #[error("--device hailo needs the compiled model: give --hef FILE, a path on the worker's machine")]
    NoHef,
    #[error(
        "--device hailo needs a worker, which drives the device through HailoRT: on the device's machine, install HailoRT 5.1 or later and build \
         with `--features hailo`; from another machine, give --worker 'ssh HOST fidelity-worker'"
    )]
    NoWorker,
    #[error(transparent)]
    Hailo(#[from] Box<Failure>),
    #[error(
        "{path} is not of this checkpoint: {first}; `fidelity audit` shows all, --accept-failed-audit runs it nevertheless"
    )]
    AuditFails { path: String, first: String },
    #[error(
        "{trace}: its reference attends to {found}, the device to the last {keys} tokens (its KV-cache); record the reference on the way, or generate less"
    )]
    OtherKeys { trace: PathBuf, found: String, keys: u32 },
    #[error("--scopes: the HEF does not offer {scope}; it offers {offered}; leave the others out")]
    ScopeNotOffered { scope: &'static str, offered: String },
    #[error("--device replay has nothing to record: {trace} is a trace already; judge it with `run` or `compare`")]
    RecordReplay { trace: PathBuf },
    #[error("{trace}: {reason}")]
    UnfitTrace { trace: PathBuf, reason: String },
    #[error(
        "the prompts are text, which needs a tokenizer: give --checkpoint or --weights, or the prompts as token ids"
    )]
    NoTokenizer,
    #[error(
        "--fault: `{fault}` would change nothing in this checkpoint: {why}; choose another (`fidelity list faults`)"
    )]
    ImmuneToFault { fault: &'static str, why: &'static str },
    #[error("--scopes: `{0}` is not a scope; scopes are base, prefill, tbt, tbt_free, tbt_self")]
    Scope(String),
    #[error("--scopes: `{0}` is not offered: this checkpoint is an encoder, which has no KV-cache; its scope is base")]
    EncoderScope(Scope),
    #[error("--new-tokens: this checkpoint is an encoder and generates nothing, found {0}; leave it out")]
    EncoderGenerates(usize),
    #[error("--taps: a checkpoint of model_type {model_type} has no site `{site}`; leave it out")]
    SiteNotComputed { site: &'static str, model_type: String },
    #[error("--scopes: `{scope}` needs generated ids, but --new-tokens is {new_tokens}; give at least {needed}")]
    TooFewNewTokens { scope: &'static str, new_tokens: usize, needed: usize },
    #[error("prompt `{prompt}`: token id {id} at position {position} is outside the vocabulary of {vocabulary} (0 to {}); give ids of this checkpoint's tokenizer", vocabulary - 1)]
    IdOutsideVocabulary { prompt: String, id: u32, position: usize, vocabulary: usize },
    #[error("prompt `{prompt}` has no tokens; it needs at least one")]
    NoTokens { prompt: String },
    #[error("prompt `{prompt}` has {found} tokens{generated}, but {limit_name} is {limit}; shorten the prompt{remedy}")]
    PromptTooLong {
        prompt: String,
        found: usize,
        generated: String,
        limit_name: &'static str,
        limit: usize,
        remedy: &'static str,
    },
    #[error("the traces have no prompt in common; both must hold the same ids with the same tokens")]
    NothingInCommon,
    #[error(
        "{trace}: prompt `{prompt}` has no generated ids, which the arm must be fed; record the reference with scope tbt_free"
    )]
    NoContinuation { trace: PathBuf, prompt: String },
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(
        "--shard: a stored trace has nothing left to compute: {trace}; judge it whole, or shard the run that records it"
    )]
    ShardOfReplay { trace: PathBuf },
    #[error("--device: a stored trace cannot be run again: {trace}; name the arm that it is of, emulator or hailo")]
    ProbeOfReplay { trace: PathBuf },
    #[error("the shards' {what}: {reason}")]
    ShardArm { what: &'static str, reason: String },
    #[error("{folder}: {reason}")]
    NoShard { folder: PathBuf, reason: String },
    #[error("{b} is not a shard of the same work as {a}: {what} differ; merge shards of one command alone")]
    ShardsDiffer { a: PathBuf, b: PathBuf, what: String },
    #[error("{a} and {b} are both shard {shard}; give each once")]
    ShardTwice { a: PathBuf, b: PathBuf, shard: String },
    #[error("nothing is concluded: of {of} shards {missing} not there; compute what is missing and merge again")]
    ShardsMissing { missing: String, of: usize },
    #[error(
        "the shards are of another checkpoint than {name} ({source_name}) here: {what} differ; give --checkpoint or --weights"
    )]
    OtherCheckpoint { name: String, source_name: String, what: &'static str },
    #[error("the shards are of a checkpoint that was given by --weights: give it here too")]
    ShardWeights,
    #[error("{folder} holds results already; choose another folder with --out")]
    NotEmpty { folder: PathBuf },
    #[error("{folder} holds a sweep already; go on with it by --resume, or choose another folder with --out")]
    SweepExists { folder: PathBuf },
    #[error("{folder} cannot be resumed: its matrix or settings differ from these; choose another folder with --out")]
    OtherSweep { folder: PathBuf },
    #[error("--checkpoints: `{0}` stands there twice; give each once")]
    CheckpointTwice(String),
    #[error("--device {0} cannot be swept; sweep `emulator` and `hailo`")]
    SweepDevice(String),
    #[error("--hef is one compiled model, but there are {0} checkpoints; name them by `hef` in checkpoints.toml")]
    SweepHef(usize),
    #[error("--calibration names prompts for --calm, which is not asked for")]
    CalibrationWithoutCalm,
    #[error(
        "a stored trace cannot be bisected, since it cannot be run again: {trace}; give --device emulator or hailo"
    )]
    BisectReplay { trace: PathBuf },
    #[error("an encoder cannot be bisected: there are no logits to judge by; `fidelity run` names its first bad site")]
    BisectEncoder,
    #[error("--block {block}: the checkpoint has {blocks} blocks, counted from 0")]
    NoBlock { block: usize, blocks: usize },
    #[error("--by position needs {least} prompts or more: each has one row at a position")]
    FewPrompts { least: usize },
    #[error("{folder}: no checkpoint is there; write a ladder with `fidelity forge --ladder hidden=FIRST..LAST:STEP`")]
    NoLadder { folder: PathBuf },
    #[error("a device runs compiled models: give the folder where they are, or will be, by --hefs DIR")]
    NoHefs,
    #[error("{hef} is not there yet: compile {folder} into it, then run the same command again with --out {out}")]
    NotCompiled { folder: PathBuf, hef: PathBuf, out: PathBuf },
    #[error("while looking for the fault: {0}")]
    Diagnose(#[from] DiagnoseError),
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error(
        "in {what}: {source}; this is a fault of fidelity or too little memory; try fewer prompts, and report it if it stays"
    )]
    Compute { what: &'static str, source: candle_core::Error },
    #[error("there is no cache folder: neither FIDELITY_CACHE, XDG_CACHE_HOME nor HOME is set; set one")]
    NoCacheFolder,
    #[error("no prompt could be computed; the first failed with: {0}")]
    EveryPromptFailed(String),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("--history none: there is nothing to show; name a file")]
    NoHistory,
    #[error("{path} holds no run of `{checkpoint}`; `fidelity history` without --checkpoint shows all")]
    NotInHistory { path: PathBuf, checkpoint: String },
    #[error("interrupted{}", kept.as_ref().map_or_else(String::new, |kept| format!("; what is finished is kept: the same command with --out {} --resume goes on", kept.display())))]
    Interrupted { kept: Option<PathBuf> },
}

/// What an advice ends with is what its parts end with.
impl From<AdviseError> for CliError {
    fn from(error: AdviseError) -> Self {
        match error {
            AdviseError::Emulator(error) => Self::Emulator(error),
            AdviseError::Recipe(error) => Self::Recipe(error),
            other => Self::Advise(other),
        }
    }
}

impl CliError {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Registry(_)
            | Self::Checkpoint(_)
            | Self::Prompts(_)
            | Self::Taps(_)
            | Self::Fault(_)
            | Self::Recipe(_)
            | Self::LayerNames(_)
            | Self::Emulator(
                EmulatorError::Checkpoint(_) | EmulatorError::Range { .. } | EmulatorError::NoFirstPosition,
            )
            | Self::Trace(_)
            | Self::Verdict(_)
            | Self::Gate(_)
            | Self::Baseline(_)
            | Self::NoBaseline { .. }
            | Self::NotABaseline { .. }
            | Self::Thresholds(_)
            | Self::Hef { .. }
            | Self::Read { .. }
            | Self::NotEmbedded { .. }
            | Self::NoResource { .. }
            | Self::Device(_)
            | Self::NoReplayTrace(_)
            | Self::ForAnotherDevice { .. }
            | Self::FirstPositionWithoutRecipe
            | Self::NoHef
            | Self::NoWorker
            | Self::AuditFails { .. }
            | Self::ScopeNotOffered { .. }
            | Self::OtherKeys { .. }
            | Self::RecordReplay { .. }
            | Self::UnfitTrace { .. }
            | Self::NoTokenizer
            | Self::ImmuneToFault { .. }
            | Self::Scope(_)
            | Self::EncoderScope(_)
            | Self::EncoderGenerates(_)
            | Self::SiteNotComputed { .. }
            | Self::TooFewNewTokens { .. }
            | Self::IdOutsideVocabulary { .. }
            | Self::NoTokens { .. }
            | Self::PromptTooLong { .. }
            | Self::NoCacheFolder
            | Self::NothingInCommon
            | Self::Results(_)
            | Self::ShardOfReplay { .. }
            | Self::ProbeOfReplay { .. }
            | Self::ShardArm { .. }
            | Self::NoShard { .. }
            | Self::ShardsDiffer { .. }
            | Self::ShardTwice { .. }
            | Self::OtherCheckpoint { .. }
            | Self::ShardWeights
            | Self::NotEmpty { .. }
            | Self::SweepExists { .. }
            | Self::OtherSweep { .. }
            | Self::CheckpointTwice(_)
            | Self::SweepDevice(_)
            | Self::SweepHef(_)
            | Self::CalibrationWithoutCalm
            | Self::NoHistory
            | Self::NotInHistory { .. }
            | Self::NoContinuation { .. }
            | Self::BisectReplay { .. }
            | Self::BisectEncoder
            | Self::NoBlock { .. }
            | Self::FewPrompts { .. }
            | Self::NoLadder { .. }
            | Self::NoHefs
            | Self::Diagnose(DiagnoseError::Trace(_) | DiagnoseError::NoLogits | DiagnoseError::Encoder) => {
                ExitCode::Usage
            }
            Self::ShardsMissing { .. } | Self::NotCompiled { .. } => ExitCode::Inconclusive,
            Self::Advise(_) => ExitCode::Device,
            Self::Forge(error) => of_forge(error),
            Self::Interrupted { .. } => ExitCode::Interrupted,
            Self::History(error) => of_history(error),
            Self::Hub(error) => of_hub(error),
            Self::Hailo(failure) => of_device(failure),
            Self::Write(error) | Self::Import(ImportError::Write(error)) => of_write(error),
            Self::Import(ImportError::Io { action, .. }) if *action != "read" => ExitCode::Device,
            Self::Import(_) => ExitCode::Usage,
            Self::Emulator(
                EmulatorError::Calibration(_) | EmulatorError::Fault(_) | EmulatorError::OtherCalibration,
            ) => ExitCode::Device,
            Self::Report(_)
            | Self::Io { .. }
            | Self::Compute { .. }
            | Self::Diagnose(DiagnoseError::Compute(_))
            | Self::EveryPromptFailed(_) => ExitCode::Device,
        }
    }
}

/// What cannot be forged, against what was written and is not what it must be.
const fn of_forge(error: &ForgeError) -> ExitCode {
    match error {
        ForgeError::Checkpoint(_)
        | ForgeError::Refused { .. }
        | ForgeError::Encoder { .. }
        | ForgeError::Exists { .. }
        | ForgeError::TooLarge { .. }
        | ForgeError::NoTensor(_)
        | ForgeError::Inexpressible { .. } => ExitCode::Usage,
        ForgeError::NotProven { .. } => ExitCode::FidelityFailure,
        ForgeError::NothingCompared => ExitCode::Inconclusive,
        ForgeError::Io { .. } | ForgeError::Json(_) | ForgeError::Weights(_) | ForgeError::Compute(_) => {
            ExitCode::Device
        }
    }
}

const fn of_write(error: &WriteError) -> ExitCode {
    match error {
        WriteError::Exists { .. } | WriteError::Different { .. } | WriteError::Unreadable(_) => ExitCode::Usage,
        WriteError::Io { .. } | WriteError::Layout { .. } => ExitCode::Device,
    }
}

const fn of_history(error: &HistoryError) -> ExitCode {
    match error {
        HistoryError::Absent { .. }
        | HistoryError::Newer { .. }
        | HistoryError::Foreign { .. }
        | HistoryError::Damaged { .. } => ExitCode::Usage,
        HistoryError::Folder { .. } | HistoryError::Locked { .. } | HistoryError::Sqlite { .. } => ExitCode::Device,
    }
}

const fn of_device(failure: &Failure) -> ExitCode {
    match failure {
        Failure::Command { .. } | Failure::Refused { .. } => ExitCode::Usage,
        Failure::Ended { .. }
        | Failure::Silent { .. }
        | Failure::Garbled { .. }
        | Failure::Version { .. }
        | Failure::Device { .. }
        | Failure::InUse { .. }
        | Failure::Changed { .. } => ExitCode::Device,
    }
}

/// What a person asked for wrongly, against what the network or the disk did.
const fn of_hub(error: &HubError) -> ExitCode {
    match error {
        HubError::Name { .. }
        | HubError::Setting { .. }
        | HubError::Offline { .. }
        | HubError::Gated { .. }
        | HubError::GatedNotGranted { .. }
        | HubError::TokenScope { .. }
        | HubError::BadToken { .. }
        | HubError::NoRepository { .. }
        | HubError::NoRevision { .. }
        | HubError::NoFile { .. }
        | HubError::Index { .. } => ExitCode::Usage,
        HubError::RateLimited { .. }
        | HubError::Server { .. }
        | HubError::Unreachable { .. }
        | HubError::Cut { .. }
        | HubError::Damaged { .. }
        | HubError::NotTheHub { .. }
        | HubError::Io { .. } => ExitCode::Device,
    }
}
