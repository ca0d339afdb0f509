//! Safetensors files, read tensor by tensor, each tensor consumed exactly once.
//!
//! Nothing is allocated from a header value before it is checked against the size of the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};
use half::{bf16, f16};
use safetensors::{Dtype, tensor::Metadata};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{CheckpointError, config::object};

/// Headers above this are refused, as the safetensors library itself does.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Tensors that real files carry and no forward pass uses.
const INERT_SUFFIXES: [&str; 1] = [".rotary_emb.inv_freq"];

trait Source: Read + Seek + Send {}
impl<T: Read + Seek + Send> Source for T {}

/// Where one tensor lies.
#[derive(Clone, Debug)]
struct Place {
    shard: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    start: u64,
    bytes: usize,
}

struct Shard {
    file: String,
    source: Box<dyn Source>,
}

/// The weights of a checkpoint.
pub struct WeightFiles {
    origin: String,
    shards: Vec<Shard>,
    places: BTreeMap<String, Place>,
    unused: BTreeSet<String>,
}

impl WeightFiles {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// Neither is there, or a file is no whole safetensors file, or index and shards contradict each other.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let single = folder.join("model.safetensors");
        let index = folder.join("model.safetensors.index.json");
        let mut weights = Self::empty(folder.display().to_string());
        if single.exists() {
            weights.add_file(&single)?;
        } else if index.exists() {
            weights.add_shards(folder, &index)?;
        } else {
            return Err(CheckpointError::Incomplete { path: folder.to_owned(), missing: "model.safetensors" });
        }
        Ok(weights)
    }

    /// Weights compiled into the binary.
    ///
    /// # Errors
    /// The bytes are no whole safetensors file.
    pub fn embedded(bytes: &'static [u8], name: &str) -> Result<Self, CheckpointError> {
        let mut weights = Self::empty(name.to_owned());
        weights.add(Box::new(Cursor::new(bytes)), bytes.len() as u64, name.to_owned())?;
        Ok(weights)
    }

    fn empty(origin: String) -> Self {
        Self { origin, shards: Vec::new(), places: BTreeMap::new(), unused: BTreeSet::new() }
    }

    fn add_shards(&mut self, folder: &Path, index: &Path) -> Result<(), CheckpointError> {
        let file = index.display().to_string();
        let wrong = |reason: String| CheckpointError::File { file: file.clone(), reason };
        let text = read_bounded(index, MAX_HEADER_BYTES)?;
        let Some(Value::Object(map)) = object(&text, &file)?.remove("weight_map") else {
            return Err(wrong("no `weight_map` object in it; download the file again".into()));
        };
        let mut named = BTreeMap::new();
        for (tensor, shard) in map {
            let plain = shard.as_str().filter(|name| !name.is_empty() && !name.contains(['/', '\\']) && *name != "..");
            let Some(shard) = plain else {
                return Err(wrong(format!("`weight_map.{tensor}` is {shard}, expected a file name inside the folder")));
            };
            named.insert(tensor, shard.to_owned());
        }
        for shard in named.values().collect::<BTreeSet<_>>() {
            let path = folder.join(shard);
            if !path.exists() {
                return Err(wrong(format!("names the shard {shard}, which is not in the folder; download it")));
            }
            self.add_file(&path)?;
        }
        for (tensor, shard) in &named {
            let found = self.places.get(tensor).map(|place| self.shards[place.shard].file.clone());
            let expected = folder.join(shard).display().to_string();
            if found.as_ref() != Some(&expected) {
                let found = found.unwrap_or_else(|| "no shard".into());
                return Err(wrong(format!(
                    "puts tensor `{tensor}` in {shard}, found in {found}; index and shards are of different downloads"
                )));
            }
        }
        match self.places.keys().find(|tensor| !named.contains_key(*tensor)) {
            None => Ok(()),
            Some(tensor) => Err(wrong(format!(
                "does not list tensor `{tensor}` of a shard; index and shards are of different downloads"
            ))),
        }
    }

    fn add_file(&mut self, path: &Path) -> Result<(), CheckpointError> {
        let io =
            |source| CheckpointError::Io { path: path.to_owned(), source, remedy: "check that it is a readable file" };
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        self.add(Box::new(file), size, path.display().to_string())
    }

    fn add(&mut self, mut source: Box<dyn Source>, size: u64, file: String) -> Result<(), CheckpointError> {
        let (metadata, start) = read_header(&mut source, size, &file)?;
        let shard = self.shards.len();
        let tensors: BTreeMap<_, _> = metadata.tensors().into_iter().collect();
        for (name, info) in tensors {
            let (from, to) = info.data_offsets;
            let place = Place {
                shard,
                dtype: info.dtype,
                shape: info.shape.clone(),
                start: start + from as u64,
                bytes: to - from,
            };
            if self.places.insert(name.clone(), place).is_some() {
                let reason = format!("tensor `{name}` is in another shard too; each tensor must be in one shard");
                return Err(CheckpointError::File { file, reason });
            }
            self.unused.insert(name);
        }
        self.shards.push(Shard { file, source });
        Ok(())
    }

    /// Whether a tensor of that name is in the files.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Reads a tensor in float32, which holds every F16 and BF16 value exactly, and counts it as used.
    ///
    /// # Errors
    /// Missing, of another shape, of a dtype that float32 does not hold exactly, or unreadable.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, CheckpointError> {
        let Some(place) = self.places.get(name).cloned() else {
            return Err(CheckpointError::MissingTensor {
                file: self.origin.clone(),
                tensor: name.to_owned(),
                expected: shape.to_vec(),
            });
        };
        let file = self.shards[place.shard].file.clone();
        let wrong = |what, found: String, expected: String| CheckpointError::Tensor {
            file: file.clone(),
            tensor: name.to_owned(),
            what,
            found,
            expected,
        };
        if place.shape != shape {
            return Err(wrong("shape", format!("{:?}", place.shape), format!("{shape:?} as config.json says")));
        }
        if !matches!(place.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            return Err(wrong("dtype", format!("{:?}", place.dtype), "F32, F16 or BF16".into()));
        }
        let io =
            |source| CheckpointError::Io { path: PathBuf::from(&file), source, remedy: "check the disk and the file" };
        let mut bytes = vec![0; place.bytes];
        let source = &mut self.shards[place.shard].source;
        source.seek(SeekFrom::Start(place.start)).map_err(io)?;
        source.read_exact(&mut bytes).map_err(io)?;
        self.unused.remove(name);
        Tensor::from_vec(widened(place.dtype, &bytes), shape, &Device::Cpu)
            .map_err(CheckpointError::computing(format!("tensor {name}")))
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
        let left: Vec<_> =
            self.unused.iter().filter(|name| !INERT_SUFFIXES.iter().any(|end| name.ends_with(end))).collect();
        if left.is_empty() {
            return Ok(());
        }
        let mut names = left.iter().take(5).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
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
        for shard in &mut self.shards {
            let io = |source| CheckpointError::Io {
                path: PathBuf::from(&shard.file),
                source,
                remedy: "check the disk and the file",
            };
            shard.source.seek(SeekFrom::Start(0)).map_err(io)?;
            let mut buffer = vec![0; 1 << 20];
            loop {
                let read = shard.source.read(&mut buffer).map_err(io)?;
                if read == 0 {
                    break;
                }
                hasher.update(&buffer[..read]);
            }
        }
        Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
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

