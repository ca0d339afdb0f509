//! `fidelity import`: dumps of other tools into a trace.

use std::path::Path;

use fidelity_device::import::{Import, ImportPrompt, Imported, Map, ModelShape};
use fidelity_references::{Architecture, Checkpoint};
use fidelity_trace::{CheckpointIdentity, CheckpointRow, Prompt, Trace, prompts_from_texts};

use crate::{
    args::{CheckpointArgs, ImportArgs},
    error::CliError,
    inputs::{check_ids, open, tokenised},
    output::{narrate, print},
    progress::Progress,
    resources,
};

pub(crate) fn import(args: &ImportArgs) -> Result<u8, CliError> {
    let resource = resources::map(&args.map)?;
    let map = Map::parse(&resource.text, &resource.origin)?;
    let against = args.against.as_deref().map(Trace::open).transpose()?;
    let checkpoint = checkpoint(args)?;
    let prompts = prompts(args, &map, checkpoint.as_ref())?;
    if let Some((checkpoint, _)) = &checkpoint {
        prompts.iter().flatten().try_for_each(|prompt| check_ids(checkpoint, &prompt.id, &prompt.token_ids))?;
    }
    let files: Vec<&Path> = args.files.iter().map(AsRef::as_ref).collect();
    let plan = Import {
        files: &files,
        map: &map,
        prompts: prompts.as_deref(),
        checkpoint: checkpoint
            .as_ref()
            .map_or_else(CheckpointIdentity::default, |(checkpoint, _)| said_to_be(checkpoint)),
        model: checkpoint.as_ref().map(|(checkpoint, _)| shape(checkpoint.architecture())),
        against: against.as_ref(),
    };
    let imported = fidelity_device::import::import(&plan, &args.out)?;
    if !args.quiet {
        imported.notes.iter().for_each(|note| narrate(&format!("note: {note}")));
    }
    print(&told(&imported, args));
    Ok(0)
}

type Opened = (Checkpoint, Option<CheckpointRow>);

fn checkpoint(args: &ImportArgs) -> Result<Option<Opened>, CliError> {
    if args.checkpoint.is_none() && args.weights.is_none() {
        return Ok(None);
    }
    let asked =
        CheckpointArgs { checkpoint: args.checkpoint.clone(), weights: args.weights.clone(), offline: args.offline };
    open(&asked, &Progress::new(args.quiet)).map(Some)
}

/// Whoever made the dumps may have used other weights of that name, so their hash is not said.
fn said_to_be(checkpoint: &Checkpoint) -> CheckpointIdentity {
    CheckpointIdentity { revision: None, weights_sha256: None, ..checkpoint.identity().clone() }
}

fn shape(architecture: &Architecture) -> ModelShape {
    ModelShape {
        blocks: architecture.blocks,
        hidden: architecture.hidden,
        query_heads: architecture.query_heads,
        kv_heads: architecture.kv_heads,
        head_dim: architecture.head_dim,
        mlp: architecture.mlp,
        vocabulary: architecture.vocabulary,
    }
}

/// The prompts given beside the dumps, if any are.
fn prompts(args: &ImportArgs, map: &Map, checkpoint: Option<&Opened>) -> Result<Option<Vec<ImportPrompt>>, CliError> {
    let prompts = match &args.prompts {
        Some(trace) if Path::new(trace).is_dir() => return of_trace(Path::new(trace)).map(Some),
        Some(name) => resources::prompts("--prompts", name)?.1,
        None if !args.prompt.is_empty() => prompts_from_texts(args.prompt.iter().map(String::as_str), "--prompt")?,
        None => match map.prompt_text() {
            Some(text) => prompts_from_texts([text], "prompt.text")?,
            None => return Ok(None),
        },
    };
    let prompts = match checkpoint {
        Some((checkpoint, row)) => {
            let records = tokenised(checkpoint, row.as_ref(), &prompts)?;
            records.into_iter().map(|it| ImportPrompt { id: it.id, text: it.text, token_ids: it.token_ids }).collect()
        }
        None => prompts.into_iter().map(as_ids).collect::<Result<_, _>>()?,
    };
    Ok(Some(prompts))
}

fn as_ids(prompt: Prompt) -> Result<ImportPrompt, CliError> {
    let token_ids = prompt.token_ids.ok_or(CliError::NoTokenizer)?;
    Ok(ImportPrompt { id: prompt.id, text: prompt.text, token_ids })
}

fn of_trace(folder: &Path) -> Result<Vec<ImportPrompt>, CliError> {
    let prompts = Trace::open(folder)?.into_manifest().prompts;
    let once = prompts.into_iter().filter(|prompt| prompt.repeat == 0);
    Ok(once.map(|it| ImportPrompt { id: it.id, text: it.text, token_ids: it.token_ids }).collect())
}

fn told(imported: &Imported, args: &ImportArgs) -> String {
    let mut text = String::new();
    for check in imported.checks.iter().filter(|_| !args.quiet) {
        let correlation = check.correlation.map_or_else(|| "–".to_owned(), |value| format!("{value:.6}"));
        let name = format!("{}/{}", check.scope, check.site);
        text.push_str(&format!("{name:<32} {:>6} rows  correlation with the reference {correlation}\n", check.rows));
    }
    let rows: Vec<_> = imported.rows.iter().map(|(scope, rows)| format!("{scope} {rows} rows")).collect();
    let plural = if imported.prompts == 1 { "" } else { "s" };
    let rows = rows.join(", ");
    text.push_str(&format!("imported: {} prompt{plural} · {rows} · trace {}\n", imported.prompts, args.out.display()));
    text
}
