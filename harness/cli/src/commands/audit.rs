//! `fidelity audit`: a compiled model, looked at without a device.

use std::time::Instant;

use fidelity_device::{
    audit::{BosFacts, CheckpointFacts, RopeFacts, TokenizerFacts, audit as run},
    hef::{Hef, HefError},
};
use fidelity_references::{Architecture, Checkpoint, CheckpointError, Embedding, RopeScaling};
use fidelity_reports::printable;
use fidelity_trace::{BosConvention, CheckpointRow};

use crate::{
    args::{AuditArgs, CheckpointArgs},
    audit_text::{audit_line, audit_text},
    error::CliError,
    inputs,
    output::{Form, print, warn},
    progress::Progress,
};

pub(crate) fn audit(args: &AuditArgs) -> Result<u8, CliError> {
    let clock = Instant::now();
    let failed = |source: HefError| CliError::Hef { path: printable(&args.hef.display().to_string()), source };
    let form = Form::of(args.json, args.quiet);
    let progress = Progress::new(args.quiet || args.json);
    let checkpoint = checkpoint(args, &progress)?;
    progress.say("reading the HEF");
    let mut hef = Hef::open(&args.hef).map_err(failed)?;
    let mut facts = match &checkpoint {
        Some((checkpoint, row)) => Some(facts(checkpoint, row.as_ref())?),
        None => None,
    };
    progress.say("checking");
    let found = run(&mut hef, facts.as_mut()).map_err(failed)?;
    let name = args.hef.file_name().unwrap_or(args.hef.as_os_str()).to_string_lossy();
    let line = || audit_line(&found, clock.elapsed()) + "\n";
    print(&match form {
        Form::Json => found.to_json().unwrap_or_default(),
        Form::Line => line(),
        Form::Tables => format!("{}\n{}", audit_text(&found, &name), line()),
    });
    Ok(found.exit_code)
}

/// The checkpoint to compare with, if one was asked for.
fn checkpoint(args: &AuditArgs, progress: &Progress) -> Result<Option<(Checkpoint, Option<CheckpointRow>)>, CliError> {
    if args.checkpoint.is_none() && args.weights.is_none() {
        return Ok(None);
    }
    let asked =
        CheckpointArgs { checkpoint: args.checkpoint.clone(), weights: args.weights.clone(), offline: args.offline };
    let (checkpoint, row) = inputs::open(&asked, progress)?;
    checkpoint.warnings().iter().for_each(|warning| warn(warning));
    Ok(Some((checkpoint, row)))
}

/// What the audit is told of a checkpoint.
pub(crate) fn facts<'a>(
    checkpoint: &'a Checkpoint,
    row: Option<&CheckpointRow>,
) -> Result<CheckpointFacts<'a>, CliError> {
    let architecture = checkpoint.architecture();
    let mut embedding = checkpoint.embedding()?;
    Ok(CheckpointFacts {
        name: checkpoint.identity().name.clone(),
        hidden: architecture.hidden as u64,
        query_heads: architecture.query_heads as u64,
        kv_heads: architecture.kv_heads as u64,
        head_dim: architecture.head_dim as u64,
        vocabulary: architecture.vocabulary as u64,
        rope: rope(architecture),
        embedding_rows: Box::new(move |first, count| rows(&mut embedding, first, count)),
        tokenizer: tokenizer(checkpoint)?,
        bos: bos(checkpoint, row),
    })
}

fn rows(embedding: &mut Embedding, first: usize, count: usize) -> Result<Vec<f32>, String> {
    embedding.rows(first, count).map_err(|error| error.to_string())
}

fn rope(architecture: &Architecture) -> Option<RopeFacts> {
    let rope = architecture.rope.as_ref()?;
    Some(RopeFacts {
        frequencies: rope.frequencies(),
        magnitude: rope.magnitude(),
        depends_on_length: matches!(rope.scaling, RopeScaling::Dynamic { .. }),
    })
}

fn tokenizer(checkpoint: &Checkpoint) -> Result<Option<TokenizerFacts>, CliError> {
    let Some(bytes) = checkpoint.tokenizer_json()? else { return Ok(None) };
    let facts = TokenizerFacts::read(bytes.as_slice());
    let failed = |reason| CheckpointError::File { file: "tokenizer.json".into(), reason };
    Ok(Some(facts.map_err(failed)?))
}

/// By the checkpoint's row, else by what its tokenizer does.
fn bos(checkpoint: &Checkpoint, row: Option<&CheckpointRow>) -> BosFacts {
    let id = checkpoint.architecture().bos;
    let token = id.zip(checkpoint.tokenizer()).map(|(id, tokenizer)| tokenizer.decode(&[id]));
    let expected = match row.map_or(BosConvention::Tokenizer, |row| row.bos) {
        BosConvention::Always => Some(true),
        BosConvention::Never => Some(false),
        BosConvention::Tokenizer => {
            let ids = checkpoint.tokenizer().and_then(|_| checkpoint.encode("a", BosConvention::Tokenizer).ok());
            ids.map(|ids| id.is_some() && ids.first() == id.as_ref())
        }
    };
    BosFacts { expected, token }
}
