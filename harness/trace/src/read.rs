//! Reading a trace that anyone may have written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use sha2::{Digest, Sha256};

use crate::{FORMAT, Manifest, Scope, Site, Tensor, VERSION, capture::ScopeCapture, disk::hex};

/// One scope of a stored prompt.
pub type ScopeTrace = ScopeCapture;

/// A manifest larger than this is refused.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// A prompt's file larger than this is refused: 8 GiB hold every site of a long prompt.
const MAX_PROMPT_BYTES: u64 = 8 << 30;

/// More prompts than this are refused.
const MAX_PROMPTS: usize = 1 << 16;

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file system said no.
    #[error("cannot read {path}: {source}; a trace is a folder with trace.json and the files it names")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The manifest is no manifest.
    #[error("{path} is not a trace manifest: {reason}; give the folder of a trace (docs/TRACE.md)")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A prompt's file is damaged or not laid out as the format says.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A tensor is not what the format says.
    #[error("{path}: tensor `{tensor}`: {reason}")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// Found and expected.
        reason: String,
    },
}

/// A stored trace. Prompts are read one by one.
#[derive(Debug)]
pub struct Trace {
    folder: PathBuf,
    manifest: Manifest,
}

/// What a trace holds for one prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptTrace {
    /// By scope.
    pub scopes: BTreeMap<Scope, ScopeTrace>,
}

impl Trace {
    /// Reads the manifest in `folder`.
    ///
    /// # Errors
    /// No manifest there, not valid, of another version, or naming files outside the folder.
    pub fn open(folder: &Path) -> Result<Self, TraceError> {
        let path = folder.join("trace.json");
        let io_error = |source| TraceError::Io { path: path.clone(), source };
        let invalid = |reason: String| TraceError::Manifest { path: path.clone(), reason };
        let text = read_file(&path, MAX_MANIFEST_BYTES).map_err(io_error)?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(invalid(format!("`format` is `{}`, expected `{FORMAT}`", manifest.format)));
        }
        if manifest.version != VERSION {
            return Err(invalid(format!("`version` is {}, this program reads version {VERSION}", manifest.version)));
        }
        if manifest.prompts.len() > MAX_PROMPTS {
            return Err(invalid(format!("{} prompts, at most {MAX_PROMPTS} are read", manifest.prompts.len())));
        }
        let mut seen = BTreeSet::new();
        for prompt in &manifest.prompts {
            if !seen.insert((&prompt.id, prompt.repeat)) {
                return Err(invalid(format!("prompt `{}` (repeat {}) stands in it twice", prompt.id, prompt.repeat)));
            }
            let inside = Path::new(&prompt.file).components().all(|part| matches!(part, Component::Normal(_)));
            if !inside || prompt.file.is_empty() {
                return Err(invalid(format!(
                    "prompt `{}` names the file `{}`, expected a path inside the folder",
                    prompt.id, prompt.file
                )));
            }
        }
        Ok(Self { folder: folder.to_owned(), manifest })
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The manifest alone.
    #[must_use]
    pub fn into_manifest(self) -> Manifest {
        self.manifest
    }

    /// Reads the tensors of prompt `index`. Unknown tensors are ignored.
    ///
    /// # Errors
    /// The file is missing, truncated, not the one the manifest hashed, or a tensor has a wrong dtype or shape.
    pub fn prompt(&self, index: usize) -> Result<PromptTrace, TraceError> {
        let record = &self.manifest.prompts[index];
        let path = self.folder.join(&record.file);
        let bytes =
            read_file(&path, MAX_PROMPT_BYTES).map_err(|source| TraceError::Io { path: path.clone(), source })?;
        if let Some(expected) = &record.sha256 {
            let found = hex(&Sha256::digest(&bytes));
            if *expected != found {
                let reason = format!(
                    "SHA-256 is {found}, the manifest says {expected}: damaged or of another run; record it again"
                );
                return Err(TraceError::File { path, reason });
            }
        }
        parse(&path, &bytes)
    }
}