fn read_header(source: &mut Box<dyn Source>, size: u64, file: &str) -> Result<(Metadata, u64), CheckpointError> {
    let fail = |reason: String| CheckpointError::File { file: file.to_owned(), reason };
    let io = |error: std::io::Error| fail(format!("cannot be read: {error}"));
    let mut head = Vec::new();
    source.by_ref().take(64).read_to_end(&mut head).map_err(io)?;
    if head.starts_with(b"version https://git-lfs") {
        return Err(fail("a Git LFS pointer, not the weights; run `git lfs pull` in the checkpoint's folder".into()));
    }
    let Some(length) = head.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(fail(format!("{size} bytes, too short for a safetensors file; download it again")));
    };
    if length > MAX_HEADER_BYTES || length > size - 8 {
        return Err(fail(format!(
            "its header claims {length} bytes, the file has {size}: truncated or no safetensors file; download it again"
        )));
    }
    source.seek(SeekFrom::Start(8)).map_err(io)?;
    let mut header = vec![0; length as usize];
    source.read_exact(&mut header).map_err(io)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| fail(format!("its header is not a safetensors header: {error}; download it again")))?;
    let data = metadata.tensors().values().map(|info| info.data_offsets.1).max().unwrap_or(0) as u64;
    let expected = 8 + length + data;
    if size != expected {
        let what = if size < expected { "truncated" } else { "followed by other bytes" };
        return Err(fail(format!("{size} bytes, but its header describes {expected}: {what}; download it again")));
    }
    Ok((metadata, 8 + length))
}

fn widened(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks::<2>().0.iter().copied();
    match dtype {
        Dtype::F16 => halves().map(|pair| f16::from_le_bytes(pair).to_f32()).collect(),
        Dtype::BF16 => halves().map(|pair| bf16::from_le_bytes(pair).to_f32()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|quad| f32::from_le_bytes(*quad)).collect(),
    }
}
