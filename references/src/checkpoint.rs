//! A checkpoint: everything known before a weight is read.

use std::path::{Path, PathBuf};

use fidelity_trace::{BosConvention, CheckpointIdentity, Network};
use serde_json::Value;

use crate::{
    Architecture, CheckpointError, Decoder, Embedding, Output, Pooling, Snapshot, Tokenizer, WeightFiles, WeightKind,
    WeightTransform, bert_heads, config,
    decoder::EachWeight,
    demo,
    gguf::Gguf,
    second_opinion::{NoOpinion, SecondOpinion},
    weights::read_bounded,
};

/// config.json above this is refused.
const MAX_CONFIG_BYTES: u64 = 8 << 20;
/// tokenizer.json above this is refused.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

/// What stands beside config.json and weights in a folder of a decoder and has a part in prompts and generation.
const SIDE_FILES: [&str; 10] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
];

enum Files {
    Folder(PathBuf),
    Gguf(PathBuf),
    Embedded,
}

impl Files {
    fn weights(&self) -> Result<WeightFiles, CheckpointError> {
        match self {
            Self::Folder(folder) => WeightFiles::open(folder),
            Self::Gguf(file) => WeightFiles::open_gguf(file),
            Self::Embedded => WeightFiles::embedded(demo::WEIGHTS, "demo/model.safetensors"),
        }
    }
}

/// A checkpoint whose configuration and tokenizer are read and understood; its weights are still in their files.
pub struct Checkpoint {
    identity: CheckpointIdentity,
    architecture: Architecture,
    tokenizer: Option<Tokenizer>,
    files: Files,
    warnings: Vec<String>,
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
        let mut architecture = Architecture::parse(&config, generation.as_deref(), &file("config.json"))?;
        if let Output::Hidden(pooling) = &mut architecture.output {
            *pooling = Pooling::read(folder, architecture.hidden)?;
        }
        let tokenizer =
            tokenizer.map(|bytes| Tokenizer::read(&bytes, &file("tokenizer.json"), &architecture)).transpose()?;
        let files = Files::Folder(folder.to_owned());
        let mut weights = files.weights()?;
        if architecture.tied_head {
            weights.tie_head();
            weights.compare_tied_head()?;
        }
        let identity = CheckpointIdentity {
            name: name.to_owned(),
            source,
            revision,
            weights_sha256: Some(weights.sha256()?),
            config: config::object(&config, &file("config.json"))?.into(),
        };
        let bos = bos_contradiction(folder, tokenizer.as_ref(), architecture.bos)?;
        let head = head_beyond(&architecture, &weights);
        let rotation = partial_rotation(&architecture);
        let warnings = weights.warnings().iter().cloned().chain(bos).chain(head).chain(rotation).collect();
        Ok(Self { identity, architecture, tokenizer, files, warnings })
    }

    /// Reads a GGUF file. Text prompts need the model's tokenizer.json beside it; without, only prompts given as ids can be
    /// run.
    ///
    /// # Errors
    /// The file is damaged or not supported.
    pub fn open_gguf(path: &Path, name: &str) -> Result<Self, CheckpointError> {
        let gguf = Gguf::open(path)?;
        let config = Value::Object(gguf.config()?);
        let file = format!("{} (its metadata as config.json)", path.display());
        let architecture = Architecture::parse(config.to_string().as_bytes(), None, &file)?;
        let beside = path.with_file_name("tokenizer.json");
        let tokenizer = optional(&beside, MAX_TOKENIZER_BYTES)?
            .map(|bytes| Tokenizer::read(&bytes, &beside.display().to_string(), &architecture))
            .transpose()?;
        let mut weights = WeightFiles::from_gguf(gguf);
        let identity = CheckpointIdentity {
            name: name.to_owned(),
            source: format!("file:{}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()),
            revision: None,
            weights_sha256: Some(weights.sha256()?),
            config,
        };
        let files = Files::Gguf(path.to_owned());
        Ok(Self { identity, architecture, tokenizer, files, warnings: weights.warnings().to_vec() })
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
        Ok(Self { identity, architecture, tokenizer: Some(tokenizer), files: Files::Embedded, warnings: Vec::new() })
    }

    /// What traces record of it.
    #[must_use]
    pub fn identity(&self) -> &CheckpointIdentity {
        &self.identity
    }

    /// Lets no position see more than the last `keys` keys, itself included, as a KV-cache of so many entries does.
    pub fn limit_keys(&mut self, keys: u32) {
        for layer in &mut self.architecture.layers {
            layer.window = Some(layer.window.map_or(keys, |window| window.min(keys)));
        }
    }

    /// Its architecture.
    #[must_use]
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// What a person should know about its files, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
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
                Files::Gguf(file) => return Err(without_tokenizer(file)),
                Files::Embedded => PathBuf::from("demo"),
            };
            return Err(CheckpointError::NoTokenizer { path });
        };
        Ok(tokenizer.encode(text, bos, self.architecture.bos)?)
    }

    /// The bytes of its tokenizer.json, if it has one.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub fn tokenizer_json(&self) -> Result<Option<Vec<u8>>, CheckpointError> {
        match &self.files {
            Files::Folder(folder) => optional(&folder.join("tokenizer.json"), MAX_TOKENIZER_BYTES),
            Files::Gguf(file) => optional(&file.with_file_name("tokenizer.json"), MAX_TOKENIZER_BYTES),
            Files::Embedded => Ok(Some(demo::TOKENIZER.to_vec())),
        }
    }

    /// Its embedding, to be read a few rows at a time.
    ///
    /// # Errors
    /// The weights cannot be opened.
    pub fn embedding(&self) -> Result<Embedding, CheckpointError> {
        Ok(Embedding::new(self.weights()?, [self.architecture.vocabulary, self.architecture.hidden]))
    }

    /// Its weight files, each tensor to be read by itself. Of a tied head, the embedding alone is to be read.
    ///
    /// # Errors
    /// The weights cannot be opened.
    pub fn weights(&self) -> Result<WeightFiles, CheckpointError> {
        let mut weights = self.files.weights()?;
        if self.architecture.tied_head {
            weights.tie_head();
        }
        Ok(weights)
    }

    /// The files beside the weights that a copy of the checkpoint needs, by name: those of tokenizer and generation.
    ///
    /// # Errors
    /// One cannot be read any more, or is larger than such a file is.
    pub fn side_files(&self) -> Result<Vec<(&'static str, Vec<u8>)>, CheckpointError> {
        let Files::Folder(folder) = &self.files else {
            return Ok(self.tokenizer_json()?.map(|bytes| ("tokenizer.json", bytes)).into_iter().collect());
        };
        let read =
            |name: &'static str| Ok(optional(&folder.join(name), MAX_TOKENIZER_BYTES)?.map(|bytes| (name, bytes)));
        SIDE_FILES.into_iter().filter_map(|name| read(name).transpose()).collect()
    }

    /// Reads the weights into a float32 decoder; `transform` sees every tensor that the files hold, on the way.
    ///
    /// # Errors
    /// A tensor is missing, left over, or does not fit the architecture.
    pub fn decoder(
        &self,
        transform: &dyn Fn(WeightKind, candle_core::Tensor) -> candle_core::Result<candle_core::Tensor>,
    ) -> Result<Decoder, CheckpointError> {
        self.transformed_decoder(&EachWeight(transform))
    }

    /// The same for a transform that may also give a projection a bias.
    ///
    /// # Errors
    /// As those of [`Checkpoint::decoder`].
    pub fn transformed_decoder(&self, transform: &dyn WeightTransform) -> Result<Decoder, CheckpointError> {
        let mut weights = self.weights()?;
        let decoder = Decoder::transformed(&mut weights, &self.architecture, transform)?;
        weights.finish()?;
        Ok(decoder)
    }

    /// Another implementation of the same files, for sequences up to `longest` tokens.
    pub(crate) fn second_opinion(&self, longest: usize) -> Result<SecondOpinion, NoOpinion> {
        let weights = self.weights().map_err(NoOpinion::Failed)?;
        SecondOpinion::load(&self.identity.config, weights, longest)
    }
}