/// Reads a regular file of at most `limit` bytes; a device or a pipe has no end.
fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > limit {
        let reason = format!("not a regular file of at most {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<PromptTrace, TraceError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| TraceError::File {
        path: path.to_owned(),
        reason: format!("not a whole safetensors file: {error}"),
    })?;
    let mut prompt = PromptTrace::default();
    for (name, view) in file.iter() {
        let Some((scope, rest)) = name.split_once('/').and_then(|(scope, rest)| Some((Scope::named(scope)?, rest)))
        else {
            continue;
        };
        let wrong = |reason| TraceError::Tensor { path: path.to_owned(), tensor: name.to_owned(), reason };
        let captured = prompt.scopes.entry(scope).or_default();
        match rest {
            "positions" => captured.positions = integers(&view).map_err(wrong)?,
            "token_ids" => captured.token_ids = integers(&view).map_err(wrong)?,
            "logits_noise" => captured.logits_noise = Some(floats(&view).map_err(wrong)?),
            site => {
                if let Ok(site) = site.parse::<Site>() {
                    let values = floats(&view).map_err(wrong)?;
                    captured.sites.insert(site, Tensor { shape: view.shape().to_vec(), values });
                }
            }
        }
    }
    check_rows(path, &prompt)?;
    Ok(prompt)
}

fn check_rows(path: &Path, prompt: &PromptTrace) -> Result<(), TraceError> {
    for (scope, captured) in &prompt.scopes {
        let wrong = |tensor: String, reason| TraceError::Tensor { path: path.to_owned(), tensor, reason };
        let rows = captured.positions.len();
        if rows == 0 && !captured.sites.is_empty() {
            return Err(wrong(
                format!("{scope}/positions"),
                "missing; every scope needs the position of each row".into(),
            ));
        }
        let distinct: BTreeSet<_> = captured.positions.iter().collect();
        if distinct.len() != rows {
            let reason = format!("{rows} rows at {} positions, expected each position once", distinct.len());
            return Err(wrong(format!("{scope}/positions"), reason));
        }
        if captured.token_ids.len() != rows {
            let reason = format!("{} rows, expected {rows} as in `{scope}/positions`", captured.token_ids.len());
            return Err(wrong(format!("{scope}/token_ids"), reason));
        }
        for (site, tensor) in &captured.sites {
            let expected = if site.is_per_prompt() { 1 } else { rows };
            if tensor.shape.len() < 2 || tensor.rows() != expected {
                let reason = match site.is_per_prompt() {
                    true => format!("shape {:?}, expected one row first: a prompt has one", tensor.shape),
                    false => format!("shape {:?}, expected {rows} rows first, as in `{scope}/positions`", tensor.shape),
                };
                return Err(wrong(format!("{scope}/{site}"), reason));
            }
        }
        if captured.logits_noise.as_ref().is_some_and(|noise| noise.len() != rows) {
            return Err(wrong(format!("{scope}/logits_noise"), format!("expected {rows} rows")));
        }
    }
    Ok(())
}

fn integers(view: &TensorView<'_>) -> Result<Vec<u32>, String> {
    if view.dtype() != Dtype::I64 || view.shape().len() != 1 {
        return Err(format!("{:?} of shape {:?}, expected I64 [rows]", view.dtype(), view.shape()));
    }
    let values = view.data().as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
    values
        .map(|value| u32::try_from(value).map_err(|_| format!("{value} is out of range, expected 0 to {}", u32::MAX)))
        .collect()
}

fn floats(view: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let halves = || view.data().as_chunks::<2>().0.iter().copied();
    match view.dtype() {
        Dtype::F32 => Ok(view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
        Dtype::F16 => Ok(halves().map(|bytes| f16::from_le_bytes(bytes).to_f32()).collect()),
        Dtype::BF16 => Ok(halves().map(|bytes| bf16::from_le_bytes(bytes).to_f32()).collect()),
        other => Err(format!("dtype {other:?}, expected F32, F16 or BF16")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_one_pooled_row_whatever_its_length() {
        let refusal = |rows: usize| {
            let tensor = Tensor { shape: vec![rows, 2], values: vec![0.0; 2 * rows] };
            let captured = ScopeTrace {
                positions: vec![0, 1, 2],
                token_ids: vec![7, 8, 9],
                sites: [(Site::Pooled, tensor)].into(),
                ..ScopeTrace::default()
            };
            let prompt = PromptTrace { scopes: [(Scope::Base, captured)].into() };
            check_rows(Path::new("p.safetensors"), &prompt).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refusal(1), "");
        for rows in [0, 2, 3] {
            let found = refusal(rows);
            assert!(found.contains("`base/pooled`") && found.contains("expected one row first"), "{found}");
        }
    }
}
