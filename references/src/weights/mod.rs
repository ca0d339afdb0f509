//! The weights of a checkpoint, whatever file they are in, each tensor consumed exactly once.
//!
//! Tensors are addressed by the names and have the row order of a Hugging Face checkpoint. Nothing is allocated from a
//! value in a file before it is checked against the file's size.

mod folder;
mod header;
mod safetensors;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use candle_core::Tensor;
use fidelity_trace::hex;
use sha2::{Digest, Sha256};

use crate::{CheckpointError, gguf::Gguf};
use safetensors::Shards;

const HEAD: &str = "lm_head.weight";
/// What families call their embedding, and how the names of their other tensors begin.
const EMBEDDINGS: [(&str, &str); 3] =
    [("model.embed_tokens.weight", "model."), ("transformer.wte.weight", "transformer."), ("wte.weight", "h.")];

/// What weights are read from.
pub(crate) trait Source: Read + Seek + Send {}
impl<T: Read + Seek + Send> Source for T {}

enum Container {
    Safetensors(Shards),
    Gguf(Box<Gguf>),
}

/// The weights of a checkpoint.
pub struct WeightFiles {
    origin: String,
    container: Container,
    unused: BTreeSet<String>,
    /// The name of an embedding that is stored under the head's.
    embedding_in_head: Option<&'static str>,
    warnings: Vec<String>,
}

