//! Safetensors files, read tensor by tensor.

use std::{
    collections::BTreeMap,
    fs::File,
    io::SeekFrom,
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};
use half::{bf16, f16};
use safetensors::Dtype;

use super::{
    Source,
    folder::{check_index, find},
    header::{Place, read_header},
};
use crate::CheckpointError;

struct Shard {
    file: String,
    source: Box<dyn Source>,
}

/// Open files and where each tensor lies in them.
pub(super) struct Shards {
    shards: Vec<Shard>,
    places: BTreeMap<String, (usize, Place)>,
}

impl Shards {
    /// The files of a folder, and what a person should know about them.
    pub(super) fn open(folder: &Path) -> Result<(Self, Vec<String>), CheckpointError> {
        let found = find(folder)?;
        let mut all = Self { shards: Vec::new(), places: BTreeMap::new() };
        for name in &found.shards {
            all.add_file(&folder.join(name))?;
        }
        if let Some(index) = &found.index {
            let held = all.places.iter().map(|(name, (shard, _))| (name.as_str(), found.shards[*shard].as_str()));
            check_index(folder, index, &held.collect())?;
        }
        Ok((all, found.warnings))
    }

    pub(super) fn single(source: Box<dyn Source>, size: u64, file: String) -> Result<Self, CheckpointError> {
        let mut all = Self { shards: Vec::new(), places: BTreeMap::new() };
        all.add(source, size, file)?;
        Ok(all)
    }

    fn add_file(&mut self, path: &Path) -> Result<(), CheckpointError> {
        let io =
            |source| CheckpointError::Io { path: path.to_owned(), source, remedy: "check that it is a readable file" };
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        self.add(Box::new(file), size, path.display().to_string())
    }

    fn add(&mut self, mut source: Box<dyn Source>, size: u64, file: String) -> Result<(), CheckpointError> {
        for (name, place) in read_header(&mut *source, size, &file)? {
            if self.places.insert(name.clone(), (self.shards.len(), place)).is_some() {
                let reason = format!("tensor `{name}` is in another shard too; each tensor must be in one shard");
                return Err(CheckpointError::File { file, reason });
            }
        }
        self.shards.push(Shard { file, source });
        Ok(())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.places.keys()
    }

    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.places.get(name).map(|(_, place)| place.shape.as_slice())
    }

    /// Buffers that real files carry and no forward pass uses: RoPE frequencies, causal masks, position numbers.
    pub(super) fn is_inert(&self, name: &str) -> bool {
        let Some((_, place)) = self.places.get(name) else { return false };
        let mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
        name.ends_with(".rotary_emb.inv_freq")
            || (mask && matches!(place.shape.len(), 0 | 4))
            || (name.ends_with("position_ids") && place.dtype == Dtype::I64)
    }

    pub(super) fn file_of(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|(shard, _)| self.shards[*shard].file.as_str())
    }

    pub(super) fn sources(&mut self) -> impl Iterator<Item = (&str, &mut (dyn Source + 'static))> {
        self.shards.iter_mut().map(|shard| (shard.file.as_str(), &mut *shard.source))
    }

    /// Reads a tensor that is in the files, in float32.
    pub(super) fn read(&mut self, name: &str) -> Result<Tensor, CheckpointError> {
        let (shard, place) = self.places[name].clone();
        self.read_place(name, shard, &place)
    }

    /// Reads `count` rows of a matrix that is in the files and has them.
    pub(super) fn read_rows(&mut self, name: &str, first: usize, count: usize) -> Result<Tensor, CheckpointError> {
        let (shard, mut place) = self.places[name].clone();
        let row_bytes = place.size_bytes / place.shape[0].max(1);
        place.start += (first * row_bytes) as u64;
        place.size_bytes = count * row_bytes;
        place.shape[0] = count;
        self.read_place(name, shard, &place)
    }

    fn read_place(&mut self, name: &str, shard: usize, place: &Place) -> Result<Tensor, CheckpointError> {
        let file = self.shards[shard].file.clone();
        let wrong = |found: String, expected: &str| CheckpointError::Tensor {
            file: file.clone(),
            tensor: name.to_owned(),
            what: "dtype",
            found,
            expected: expected.to_owned(),
        };
        if let Some(expected) = self.refused(name, place.dtype) {
            return Err(wrong(format!("{:?}", place.dtype), &expected));
        }
        let io =
            |source| CheckpointError::Io { path: PathBuf::from(&file), source, remedy: "check the disk and the file" };
        let mut bytes = vec![0; place.size_bytes];
        let source = &mut self.shards[shard].source;
        source.seek(SeekFrom::Start(place.start)).map_err(io)?;
        source.read_exact(&mut bytes).map_err(io)?;
        let values = float32(place.dtype, &bytes).map_err(|value| {
            wrong(
                format!("F64 and the value {value:?}"),
                "values that float32 holds exactly: the reference computes in it",
            )
        })?;
        Tensor::from_vec(values, place.shape.as_slice(), &Device::Cpu)
            .map_err(CheckpointError::computing(format!("tensor {name}")))
    }

    /// What a dtype that is not read ought to be.
    fn refused(&self, name: &str, dtype: Dtype) -> Option<String> {
        let readable = "F32, F16, BF16 or F64".to_owned();
        match dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64 => None,
            Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::F8_E4M3FNUZ | Dtype::F8_E5M2FNUZ => {
                let scales = [format!("{name}_scale"), format!("{name}_scale_inv")];
                Some(match scales.iter().find(|scale| self.places.contains_key(*scale)) {
                    Some(scale) => format!("{readable}: 8-bit floats scaled by `{scale}` are not supported yet"),
                    None => {
                        format!("{readable}: an 8-bit float needs weight_scale, and there is no tensor `{}`", scales[0])
                    }
                })
            }
            _ => Some(readable),
        }
    }
}

/// The values in float32, exactly, or the first value that float32 does not hold.
fn float32(dtype: Dtype, bytes: &[u8]) -> Result<Vec<f32>, f64> {
    let halves = || bytes.as_chunks::<2>().0.iter().copied();
    Ok(match dtype {
        Dtype::F16 => halves().map(|pair| f16::from_le_bytes(pair).to_f32()).collect(),
        Dtype::BF16 => halves().map(|pair| bf16::from_le_bytes(pair).to_f32()).collect(),
        Dtype::F64 => {
            return bytes.as_chunks::<8>().0.iter().map(|eight| narrowed(f64::from_le_bytes(*eight))).collect();
        }
        _ => bytes.as_chunks::<4>().0.iter().map(|quad| f32::from_le_bytes(*quad)).collect(),
    })
}

fn narrowed(value: f64) -> Result<f32, f64> {
    let narrow = value as f32;
    let exact = f64::from(narrow).to_bits() == value.to_bits() || value.is_nan();
    if exact { Ok(narrow) } else { Err(value) }
}
