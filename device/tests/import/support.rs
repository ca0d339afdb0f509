//! Making dumps, importing them, reading the trace.

use std::{
    fs,
    io::{Cursor, Write},
    path::{Path, PathBuf},
};

use fidelity_device::import::{Import, ImportError, ImportPrompt, Imported, Map, ModelShape, import};
use fidelity_trace::{CheckpointIdentity, PromptTrace, Trace};
use tempfile::TempDir;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// A folder to work in.
pub(crate) struct Desk(TempDir);

/// What goes with a dump.
#[derive(Default)]
pub(crate) struct Beside<'a> {
    pub(crate) prompts: Option<&'a [&'a [u32]]>,
    pub(crate) model: Option<ModelShape>,
    pub(crate) against: Option<&'a Trace>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    /// Imports files with a map into `trace`.
    pub(crate) fn import(
        &self,
        files: &[&Path],
        map: &str,
        beside: &Beside<'_>,
    ) -> Result<(Imported, Trace), ImportError> {
        let map = Map::parse(map, "map.toml")?;
        let prompts: Option<Vec<ImportPrompt>> = beside.prompts.map(|prompts| {
            let named = prompts.iter().enumerate();
            named
                .map(|(index, ids)| ImportPrompt { id: format!("p{index}"), text: None, token_ids: ids.to_vec() })
                .collect()
        });
        let plan = Import {
            files,
            map: &map,
            prompts: prompts.as_deref(),
            checkpoint: CheckpointIdentity::default(),
            model: beside.model,
            against: beside.against,
        };
        let out = self.path("trace");
        let imported = import(&plan, &out)?;
        Ok((imported, Trace::open(&out).expect("a trace")))
    }

    /// The message of an import that is refused, which leaves nothing behind.
    pub(crate) fn refused(&self, files: &[&Path], map: &str, beside: &Beside<'_>) -> String {
        let error = self.import(files, map, beside).expect_err("refused").to_string();
        let left: Vec<_> = fs::read_dir(self.0.path()).expect("listed").flatten().map(|it| it.file_name()).collect();
        let trace = left.iter().any(|name| name == "trace" || name.to_string_lossy().starts_with(".importing-"));
        assert!(!trace, "left behind: {left:?}");
        error
    }
}

/// An .npy file of float32.
pub(crate) fn floats(shape: &[usize], values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    npy("<f4", false, shape, &values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>())
}

/// An .npy file of int64.
pub(crate) fn integers(shape: &[usize], values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    npy("<i8", false, shape, &values.into_iter().flat_map(i64::to_le_bytes).collect::<Vec<_>>())
}

pub(crate) fn npy(descriptor: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let shape: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let header = format!("{{'descr': '{descriptor}', 'fortran_order': {fortran}, 'shape': ({shape}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

/// An .npz file as np.savez writes it.
pub(crate) fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    packed(arrays, CompressionMethod::Stored)
}

pub(crate) fn packed(arrays: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(format!("{name}.npy"), options).expect("begun");
        writer.write_all(bytes).expect("written");
    }
    writer.finish().expect("finished").into_inner()
}

/// The tensors of the only prompt.
pub(crate) fn only(trace: &Trace) -> PromptTrace {
    assert_eq!(trace.manifest().prompts.len(), 1);
    trace.prompt(0).expect("readable")
}

/// Values that look like nothing else: no two rows or columns are alike.
pub(crate) fn noise(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f32::from((state >> 16) as u16) / 32768.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}
