//! A draft as a Hugging Face folder: model.safetensors in float32, config.json, and the files beside them.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};

use tempfile::TempDir;

use super::{Draft, ForgeError, tensors::Values};

/// Values of a tensor that are taken: 8 GiB of them in float64.
const MAX_VALUES: usize = 1 << 30;
/// Values of all tensors that are taken: 64 GiB of them in a file.
const MAX_ALL_VALUES: usize = 1 << 34;
const FLOAT32: usize = size_of::<f32>();

impl Draft {
    /// How many values its largest tensor has, and all together, refused beyond what is taken.
    pub(super) fn check_sizes(&self) -> Result<(), ForgeError> {
        let mut all = 0_usize;
        for (name, shape) in self.tensors.shapes() {
            let values = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
            let Some(values) = values.filter(|values| *values <= MAX_VALUES) else {
                return Err(ForgeError::TooLarge { tensor: name, shape, limit: MAX_VALUES });
            };
            all = all.saturating_add(values);
        }
        if all > MAX_ALL_VALUES {
            return Err(ForgeError::TooLarge { tensor: "all tensors".into(), shape: vec![all], limit: MAX_ALL_VALUES });
        }
        Ok(())
    }

    /// Writes it into a folder that is there, a tensor at a time.
    pub(super) fn write(&mut self, folder: &Path) -> Result<(), ForgeError> {
        let config = serde_json::to_string_pretty(&self.config).map_err(ForgeError::Json)? + "\n";
        write_file(&folder.join("config.json"), config.as_bytes())?;
        for (name, bytes) in &self.files {
            write_file(&folder.join(name), bytes)?;
        }
        self.write_weights(&folder.join("model.safetensors"))
    }

    fn write_weights(&mut self, path: &Path) -> Result<(), ForgeError> {
        let io = |source| ForgeError::Io { action: "write", path: path.to_owned(), source };
        let shapes = self.tensors.shapes();
        let mut end = 0;
        let infos = shapes.iter().map(|(name, shape)| {
            let start = end;
            end += shape.iter().product::<usize>() * FLOAT32;
            (name.clone(), TensorInfo { dtype: Dtype::F32, shape: shape.clone(), data_offsets: (start, end) })
        });
        // transformers asks for the framework.
        let framework = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let metadata = Metadata::new(Some(framework), infos.collect()).map_err(ForgeError::Weights)?;
        let mut header = serde_json::to_vec(&metadata).map_err(ForgeError::Json)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(io)?);
        file.write_all(&(header.len() as u64).to_le_bytes()).and_then(|()| file.write_all(&header)).map_err(io)?;
        for (name, shape) in &shapes {
            let values = self.tensors.read(name)?;
            if values.shape != *shape {
                return Err(ForgeError::NoTensor(name.clone()));
            }
            write_values(&mut file, &values).map_err(io)?;
        }
        file.into_inner().map_err(|error| io(error.into_error()))?.sync_data().map_err(io)
    }
}

fn write_values(file: &mut impl Write, values: &Values) -> io::Result<()> {
    values.values.iter().try_for_each(|value| file.write_all(&(*value as f32).to_le_bytes()))
}

/// A folder beside `out` to fill and rename to it, and what removes it, whatever fails. `out` must not be there.
pub(super) fn aside(out: &Path) -> Result<(TempDir, PathBuf), ForgeError> {
    if out.symlink_metadata().is_ok() {
        return Err(ForgeError::Exists { path: out.to_owned() });
    }
    let parent = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(failed("create", parent))?;
    let temporary =
        tempfile::Builder::new().prefix(".forging-").tempdir_in(parent).map_err(failed("create", parent))?;
    // Temporary folders are private; a folder inside one is not.
    let folder = temporary.path().join("forged");
    fs::create_dir(&folder).map_err(failed("create", &folder))?;
    Ok((temporary, folder))
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ForgeError {
    let path = path.to_owned();
    move |source| ForgeError::Io { action, path, source }
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ForgeError> {
    fs::write(path, bytes).map_err(failed("write", path))
}
