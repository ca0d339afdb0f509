//! A checkpoint: everything known before a weight is read.

use std::path::{Path, PathBuf};

use fidelity_trace::{BosConvention, CheckpointIdentity};

use crate::{
    Architecture, CheckpointError, Decoder, Snapshot, Tokenizer, WeightFiles, WeightKind, config, demo,
    weights::read_bounded,
};

/// config.json above this is refused.
const MAX_CONFIG_BYTES: u64 = 8 << 20;
/// tokenizer.json above this is refused.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

enum Files {
    Folder(PathBuf),
    Embedded,
}

/// A checkpoint whose configuration and tokenizer are read and understood; its weights are still in their files.
pub struct Checkpoint {
    identity: CheckpointIdentity,
    architecture: Architecture,
    tokenizer: Option<Tokenizer>,
    files: Files,
}

impl Checkpoint {
    /// Reads a Hugging Face folder. Without tokenizer.json only prompts given as ids can be run.
    ///
    /// # Errors
    /// A file is missing, damaged or not supported.
    pub fn open(folder: &Path, name: &str) -> Result<Self, CheckpointError> {
        let source = format!("folder:{}", folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy());
        Self::read(folder, name, source, None)
    }

    /// Reads what [`crate::fetch`] got of a repository. The commit is recorded as its revision.
    ///
    /// # Errors
    /// A file is missing, damaged or not supported.
    pub fn open_snapshot(snapshot: &Snapshot, name: &str, repository: &str) -> Result<Self, CheckpointError> {
        Self::read(&snapshot.folder, name, format!("hub:{repository}"), Some(snapshot.commit.clone()))
    }

    fn read(folder: &Path, name: &str, source: String, revision: Option<String>) -> Result<Self, CheckpointError> {
        let path = folder.join("config.json");
        if !folder.is_dir() || !path.exists() {
            return Err(CheckpointError::Incomplete { path: folder.to_owned(), missing: "config.json" });
        }
        let config = read_bounded(&path, MAX_CONFIG_BYTES)?;
        let generation = optional(&folder.join("generation_config.json"), MAX_CONFIG_BYTES)?;
        let tokenizer = optional(&folder.join("tokenizer.json"), MAX_TOKENIZER_BYTES)?;
        let file = |name: &str| folder.join(name).display().to_string();
        let architecture = Architecture::parse(&config, generation.as_deref(), &file("config.json"))?;
        let tokenizer =
            tokenizer.map(|bytes| Tokenizer::read(&bytes, &file("tokenizer.json"), &architecture)).transpose()?;
        let sha256 = WeightFiles::open(folder)?.sha256()?;
        let identity = CheckpointIdentity {
            name: name.to_owned(),
            source,
            revision,
            weights_sha256: Some(sha256),
            config: config::object(&config, &file("config.json"))?.into(),
        };
        Ok(Self { identity, architecture, tokenizer, files: Files::Folder(folder.to_owned()) })
    }

    /// The checkpoint compiled into the binary.
    ///
    /// # Errors
    /// Never, as long as its test passes.
    pub fn demo() -> Result<Self, CheckpointError> {
        let architecture = Architecture::parse(demo::CONFIG, None, "demo/config.json")?;
        let tokenizer = Tokenizer::read(demo::TOKENIZER, "demo/tokenizer.json", &architecture)?;
        let identity = CheckpointIdentity {
            name: "demo".into(),
            source: "embedded:demo".into(),
            revision: None,
            weights_sha256: Some(WeightFiles::embedded(demo::WEIGHTS, "demo/model.safetensors")?.sha256()?),
            config: config::object(demo::CONFIG, "demo/config.json")?.into(),
        };
        Ok(Self { identity, architecture, tokenizer: Some(tokenizer), files: Files::Embedded })
    }

    /// What traces record of it.
    #[must_use]
    pub fn identity(&self) -> &CheckpointIdentity {
        &self.identity
    }

    /// Its architecture.
    #[must_use]
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Its tokenizer, if it has one.
    #[must_use]
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// The ids of a text, BOS by the given convention.
    ///
    /// # Errors
    /// There is no tokenizer, or it fails, or the text has no tokens.
    pub fn encode(&self, text: &str, bos: BosConvention) -> Result<Vec<u32>, CheckpointError> {
        let Some(tokenizer) = &self.tokenizer else {
            let path = match &self.files {
                Files::Folder(folder) => folder.clone(),
                Files::Embedded => PathBuf::from("demo"),
            };
            return Err(CheckpointError::NoTokenizer { path });
        };
        Ok(tokenizer.encode(text, bos, self.architecture.bos)?)
    }

    /// Reads the weights into a float32 decoder; `transform` sees every tensor on the way.
    ///
    /// # Errors
    /// A tensor is missing, left over, or does not fit the architecture.
    pub fn decoder(
        &self,
        transform: &dyn Fn(WeightKind, candle_core::Tensor) -> candle_core::Result<candle_core::Tensor>,
    ) -> Result<Decoder, CheckpointError> {
        let mut weights = match &self.files {
            Files::Folder(folder) => WeightFiles::open(folder)?,
            Files::Embedded => WeightFiles::embedded(demo::WEIGHTS, "demo/model.safetensors")?,
        };
        let decoder = Decoder::load(&mut weights, &self.architecture, transform)?;
        weights.finish()?;
        Ok(decoder)
    }
}

fn optional(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, CheckpointError> {
    path.exists().then(|| read_bounded(path, limit)).transpose()
}
