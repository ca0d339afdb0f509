//! Files of arrays: .npz, .npy, .safetensors.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use fidelity_trace::nearest;
use safetensors::SafeTensors;
use zip::ZipArchive;

use super::{
    array::{Dtype, Endian, Header, Values},
    error::{ImportError, listed, shown},
    npy,
};

/// A safetensors file larger than this is refused: it is read whole.
const MAX_SAFETENSORS: u64 = 8 << 30;

/// An entry of a zip may be this many times larger than its compressed bytes, or this large whatever its bytes.
const MAX_EXPANSION: u64 = 100;
const SMALL_ENTRY: u64 = 64 << 20;

/// A file with named arrays, which are read one by one.
pub(crate) struct Archive {
    path: PathBuf,
    names: Vec<String>,
    store: Store,
}

enum Store {
    Npz(Box<ZipArchive<BufReader<File>>>),
    Npy,
    Safetensors(Vec<u8>),
}

/// The name of the only array of an .npy file.
const ONLY: &str = "array";

impl Archive {
    pub(crate) fn open(path: &Path) -> Result<Self, ImportError> {
        let failed = |source| ImportError::Io { action: "read", path: path.to_owned(), source };
        let wrong = |reason: String| ImportError::File { path: path.to_owned(), reason };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(wrong("not a regular file".into()));
        }
        let (names, store) = match path.extension().and_then(|extension| extension.to_str()) {
            Some("npz") => open_npz(file).map_err(wrong)?,
            Some("npy") => (vec![ONLY.to_owned()], Store::Npy),
            Some("safetensors") => open_safetensors(file, metadata.len()).map_err(wrong)?,
            _ => return Err(wrong(
                "expected a file ending in .npz, .npy or .safetensors; from Python: np.savez(\"dump.npz\", name=array)"
                    .into(),
            )),
        };
        if names.is_empty() {
            return Err(wrong("there are no arrays in it".into()));
        }
        Ok(Self { path: path.to_owned(), names, store })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The arrays' names, in the file's order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The only array, for maps that name none.
    pub(crate) fn only(&self) -> Result<&str, ImportError> {
        match &self.names[..] {
            [name] => Ok(name),
            names => Err(ImportError::File {
                path: self.path.clone(),
                reason: format!(
                    "the map names no array, which is enough for a file of one, but there are {}: {}",
                    names.len(),
                    listed(names.iter().map(String::as_str))
                ),
            }),
        }
    }

    pub(crate) fn header(&mut self, name: &str) -> Result<Header, ImportError> {
        self.visit(name, |reader, size| npy::read_header(reader, size), |header, _| Ok(header))
    }

    pub(crate) fn read(&mut self, name: &str) -> Result<Values, ImportError> {
        self.visit(name, |reader, size| npy::read(reader, size), |header, mut data| header.read(&mut data))
    }

    /// An error about one of its arrays.
    pub(crate) fn wrong(&self, name: &str, reason: impl Into<String>) -> ImportError {
        ImportError::Array { path: self.path.clone(), array: shown(name), reason: reason.into() }
    }

    fn visit<T>(
        &mut self,
        name: &str,
        of_npy: impl FnOnce(&mut dyn Read, u64) -> Result<T, String>,
        of_safetensors: impl FnOnce(Header, &[u8]) -> Result<T, String>,
    ) -> Result<T, ImportError> {
        if !self.has(name) {
            let known = self.names.iter().map(String::as_str);
            let hint =
                nearest(name, known.clone()).map_or_else(String::new, |n| format!(" (did you mean `{}`?)", shown(n)));
            return Err(self.wrong(name, format!("not in the file{hint}; it holds {}", listed(known))));
        }
        let result = match &mut self.store {
            Store::Npz(zip) => visit_entry(zip, name, of_npy),
            Store::Npy => File::open(&self.path)
                .and_then(|file| Ok((file.metadata()?.len(), file)))
                .map_or_else(|error| Err(error.to_string()), |(size, file)| of_npy(&mut BufReader::new(file), size)),
            Store::Safetensors(bytes) => visit_tensor(bytes, name, of_safetensors),
        };
        result.map_err(|reason| self.wrong(name, reason))
    }
}

fn open_npz(file: File) -> Result<(Vec<String>, Store), String> {
    let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| format!("not a whole .npz (zip) file: {error}"))?;
    if zip.has_duplicate_names() {
        return Err("two arrays have the same name".into());
    }
    let stored: Vec<_> = zip.file_names().collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let names: Vec<String> = stored.iter().filter_map(|name| name.strip_suffix(".npy")).map(str::to_owned).collect();
    let entries = zip.len();
    if names.is_empty() && entries > 0 {
        return Err(format!("none of its {entries} entries is an .npy array; is it a file of np.savez?"));
    }
    Ok((names, Store::Npz(Box::new(zip))))
}

fn visit_entry<T>(
    zip: &mut ZipArchive<BufReader<File>>,
    name: &str,
    read: impl FnOnce(&mut dyn Read, u64) -> Result<T, String>,
) -> Result<T, String> {
    let mut entry = zip.by_name(&format!("{name}.npy")).map_err(|error| error.to_string())?;
    let (size, compressed) = (entry.size(), entry.compressed_size());
    if size > SMALL_ENTRY && size / MAX_EXPANSION > compressed {
        return Err(format!(
            "{compressed} compressed bytes claim to become {size}, more than {MAX_EXPANSION} times as many; save it with np.savez, which does not compress"
        ));
    }
    read(&mut entry, size)
}

fn open_safetensors(file: File, size: u64) -> Result<(Vec<String>, Store), String> {
    if size > MAX_SAFETENSORS {
        return Err(format!("it has {size} bytes, at most {MAX_SAFETENSORS} are read"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_SAFETENSORS).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let tensors = parse(&bytes)?;
    let mut names: Vec<String> = tensors.iter().map(|(name, _)| name.to_owned()).collect();
    names.sort_unstable();
    Ok((names, Store::Safetensors(bytes)))
}

fn parse(bytes: &[u8]) -> Result<SafeTensors<'_>, String> {
    SafeTensors::deserialize(bytes).map_err(|error| format!("not a whole safetensors file: {error}"))
}

fn visit_tensor<T>(
    bytes: &[u8],
    name: &str,
    read: impl FnOnce(Header, &[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let tensors = parse(bytes)?;
    let view = tensors.tensor(name).map_err(|error| error.to_string())?;
    let dtype = Dtype::of_safetensors(view.dtype())?;
    let header = Header { dtype, endian: Endian::Little, fortran: false, shape: view.shape().to_vec() };
    read(header, view.data())
}
