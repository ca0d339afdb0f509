//! The command line.

use std::{fmt, num::NonZeroUsize, path::PathBuf, str::FromStr};

use clap::{
    Args, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fidelity_device::session::PrefillRows;
use fidelity_trace::FirstPosition;
use fidelity_verdict::{BisectionAxis, Change, Metric};
use serde::{Deserialize, Serialize};

use crate::forge_steps::Steps;

/// Says whether a language model compiled for an accelerator computes what its Hugging Face checkpoint computes, where it
/// first goes wrong, and why.
///
/// Exit codes: 0 pass, 1 not faithful, 2 wrong usage or input, 3 inconclusive, 4 device failure, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "fidelity", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compute reference and arm, compare them, look for the fault if they differ, write a report, say a verdict.
    Run(RunArgs),
    /// Compute the float32 reference into a trace.
    Reference(ReferenceArgs),
    /// Compute an arm into a trace.
    Record(RecordArgs),
    /// Compare a reference's trace with one or more traces of arms.
    Compare(CompareArgs),
    /// Say why a stored trace is what it is: which fault predicts it.
    Diagnose(DiagnoseArgs),
    /// Make a trace of dumps of another tool (npz, npy, safetensors).
    Import(ImportArgs),
    /// Show what the activations of a checkpoint look like to a quantiser: ranges, outliers, massive activations, attention sinks.
    Profile(ProfileArgs),
    /// Find which quantisers of a recipe hurt, and the cheapest promotions to more bits that reach a target.
    Advise(AdviseArgs),
    /// Derive a checkpoint whose relation to the original is exact: wider, rotated, fewer blocks; proved on writing.
    Forge(ForgeArgs),
    /// Find where an arm begins to be wrong: after which block, token or head, or from which width on.
    Bisect(BisectArgs),
    /// Run a matrix of checkpoints, arms and recipes: one table, results.csv, sweep.html.
    Sweep(SweepArgs),
    /// Join the shards of a run, of a recording or of a sweep.
    Merge(MergeArgs),
    /// Say which covariate goes with who passes, what the results cannot tell apart, and what would.
    Attribute(AttributeArgs),
    /// Try the diagnosis on faults that are known: inject each into small checkpoints, and show what was named.
    Selftest(SelftestArgs),
    /// Hold a run against a blessed baseline, or one recipe against another: worse by more than a margin? Exits 0 only where it is
    /// shown not to be.
    Gate(GateArgs),
    /// Make a run the baseline that later ones are held against.
    Bless(BlessArgs),
    /// Make a run's report again from its verdict.json.
    Report(ReportArgs),
    /// Check a compiled model (HEF) without a device: is it whole, does it keep the host's contract, is it the checkpoint's?
    Audit(AuditArgs),
    /// Show the checkpoints, recipes, prompts and faults that are known.
    List(ListArgs),
    /// Show or delete the references that are kept for later runs.
    Cache(CacheArgs),
    /// Look at what a run on a device needs, and say how to mend what is missing.
    Doctor(DoctorArgs),
    /// Show the runs of the past: how each came out, and what changed between them.
    History(HistoryArgs),
    /// Print what a shell needs to complete commands and flags.
    Completions(CompletionsArgs),
    /// Own a device and answer `fidelity` over the standard streams.
    #[cfg(feature = "hailo")]
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, Args)]
pub(crate) struct SelftestArgs {
    /// Every Nth case alone, of N that together are all: 1/40.
    #[arg(long, value_name = "I/N")]
    pub(crate) slice: Option<Slice>,
    /// Write the result there as Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print every case as JSON, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the last line alone.
    #[arg(long, conflicts_with = "json")]
    pub(crate) quiet: bool,
}

/// A part of something, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slice {
    pub(crate) index: usize,
    pub(crate) of: usize,
}

impl Slice {
    /// Whether what stands at this place, counted from 0, is of this part: every Nth, by its place alone.
    pub(crate) const fn holds(self, place: usize) -> bool {
        place % self.of == self.index - 1
    }

    /// The place of the Nth that is of this part, all counted from 0.
    pub(crate) const fn place(self, own: usize) -> usize {
        self.index - 1 + own * self.of
    }
}

