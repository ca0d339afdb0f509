//! Writing a trace, prompt by prompt.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, tensor::TensorView};
use sha2::{Digest, Sha256};

use crate::{
    Capture, Generated, Manifest, PromptRecord, Scope, Status, Trace, TraceError,
    capture::ScopeCapture,
    disk::{hex, write_atomically},
};

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system said no.
    #[error("cannot write {path}: {source}; check rights and free space")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// There is something already.
    #[error("{path} already holds a trace; choose another folder with --out, or continue it with --resume")]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The trace to be continued is another one.
    #[error("{path} cannot be resumed: its {what} differ from this run's; choose another folder with --out")]
    Different {
        /// The folder.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// The trace to be continued cannot be read.
    #[error(transparent)]
    Unreadable(#[from] TraceError),
    /// The tensors do not form a file: a fault of ours.
    #[error("cannot lay out {path}: {reason}")]
    Layout {
        /// The file.
        path: PathBuf,
        /// What safetensors says.
        reason: String,
    },
}

/// A trace being written. The manifest is rewritten after every prompt, so that a killed run can be resumed.
#[derive(Debug)]
pub struct TraceWriter {
    folder: PathBuf,
    manifest: Manifest,
}

impl TraceWriter {
    /// Starts a trace whose prompts (all still [`Status::Skipped`]) are those of `manifest`. With `resume`, prompts that an
    /// earlier run of the same inputs finished are kept.
    ///
    /// # Errors
    /// The folder holds a trace and `resume` is false, or the trace there is of other inputs, or nothing can be written.
    pub fn open(folder: &Path, manifest: Manifest, resume: bool) -> Result<Self, WriteError> {
        let path = folder.join("trace.json");
        let mut writer = Self { folder: folder.to_owned(), manifest };
        if path.exists() {
            if !resume {
                return Err(WriteError::Exists { path: folder.to_owned() });
            }
            writer.take_over(Trace::open(folder)?)?;
        }
        let prompts = folder.join("prompts");
        fs::create_dir_all(&prompts).map_err(|source| WriteError::Io { path: prompts, source })?;
        writer.save()?;
        Ok(writer)
    }

    fn take_over(&mut self, old: Trace) -> Result<(), WriteError> {
        let old = old.into_manifest();
        let same =
            |a: &PromptRecord, b: &PromptRecord| a.id == b.id && a.token_ids == b.token_ids && a.repeat == b.repeat;
        let (mine, its) = (&self.manifest.prompts, &old.prompts);
        let differing = [
            ("checkpoint's weights or config", old.checkpoint != self.manifest.checkpoint),
            ("arm", old.arm != self.manifest.arm),
            ("logits_step", old.logits_step != self.manifest.logits_step),
            ("deviations", old.deviations != self.manifest.deviations),
            ("prompts", mine.len() != its.len() || !mine.iter().zip(its).all(|(a, b)| same(a, b))),
            ("settings (scopes, taps, new tokens or the ids it is fed)", old.other != self.manifest.other),
        ];
        if let Some((what, _)) = differing.into_iter().find(|(_, differs)| *differs) {
            return Err(WriteError::Different { path: self.folder.clone(), what });
        }
        self.manifest.noise_floor = old.noise_floor;
        for (mine, old) in self.manifest.prompts.iter_mut().zip(old.prompts) {
            if old.status == Status::Ok && self.folder.join(&old.file).exists() {
                *mine = old;
            }
        }
        Ok(())
    }

    /// The manifest so far.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The trace's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stores what was captured for prompt `index`.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn finish_prompt(&mut self, index: usize, capture: &Capture) -> Result<(), WriteError> {
        let path = self.folder.join(&self.manifest.prompts[index].file);
        let bytes =
            lay_out(capture).map_err(|error| WriteError::Layout { path: path.clone(), reason: error.to_string() })?;
        write_atomically(&path, &bytes).map_err(|source| WriteError::Io { path, source })?;
        let record = &mut self.manifest.prompts[index];
        record.sha256 = Some(hex(&Sha256::digest(&bytes)));
        record.scopes = capture.scopes.keys().map(ToString::to_string).collect();
        record.generated = capture.generated.clone().map(|ids| Generated { scope: Scope::TbtFree, ids });
        record.outside_range.clone_from(&capture.outside_range);
        record.status = Status::Ok;
        record.error = None;
        for (site, floor) in &capture.noise_floor {
            let worst = self.manifest.noise_floor.entry(site.to_string()).or_insert(0.0);
            *worst = worst.max(*floor);
        }
        self.save()
    }

    /// Records that prompt `index` could not be computed.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn fail_prompt(&mut self, index: usize, error: String) -> Result<(), WriteError> {
        let record = &mut self.manifest.prompts[index];
        record.status = Status::Failed;
        record.error = Some(error);
        self.save()
    }

    /// Sets the step of the arm's logit grid, where it is known only from the values.
    pub fn set_logits_step(&mut self, logits_step: Option<Vec<f64>>) {
        self.manifest.logits_step = logits_step;
    }

    /// Marks the trace complete: every prompt was tried.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn complete(mut self) -> Result<(), WriteError> {
        self.manifest.complete = true;
        self.save()
    }

    fn save(&self) -> Result<(), WriteError> {
        let path = self.folder.join("trace.json");
        let mut text = serde_json::to_vec_pretty(&self.manifest)
            .map_err(|error| WriteError::Layout { path: path.clone(), reason: error.to_string() })?;
        text.push(b'\n');
        write_atomically(&path, &text).map_err(|source| WriteError::Io { path, source })
    }
}

/// One tensor as bytes: name, dtype, shape, little-endian values.
type Entry = (String, Dtype, Vec<usize>, Vec<u8>);

fn lay_out(capture: &Capture) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let entries: Vec<Entry> = capture.scopes.iter().flat_map(|(scope, captured)| entries(*scope, captured)).collect();
    let views = entries.iter().map(|(name, dtype, shape, bytes)| {
        TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name.as_str(), view))
    });
    safetensors::serialize(views.collect::<Result<Vec<_>, _>>()?, None)
}

fn entries(scope: Scope, captured: &ScopeCapture) -> Vec<Entry> {
    let integers = |name: &str, values: &[u32]| {
        let bytes = values.iter().flat_map(|value| i64::from(*value).to_le_bytes()).collect();
        (format!("{scope}/{name}"), Dtype::I64, vec![values.len()], bytes)
    };
    let floats = |name: &str, shape: &[usize], values: &[f32]| {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        (format!("{scope}/{name}"), Dtype::F32, shape.to_vec(), bytes)
    };
    let mut entries = vec![integers("positions", &captured.positions), integers("token_ids", &captured.token_ids)];
    let sites = captured.sites.iter();
    entries.extend(sites.map(|(site, tensor)| floats(&site.to_string(), &tensor.shape, &tensor.values)));
    let noise = captured.logits_noise.as_deref();
    entries.extend(noise.map(|noise| floats("logits_noise", &[noise.len()], noise)));
    entries
}
