//! Checkpoints derived from others, with a relation between the two that is exact in float arithmetic up to rounding, and proved
//! on writing. `docs/FORGE.md` has the algebra.
//!
//! A transformation changes the architecture, config.json and how tensors are computed from those before it; nothing is computed
//! before it is written. What was written is read again, and must have the architecture that was meant and compute what the source
//! does, where the two are related.

mod blocks;
mod calm;
mod draft;
mod error;
mod first_heads;
mod head_dim;
mod heads;
mod ladder;
mod outlier;
mod proof;
mod rescale;
mod rotate;
mod step;
mod tensors;
#[cfg(test)]
mod tests;
mod tie;
mod tokens;
mod vocab;
mod widen;
mod write;

use std::{fs, path::Path};

use fidelity_references::{Architecture, Checkpoint};
use fidelity_trace::Network;
use fidelity_verdict::{FORGING_FORMAT, FORGING_VERSION, Forging};

use draft::Draft;
pub use error::ForgeError;
pub use ladder::{Axis, Ladder, forge_ladder};
pub use outlier::Outlier;
use proof::Computed;
pub use step::Step;

/// The record of what was done and proved, in the folder.
const RECORD: &str = "forge.json";

/// A change of a checkpoint.
trait Transformation {
    /// What is left to be computed after it.
    fn apply(&self, draft: Draft) -> Result<Draft, ForgeError>;

    /// As it is asked for on the command line.
    fn name(&self) -> String;
}

fn refused(step: &(impl Transformation + ?Sized), reason: impl Into<String>) -> ForgeError {
    ForgeError::Refused { step: step.name(), reason: reason.into() }
}

/// Writes what `steps` make of a checkpoint, one after another, as a Hugging Face folder `out`, which must not be there. Without
/// steps, a copy in float32.
///
/// # Errors
/// A step does not fit the checkpoint, what was written does not compute what it must (nothing is left then), or the file system
/// says no.
pub fn forge(source: &Checkpoint, steps: &[Step], out: &Path) -> Result<Forging, ForgeError> {
    let steps: Vec<_> = steps.iter().map(Step::transformation).collect();
    let steps: Vec<_> = steps.iter().map(|step| &**step).collect();
    transformed(source, &steps, out)
}

fn transformed(source: &Checkpoint, steps: &[&dyn Transformation], out: &Path) -> Result<Forging, ForgeError> {
    if out.symlink_metadata().is_ok() {
        return Err(ForgeError::Exists { path: out.to_owned() });
    }
    if source.architecture().network() == Network::Encoder {
        return Err(ForgeError::Encoder { model_type: source.architecture().model_type.clone() });
    }
    let mut draft = Draft::of(source, out)?;
    for step in steps {
        draft = step.apply(draft)?;
        draft.check_sizes()?;
    }
    let prompts = proof::prompts(source, draft.relation.common_ids());
    let exact = draft.relation.copied;
    // One decoder at a time: the source's is gone when the other is read.
    let of_source = {
        let decoder = source.decoder(&|_, tensor| Ok(tensor))?;
        Computed::by(&decoder.through(&draft.relation.blocks), &prompts, exact, draft.relation.first_heads)?
    };
    let (temporary, folder) = write::aside(out)?;
    draft.write(&folder)?;
    let name = out.file_name().unwrap_or(out.as_os_str()).to_string_lossy();
    let forged = Checkpoint::open(&folder, &name)?;
    same_architecture(&draft.architecture, forged.architecture())?;
    let of_forged = Computed::by(&forged.decoder(&|_, tensor| Ok(tensor))?, &prompts, exact, None)?;
    let sites = proof::compared(&of_source, &of_forged, &draft.relation);
    if let Some(error) = proof::refuted(&sites) {
        return Err(error);
    }
    let identity = source.identity();
    let forging = Forging {
        format: FORGING_FORMAT.into(),
        version: FORGING_VERSION,
        name: name.into_owned(),
        source_name: identity.name.clone(),
        source: identity.source.clone(),
        revision: identity.revision.clone(),
        source_weights_sha256: identity.weights_sha256.clone(),
        weights_sha256: forged.identity().weights_sha256.clone(),
        steps: steps.iter().map(|step| step.name()).collect(),
        copied: exact,
        prompts: prompts.len(),
        positions: prompts.iter().map(Vec::len).sum(),
        sites,
        notes: draft.notes,
    };
    let record = serde_json::to_string_pretty(&forging).map_err(ForgeError::Json)? + "\n";
    write::write_file(&folder.join(RECORD), record.as_bytes())?;
    fs::rename(&folder, out).map_err(write::failed("create", out))?;
    drop(temporary);
    Ok(forging)
}

/// Refuses a config.json that does not say what was meant, such as a rule that counts blocks.
fn same_architecture(meant: &Architecture, said: &Architecture) -> Result<(), ForgeError> {
    if meant == said {
        return Ok(());
    }
    let shown = |architecture: &Architecture| format!("{architecture:?}");
    let (meant, said) = (shown(meant), shown(said));
    let at = meant.chars().zip(said.chars()).take_while(|(one, other)| one == other).count();
    let part = |text: &str| text.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
    Err(ForgeError::Inexpressible { meant: part(&meant), said: part(&said) })
}