impl FromStr for Slice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err("expected I/N with I from 1 to N, such as 1/40".into()),
        }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// A row of checkpoints.toml, fetched from the Hugging Face Hub if it lives there [default: demo, or the name of what
    /// --weights gives].
    #[arg(long, value_name = "NAME")]
    pub(crate) checkpoint: Option<String>,
    /// A Hugging Face folder with config.json, tokenizer.json and safetensors, or a GGUF file (text prompts need the model's
    /// tokenizer.json beside it).
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub(crate) weights: Option<PathBuf>,
    /// Never reach for the network: a checkpoint of the Hub must be in the cache.
    #[arg(long)]
    pub(crate) offline: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PromptArgs {
    /// Prompts: a file (text lines or JSON lines) or a built-in set [default: the checkpoint's].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<String>,
    /// One prompt; may be repeated.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompts")]
    pub(crate) prompt: Vec<String>,
    /// How many ids to generate after each prompt [default: 32; as many as a replayed trace holds; an encoder generates none].
    #[arg(long, value_name = "N")]
    pub(crate) new_tokens: Option<usize>,
    /// Scopes to run, comma-separated: base, prefill, tbt, tbt_free, tbt_self [default: all; those of a replayed trace; an
    /// encoder has base alone].
    #[arg(long, value_name = "LIST")]
    pub(crate) scopes: Option<String>,
    /// Sites to keep: default, all, or a comma-separated list; `default` of a replayed trace are the sites that it holds.
    #[arg(long, value_name = "LIST", default_value = "default")]
    pub(crate) taps: String,
    /// Threads to compute with [default: one a core].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Compute the reference even if one of the same inputs is kept, and keep none.
    #[arg(long)]
    pub(crate) no_cache: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ArmArgs {
    /// The arm to judge: emulator; hailo, a compiled model on a device; replay=TRACE, a stored trace.
    #[arg(long, value_name = "ARM", env = "FIDELITY_DEVICE", default_value = "emulator")]
    pub(crate) device: String,
    /// The recipe to emulate: a name or an .alls file; `none` for float32 [default: the checkpoint's, else a16w8]. With another
    /// device, an emulator of it runs beside: what the recipe costs and what the device adds [default: none does].
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) recipe: Option<String>,
    /// Inject a fault, in all blocks or one (counted from 0); may be repeated. `fidelity list faults` shows them and their values.
    #[arg(long, value_name = "NAME[@BLOCK][=VALUE]")]
    pub(crate) fault: Vec<String>,
    /// What activation ranges come from: a file of prompts or a built-in set; `prompts` for the checkpoint's own; `uniform` or
    /// `normal` for values drawn in the place of their embeddings [default: prompts].
    #[arg(long, value_name = "FILE|prompts|uniform|normal")]
    pub(crate) calibration: Option<String>,
    /// Set position 0 apart, to tell massive activations there from other causes: residual16 keeps its residual stream on 16-bit
    /// grids of its own, every16 everything of it; prefix computes it in float32, outside the quantised graph, which reads its
    /// keys and values as constants. Stamped in the trace; needs a recipe.
    #[arg(long, value_name = "WAY")]
    pub(crate) first_position: Option<FirstPosition>,
    /// A TOML file that maps a compiler's layer names, as a recipe may use them, to layers: conv1 = "blocks.0.q_proj".
    #[arg(long, value_name = "FILE")]
    pub(crate) layer_names: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hailo: HailoArgs,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkerArgs {
    /// How to start the worker that owns the device, such as 'ssh pi5 fidelity-worker' [default: this program if it was built
    /// with HailoRT, else fidelity-worker beside it or on PATH].
    #[arg(long, value_name = "CMD", env = "FIDELITY_WORKER")]
    pub(crate) worker: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HailoArgs {
    /// With --device hailo: the compiled model, a path on the worker's machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) hef: Option<String>,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
    /// The device, where there are several [default: the first that is free].
    #[arg(long, value_name = "ID")]
    pub(crate) device_id: Option<String>,
    /// Wait so long for another owner of the device to leave; without a number, an hour [default: not at all].
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "3600")]
    pub(crate) wait: Option<u64>,
    /// Rows of a prompt to compute: last, all or a number of the last ones. A compiled model gives one row a run [default: last].
    #[arg(long, value_name = "ROWS")]
    pub(crate) prefill_rows: Option<PrefillRows>,
    /// How long a run on the device may take [default: 30 for a chunk of a prompt, 10 for a step].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) step_timeout: Option<u64>,
    /// Run a file whose audit fails.
    #[arg(long)]
    pub(crate) accept_failed_audit: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Where to write [default: a new folder in runs/].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the unfinished work in --out.
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    /// Print no progress and no tables, only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    #[command(flatten)]
    pub(crate) arm: ArmArgs,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Print verdict.json to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Delete the traces (all tensors) once the verdict is written.
    #[arg(long)]
    pub(crate) discard_traces: bool,
    /// Do not look for the fault that explains an arm that is not faithful (docs/DIAGNOSE.md).
    #[arg(long)]
    pub(crate) no_diagnosis: bool,
    /// The Ith of N parts of the prompts alone: records, judges nothing, and is joined by `fidelity merge`.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Slice>,
    /// The command that is said to repeat this run; this process's own by default.
    #[arg(skip)]
    pub(crate) command: Option<String>,
    /// Hold the run against a baseline as `fidelity gate` does; the exit code is the worse of the two [default: the one in
    /// reports/baselines/ of this checkpoint, device and recipe].
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["fault", "shard"])]
    #[expect(clippy::option_option, reason = "not asked for, asked for, asked for with a file")]
    pub(crate) gate: Option<Option<PathBuf>>,
    /// The history that the run is appended to; `none` for no history [default: runs/history.db].
    #[arg(long, value_name = "FILE|none", env = "FIDELITY_HISTORY")]
    pub(crate) history: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Checkpoints: rows of checkpoints.toml, Hugging Face folders or GGUF files, comma-separated.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', required_unless_present = "all", conflicts_with = "all")]
    pub(crate) checkpoints: Vec<String>,
    /// Every row of checkpoints.toml.
    #[arg(long)]
    pub(crate) all: bool,
    /// The arm to judge: emulator, or hailo with the compiled models that checkpoints.toml names; may be repeated.
    #[arg(long, value_name = "ARM", env = "FIDELITY_DEVICE", default_value = "emulator")]
    pub(crate) device: Vec<String>,
    /// The recipe, as of `run`; may be repeated [default: the checkpoint's, else a16w8].
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) recipe: Vec<String>,
    /// What activation ranges come from, as of `run` [default: prompts].
    #[arg(long, value_name = "FILE|prompts|uniform|normal")]
    pub(crate) calibration: Option<String>,
    #[command(flatten)]
    pub(crate) hailo: HailoArgs,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Never reach for the network: a checkpoint that is not in the cache is not run.
    #[arg(long)]
    pub(crate) offline: bool,
    /// The Ith of N parts of the matrix alone, to be joined by `fidelity merge`.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Slice>,
    /// Delete the traces (all tensors) of each run once its verdict is written.
    #[arg(long)]
    pub(crate) discard_traces: bool,
    /// Do not look for the fault that explains an arm that is not faithful.
    #[arg(long)]
    pub(crate) no_diagnosis: bool,
    /// Do not measure the covariates of `fidelity profile` (massive activations, kurtosis, ranges).
    #[arg(long)]
    pub(crate) no_profile: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The folders of all shards.
    #[arg(value_name = "DIR", required = true)]
    pub(crate) shards: Vec<PathBuf>,
    /// Where to write what they are together.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The checkpoint that the shards are of, where their own name for it is not known here.
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    /// Threads to compute with [default: one a core].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print verdict.json to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no tables, only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AttributeArgs {
    /// What a sweep wrote, or a table of its columns (docs/SWEEP.md).
    #[arg(value_name = "RESULTS.csv", required_unless_present = "published", conflicts_with = "published")]
    pub(crate) results: Option<PathBuf>,
    /// What the field has published of language models on a Hailo-10H.
    #[arg(long)]
    pub(crate) published: bool,
    /// Print JSON to standard output and nothing else (docs/ATTRIBUTE.md).
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GateArgs {
    /// A run's folder, or its verdict.json.
    #[arg(value_name = "RUN", required_unless_present = "recipes", conflicts_with = "recipes")]
    pub(crate) run: Option<PathBuf>,
    /// What it is held against, as `fidelity bless` wrote it [default: the one in reports/baselines/ of the run's checkpoint, device
    /// and recipe].
    #[arg(long, value_name = "FILE", conflicts_with = "recipes")]
    pub(crate) baseline: Option<PathBuf>,
    /// Compare although this differs, comma-separated: checkpoint, device, recipe, calibration, hef, prompts, scopes, rows.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = change, conflicts_with = "recipes")]
    pub(crate) allow: Vec<Change>,
    /// How much worse than the baseline a metric may be: top1=0.02, pearson=0.002, centred_cosine, kl (nats), nmse; may be
    /// repeated [default: those of harness/verdict/src/gate.toml].
    #[arg(long, value_name = "METRIC=VALUE", value_parser = margin)]
    pub(crate) margin: Vec<(Metric, f64)>,
    /// Run both recipes on the emulator, and hold the second against the first.
    #[arg(long, num_args = 2, value_names = ["BASELINE", "CANDIDATE"])]
    pub(crate) recipes: Vec<String>,
    /// With --recipes: a row of checkpoints.toml [default: demo, or the name of what --weights gives].
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub(crate) checkpoint: Option<String>,
    /// With --recipes: a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR|FILE.gguf", conflicts_with = "run")]
    pub(crate) weights: Option<PathBuf>,
    /// With --recipes: never reach for the network.
    #[arg(long, conflicts_with = "run")]
    pub(crate) offline: bool,
    /// With --recipes: prompts, as of `run`.
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    pub(crate) prompts: Option<String>,
    /// With --recipes: how many ids to generate after each prompt, as of `run`.
    #[arg(long, value_name = "N", conflicts_with = "run")]
    pub(crate) new_tokens: Option<usize>,
    /// With --recipes: scopes to run, as of `run`.
    #[arg(long, value_name = "LIST", conflicts_with = "run")]
    pub(crate) scopes: Option<String>,
    /// With --recipes: what activation ranges come from, as of `run`.
    #[arg(long, value_name = "FILE|prompts|uniform|normal", conflicts_with = "run")]
    pub(crate) calibration: Option<String>,
    /// With --recipes: a TOML file that maps a compiler's layer names, as of `run`.
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    pub(crate) layer_names: Option<PathBuf>,
    /// With --recipes: threads to compute with [default: one a core].
    #[arg(long, value_name = "N", conflicts_with = "run")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// With --recipes: where to write [default: a new folder in runs/].
    #[arg(long, value_name = "DIR", conflicts_with = "run")]
    pub(crate) out: Option<PathBuf>,
    /// Print gate.json to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Something that may differ.
fn change(text: &str) -> Result<Change, String> {
    let known = || Change::ALL.map(Change::name).join(", ");
    Change::ALL.into_iter().find(|it| it.name() == text.trim()).ok_or_else(|| format!("expected some of {}", known()))
}

/// A metric and how much worse it may be.
fn margin(text: &str) -> Result<(Metric, f64), String> {
    let known = || Metric::ALL.map(Metric::name).join(", ");
    let (name, value) = text.split_once('=').ok_or("expected METRIC=VALUE, such as top1=0.02")?;
    let metric = Metric::ALL.into_iter().find(|it| it.name() == name);
    let metric = metric.ok_or_else(|| format!("`{name}` is no metric of a gate; those are {}", known()))?;
    let margin = value.parse().ok().filter(|margin: &f64| margin.is_finite() && *margin > 0.0);
    margin.map(|margin| (metric, margin)).ok_or_else(|| format!("`{value}` is no margin: expected a number above 0"))
}

#[derive(Debug, Args)]
pub(crate) struct BlessArgs {
    /// The run's folder, or its verdict.json.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Where to write the baseline [default: reports/baselines/<checkpoint>/<device>/<recipe>.json].
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReferenceArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Do not measure float32 against float64 (halves the work; the noise floor is then unknown).
    #[arg(long)]
    pub(crate) no_noise: bool,
    /// Record nothing, but check the reference on the prompts: float32 against float64, against a second implementation, and
    /// one pass against steps and chunks. Writes check.json. Exits 3 where the second implementation cannot compute the checkpoint.
    #[arg(long, conflicts_with_all = ["no_noise", "resume", "scopes", "taps", "new_tokens", "no_cache"])]
    pub(crate) check: bool,
    /// With --check: print check.json to standard output and nothing else.
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    #[command(flatten)]
    pub(crate) arm: ArmArgs,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// The reference trace whose prompts and greedy ids the arm is fed [default: computed on the way].
    #[arg(long, value_name = "TRACE")]
    pub(crate) reference: Option<PathBuf>,
    /// The Ith of N parts of the prompts alone: records, judges nothing, and is joined by `fidelity merge`.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Slice>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The reference's trace.
    #[arg(value_name = "REF_TRACE")]
    pub(crate) reference: PathBuf,
    /// The arm's trace; several are laid in one table, and the exit code is the worst arm's.
    #[arg(value_name = "DEVICE_TRACE", required = true)]
    pub(crate) devices: Vec<PathBuf>,
    /// Write the report folder here, with a folder an arm if there are several [default: none is written].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print verdict.json to standard output and nothing else: one line an arm.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiagnoseArgs {
    /// The trace of the arm, with logits.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// The checkpoint it is of, a row of checkpoints.toml [default: the one that the trace names].
    #[arg(long, value_name = "NAME")]
    pub(crate) checkpoint: Option<String>,
    /// The checkpoint it is of: a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub(crate) weights: Option<PathBuf>,
    /// Never reach for the network: a checkpoint of the Hub must be in the cache.
    #[arg(long)]
    pub(crate) offline: bool,
    /// The recipe that the arm was made with: an emulator of it predicts as well; `none` if it computes in float32 [default: not
    /// known, and up to 8 bits are taken for meant].
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) recipe: Option<String>,
    /// What activation ranges come from, as in `run`.
    #[arg(long, value_name = "FILE|prompts|uniform|normal", requires = "recipe")]
    pub(crate) calibration: Option<String>,
    /// A TOML file that maps a compiler's layer names, as in `run`.
    #[arg(long, value_name = "FILE", requires = "recipe")]
    pub(crate) layer_names: Option<PathBuf>,
    /// Run the arm again while nothing explains it, emulator or hailo: on experiments chosen to decide (docs/DIAGNOSE.md).
    #[arg(long, value_name = "ARM")]
    pub(crate) device: Option<String>,
    /// With --device: how many steps of the device that may take; a chunk of a prompt is one, a token after it another.
    #[arg(long, value_name = "N", default_value_t = 256, requires = "device")]
    pub(crate) budget: usize,
    /// With --device emulator: the fault that the arm was made with, as in `run`; the search is not told.
    #[arg(long, value_name = "NAME[@BLOCK][=VALUE]", requires = "device")]
    pub(crate) fault: Vec<String>,
    #[command(flatten)]
    pub(crate) hailo: HailoArgs,
    /// Scopes to look at, comma-separated [default: those that the trace holds].
    #[arg(long, value_name = "LIST")]
    pub(crate) scopes: Option<String>,
    /// Threads to compute with [default: one a core].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Compute the reference even if one of the same inputs is kept, and keep none.
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Where to write [default: a new folder in runs/].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print verdict.json, the diagnosis in it, to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no tables, only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The dumps, in the order of their prompts: .npz, .npy or .safetensors.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What the dumps hold: a map file (docs/IMPORT.md), or a built-in map: diagnostics, logits.
    #[arg(long, value_name = "MAP")]
    pub(crate) map: String,
    /// Where to write the trace.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The prompts that were fed, where the dumps do not hold them: text or JSON lines, a built-in set, or a trace.
    #[arg(long, value_name = "FILE|TRACE")]
    pub(crate) prompts: Option<String>,
    /// One prompt; may be repeated.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompts")]
    pub(crate) prompt: Vec<String>,
    /// A trace of the same prompts: rows that are not like its are searched for a layout that is.
    #[arg(long, value_name = "REF_TRACE")]
    pub(crate) against: Option<PathBuf>,
    /// The checkpoint the dumps are of, a row of checkpoints.toml: for its sizes and its tokenizer.
    #[arg(long, value_name = "NAME")]
    pub(crate) checkpoint: Option<String>,
    /// The same as a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub(crate) weights: Option<PathBuf>,
    /// Never reach for the network.
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    /// Prompts: a file (text lines or JSON lines) or a built-in set [default: the checkpoint's].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<String>,
    /// One prompt; may be repeated.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompts")]
    pub(crate) prompt: Vec<String>,
    /// Threads to compute with [default: one a core].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Where to write [default: a new folder in runs/].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print profile.json to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no tables, only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    /// The recipe to promote: a name or an .alls file.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) recipe: String,
    /// The mean Pearson of logits to reach, of an encoder the centred cosine [default: that of `faithful`, and its top-1].
    #[arg(long, value_name = "SIMILARITY", value_parser = similarity)]
    pub(crate) target: Option<f64>,
    /// Prompts: a file (text lines or JSON lines) or a built-in set; every second one is held out of the search [default: the
    /// checkpoint's].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<String>,
    /// What activation ranges come from, as of `run` [default: prompts].
    #[arg(long, value_name = "FILE|prompts|uniform|normal")]
    pub(crate) calibration: Option<String>,
    /// A TOML file that maps a compiler's layer names, as of `run`.
    #[arg(long, value_name = "FILE")]
    pub(crate) layer_names: Option<PathBuf>,
    /// Threads to compute with [default: one a core].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Where to write [default: a new folder in runs/].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print advice.json to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no tables, only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ForgeArgs {
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    /// Where to write the Hugging Face folder, or of a ladder the folder of folders; it must not be there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// With --calm: prompts that channels are measured on [default: those of the checkpoint's row, else the built-in calibration].
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) calibration: Option<String>,
    /// Threads to compute with [default: one a core].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print forge.json to standard output and nothing else; of a ladder, one line a checkpoint.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no tables, only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten, next_help_heading = "Steps, done in the order they are given in")]
    pub(crate) steps: Steps,
}