impl WeightFiles {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` names, or without an index a complete
    /// family `model-00001-of-0000N.safetensors`.
    ///
    /// # Errors
    /// None is there, or a file is no whole safetensors file, or index and shards contradict each other.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let (shards, warnings) = Shards::open(folder)?;
        Ok(Self { warnings, ..Self::new(folder.display().to_string(), Container::Safetensors(shards)) })
    }

    /// Opens a GGUF file. Its tensors get the names and the row order of a Hugging Face checkpoint.
    ///
    /// # Errors
    /// The file is no whole GGUF file, or holds what is not supported.
    pub fn open_gguf(path: &Path) -> Result<Self, CheckpointError> {
        Ok(Self::from_gguf(Gguf::open(path)?))
    }

    /// Weights compiled into the binary.
    ///
    /// # Errors
    /// The bytes are no whole safetensors file.
    pub fn embedded(bytes: &'static [u8], name: &str) -> Result<Self, CheckpointError> {
        let shards = Shards::single(Box::new(Cursor::new(bytes)), bytes.len() as u64, name.to_owned())?;
        Ok(Self::new(name.to_owned(), Container::Safetensors(shards)))
    }

    pub(crate) fn from_gguf(gguf: Gguf) -> Self {
        Self::new(gguf.file().to_owned(), Container::Gguf(Box::new(gguf)))
    }

    fn new(origin: String, container: Container) -> Self {
        let mut files =
            Self { origin, container, unused: BTreeSet::new(), embedding_in_head: None, warnings: Vec::new() };
        files.unused = files.names().cloned().collect();
        files
    }

    /// What a person should know about the files, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether a tensor of that name is in the files.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.stored_shape(self.stored_name(name)).is_some()
    }

    /// Names and shapes of all tensors but inert ones, such as buffers that no forward pass uses.
    #[must_use]
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let computed = self.names().filter(|name| !self.is_inert(name));
        let read_as = |name: &String| match self.embedding_in_head {
            Some(embedding) if name == HEAD => embedding.to_owned(),
            _ => name.clone(),
        };
        computed.map(|name| (read_as(name), self.stored_shape(name).unwrap_or_default().to_vec())).collect()
    }

    /// Says that the head is the embedding. Where only the head is stored, it becomes the embedding.
    pub(crate) fn tie_head(&mut self) {
        let Some(embedding) = self.embedding().filter(|name| !self.contains(name) && self.contains(HEAD)) else {
            return;
        };
        self.embedding_in_head = Some(embedding);
        let origin = &self.origin;
        self.warnings
            .push(format!("{origin}: the tied embedding is stored as `{HEAD}` alone; it is read as `{embedding}`"));
    }

    /// Warns of a stored head that differs from the embedding it is tied to.
    pub(crate) fn compare_tied_head(&mut self) -> Result<(), CheckpointError> {
        let Some(embedding) = self.embedding() else { return Ok(()) };
        let (Some(table), Some(head)) = (self.stored_shape(embedding), self.stored_shape(HEAD)) else { return Ok(()) };
        let difference = match table == head {
            false => Some(format!("has shape {head:?}, not {table:?}")),
            true => differing(&self.read(embedding)?, &self.read(HEAD)?)
                .map_err(CheckpointError::computing("the difference of embedding and head"))?,
        };
        if let Some(difference) = difference {
            self.warnings.push(format!(
                "{}: tie_word_embeddings is true, but the stored `{HEAD}` is not `{embedding}`: it {difference}; the reference \
                 computes with the embedding, as transformers 4 does (transformers 5 would not tie them: set \
                 tie_word_embeddings to false to compute with the stored head)",
                self.origin
            ));
        }
        Ok(())
    }

    /// The name of the embedding in a file whose other tensors are named like these.
    fn embedding(&self) -> Option<&'static str> {
        let holds = |prefix: &str| self.names().any(|name| name.starts_with(prefix));
        EMBEDDINGS.iter().find(|(_, prefix)| holds(prefix)).map(|(name, _)| *name)
    }

    /// Reads a tensor in float32, which holds every F16 and BF16 value exactly, and counts it as used.
    ///
    /// # Errors
    /// Missing, of another shape, of a dtype or with values that float32 does not hold exactly, or unreadable.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, CheckpointError> {
        let stored = self.stored_name(name).to_owned();
        let Some(found) = self.stored_shape(&stored) else {
            return Err(CheckpointError::MissingTensor {
                file: self.origin.clone(),
                tensor: self.shown_name(&stored),
                expected: shape.to_vec(),
            });
        };
        if found != shape {
            return Err(CheckpointError::Tensor {
                file: self.file_of(&stored),
                tensor: self.shown_name(&stored),
                what: "shape",
                found: format!("{found:?}"),
                expected: format!("{shape:?} as {} says", self.config_name()),
            });
        }
        let tensor = self.read(&stored)?;
        self.unused.remove(&stored);
        Ok(tensor)
    }

    /// Reads `count` rows of the embedding from row `first` on, in float32, and nothing else.
    ///
    /// # Errors
    /// There is no embedding of this shape, it has no such rows, or it cannot be read.
    pub(crate) fn embedding_rows(
        &mut self,
        shape: [usize; 2],
        first: usize,
        count: usize,
    ) -> Result<Tensor, CheckpointError> {
        let name = self.embedding().unwrap_or(EMBEDDINGS[0].0);
        let stored = self.stored_name(name).to_owned();
        let found = self.stored_shape(&stored).map(<[usize]>::to_vec);
        if found.as_deref() != Some(&shape) || first.checked_add(count).is_none_or(|end| end > shape[0]) {
            return Err(CheckpointError::Tensor {
                file: self.file_of(&stored),
                tensor: self.shown_name(&stored),
                what: "shape",
                found: format!("{found:?}"),
                expected: format!("{shape:?}, of which {count} rows from row {first} on"),
            });
        }
        match &mut self.container {
            Container::Safetensors(shards) => shards.read_rows(&stored, first, count),
            Container::Gguf(gguf) => gguf.read_rows(&stored, first, count),
        }
    }

    /// Counts a tensor as used without reading it.
    pub fn ignore(&mut self, name: &str) {
        self.unused.remove(name);
    }

    /// Refuses tensors that nobody took, but for a closed list of inert ones.
    ///
    /// # Errors
    /// There are such tensors.
    pub fn finish(&self) -> Result<(), CheckpointError> {
        let left: Vec<_> = self.unused.iter().filter(|name| !self.is_inert(name)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let shown = left.iter().take(5).map(|name| format!("`{}`", self.shown_name(name)));
        let mut names = shown.collect::<Vec<_>>().join(", ");
        if left.len() > 5 {
            names.push_str(", …");
        }
        Err(CheckpointError::UnusedTensors { file: self.origin.clone(), count: left.len(), names })
    }

    /// SHA-256 over the bytes of all files, in name order.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn sha256(&mut self) -> Result<String, CheckpointError> {
        let mut hasher = Sha256::new();
        match &mut self.container {
            Container::Safetensors(shards) => {
                shards.sources().try_for_each(|(file, source)| hash(&mut hasher, source, file))?;
            }
            Container::Gguf(gguf) => {
                let file = gguf.file().to_owned();
                hash(&mut hasher, gguf.source(), &file)?;
            }
        }
        Ok(hex(&hasher.finalize()))
    }

    fn stored_name<'a>(&self, name: &'a str) -> &'a str {
        if self.embedding_in_head == Some(name) { HEAD } else { name }
    }

    fn names(&self) -> Box<dyn Iterator<Item = &String> + '_> {
        match &self.container {
            Container::Safetensors(shards) => Box::new(shards.names()),
            Container::Gguf(gguf) => Box::new(gguf.names()),
        }
    }

    fn stored_shape(&self, name: &str) -> Option<&[usize]> {
        match &self.container {
            Container::Safetensors(shards) => shards.shape(name),
            Container::Gguf(gguf) => gguf.shape(name),
        }
    }

    fn read(&mut self, name: &str) -> Result<Tensor, CheckpointError> {
        match &mut self.container {
            Container::Safetensors(shards) => shards.read(name),
            Container::Gguf(gguf) => gguf.read(name),
        }
    }

    fn is_inert(&self, name: &str) -> bool {
        match &self.container {
            Container::Safetensors(shards) => shards.is_inert(name),
            Container::Gguf(_) => false,
        }
    }

    fn file_of(&self, name: &str) -> String {
        match &self.container {
            Container::Safetensors(shards) => shards.file_of(name).unwrap_or(&self.origin).to_owned(),
            Container::Gguf(_) => self.origin.clone(),
        }
    }

    /// The name a tensor has in its file.
    fn shown_name(&self, name: &str) -> String {
        match &self.container {
            Container::Safetensors(_) => name.to_owned(),
            Container::Gguf(_) => Gguf::name_in_file(name),
        }
    }

    const fn config_name(&self) -> &'static str {
        match &self.container {
            Container::Safetensors(_) => "config.json",
            Container::Gguf(_) => "its metadata",
        }
    }
}

fn hash(hasher: &mut Sha256, source: &mut dyn Source, file: &str) -> Result<(), CheckpointError> {
    let io = |source| CheckpointError::Io { path: PathBuf::from(file), source, remedy: "check the disk and the file" };
    source.seek(SeekFrom::Start(0)).map_err(io)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = source.read(&mut buffer).map_err(io)?;
        if read == 0 {
            return Ok(());
        }
        hasher.update(&buffer[..read]);
    }
}

/// In how many values two tensors of one shape differ, bit by bit.
fn differing(one: &Tensor, other: &Tensor) -> candle_core::Result<Option<String>> {
    let (one, other) = (one.flatten_all()?.to_vec1::<f32>()?, other.flatten_all()?.to_vec1::<f32>()?);
    let count = one.iter().zip(&other).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    Ok((count > 0).then(|| format!("differs in {count} of {} values", one.len())))
}

/// Reads a whole file that must not exceed `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, CheckpointError> {
    let io = |source| CheckpointError::Io { path: path.to_owned(), source, remedy: "check that it is a readable file" };
    let file = File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        let reason = format!("larger than {limit} bytes, which no such file is; is it the right file?");
        return Err(CheckpointError::File { file: path.display().to_string(), reason });
    }
    Ok(bytes)
}