fn without_tokenizer(gguf: &Path) -> CheckpointError {
    CheckpointError::File {
        file: gguf.display().to_string(),
        reason: "there is no tokenizer.json beside it, which text prompts need; put the model's tokenizer.json beside the GGUF \
                 file, or give prompts as token_ids"
            .into(),
    }
}

fn optional(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, CheckpointError> {
    path.exists().then(|| read_bounded(path, limit)).transpose()
}

/// A warning where an encoder's files hold a head, which is not computed.
fn head_beyond(architecture: &Architecture, weights: &WeightFiles) -> Option<String> {
    let encoder = architecture.network() == Network::Encoder;
    let head = bert_heads().find(|name| encoder && weights.contains(name))?;
    Some(format!("the weights hold a head (`{head}`), which is not computed: the encoder alone is judged"))
}

/// A warning where files and transformers disagree: the classes of these families ignore the key (5.24: with plain RoPE the
/// logits are those without it, with a scaled one the forward pass fails).
fn partial_rotation(architecture: &Architecture) -> Option<String> {
    let rope = architecture.rope.as_ref().filter(|rope| rope.dims < architecture.head_dim)?;
    Some(format!(
        "config.json says by partial_rotary_factor that {} of {} dimensions of a head are rotated, and the reference rotates so \
         many; transformers 5 rotates them all in a model of type {}. If the model was made so, remove the key",
        rope.dims, architecture.head_dim, architecture.model_type
    ))
}

/// A warning where tokenizer_config.json says something else about BOS than tokenizer.json does, which is what is run:
/// some tokenizer classes follow the former.
fn bos_contradiction(
    folder: &Path,
    tokenizer: Option<&Tokenizer>,
    bos: Option<u32>,
) -> Result<Option<String>, CheckpointError> {
    let (Some(tokenizer), Some(bos)) = (tokenizer, bos) else { return Ok(None) };
    let name = "tokenizer_config.json";
    let Some(bytes) = optional(&folder.join(name), MAX_CONFIG_BYTES)? else { return Ok(None) };
    let said = config::object(&bytes, name)?.get("add_bos_token").and_then(Value::as_bool);
    let done = tokenizer.encode("a", BosConvention::Tokenizer, None)?.first() == Some(&bos);
    Ok(said.filter(|said| *said != done).map(|said| {
        let adds = if done { "puts BOS before a text" } else { "puts no BOS before a text" };
        format!(
            "{name} says add_bos_token = {said}, but tokenizer.json {adds}; tokenizer.json is followed. If the model was \
             made otherwise, set `bos` in its row of checkpoints.toml"
        )
    }))
}