#[derive(Debug, Args)]
pub(crate) struct BisectArgs {
    /// What to bisect: block, the first blocks of the network; position, the first tokens of the prompts; head, the first heads of
    /// --block; hidden, the widths of a --ladder.
    #[arg(long, value_name = "AXIS", value_parser = axis())]
    pub(crate) by: BisectionAxis,
    /// The block whose heads are bisected, counted from 0.
    #[arg(long, value_name = "BLOCK", required_if_eq("by", "head"))]
    pub(crate) block: Option<usize>,
    /// The folder that `fidelity forge --ladder hidden=…` wrote.
    #[arg(long, value_name = "DIR", required_if_eq("by", "hidden"), conflicts_with_all = ["checkpoint", "weights"])]
    pub(crate) ladder: Option<PathBuf>,
    /// Mean Pearson of logits from which an arm is good.
    #[arg(long, value_name = "PEARSON", value_parser = similarity, default_value = "0.99")]
    pub(crate) threshold: f64,
    /// Measurements at most; of a device, each is a run of all prompts.
    #[arg(long, value_name = "N", default_value = "64")]
    pub(crate) budget: NonZeroUsize,
    /// With --device hailo: the compiled models of what is forged, NAME.hef each. Where one is missing, what to compile is said.
    #[arg(long, value_name = "DIR")]
    pub(crate) hefs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,
    #[command(flatten)]
    pub(crate) arm: ArmArgs,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    /// Where to write [default: a new folder in runs/bisect]; measurements that are there already are not made again.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print bisection.json to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no tables, only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// What can be bisected.
fn axis() -> impl TypedValueParser<Value = BisectionAxis> {
    let names = BisectionAxis::ALL.map(BisectionAxis::name);
    PossibleValuesParser::new(names).map(|name| {
        BisectionAxis::ALL.into_iter().find(|axis| axis.name() == name).expect("a possible value is a name")
    })
}

/// A similarity that can be asked for.
fn similarity(text: &str) -> Result<f64, String> {
    let expected = "expected a similarity above 0 and at most 1, such as 0.98";
    text.parse().ok().filter(|value| *value > 0.0 && *value <= 1.0).ok_or_else(|| expected.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A run's folder, or its verdict.json.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Print verdict.json to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The compiled model.
    #[arg(value_name = "FILE.hef")]
    pub(crate) hef: PathBuf,
    /// The checkpoint it is said to be made of, a row of checkpoints.toml [default: none, nothing is compared].
    #[arg(long, value_name = "NAME")]
    pub(crate) checkpoint: Option<String>,
    /// The checkpoint it is said to be made of: a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub(crate) weights: Option<PathBuf>,
    /// Never reach for the network: a checkpoint of the Hub must be in the cache.
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print the audit as JSON to standard output and nothing else (docs/AUDIT.md).
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// `faults`, or a checkpoint, of which everything known is shown [default: all checkpoints, recipes and prompts].
    #[arg(value_name = "CHECKPOINT|faults")]
    pub(crate) what: Option<String>,
    /// Print JSON to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Delete the references that were not used for --older-than-days.
    #[arg(long)]
    pub(crate) prune: bool,
    /// With --prune: how long unused, in days.
    #[arg(long, value_name = "DAYS", default_value_t = 0, requires = "prune")]
    pub(crate) older_than_days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
    /// A compiled model on this machine: does it fit the device?
    #[arg(long, value_name = "FILE")]
    pub(crate) hef: Option<PathBuf>,
    /// Print the findings as JSON to standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the last line.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The runs of this checkpoint alone.
    #[arg(long, value_name = "NAME")]
    pub(crate) checkpoint: Option<String>,
    /// The last N runs alone.
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<NonZeroUsize>,
    /// Write every number as CSV; `-` for standard output, and nothing else there.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the curves as a page.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) plot: Option<PathBuf>,
    /// The history to read [default: runs/history.db].
    #[arg(long, value_name = "FILE", env = "FIDELITY_HISTORY")]
    pub(crate) history: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}
