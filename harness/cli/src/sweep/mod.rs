//! A sweep: a matrix of runs, each in a folder of its own, and one table of what became of them.

mod known;
mod matrix;
mod merge;
mod one;

use std::{
    fs,
    path::{Path, PathBuf},
};

use fidelity_reports::{sweep_line, sweep_terminal, write_sweep};
use fidelity_verdict::{CELL_FORMAT, CELL_VERSION, Cell, worst_exit_code};
use serde::de::DeserializeOwned;

pub(crate) use matrix::{FILE, Matrix};
pub(crate) use merge::merge;
pub(crate) use one::Runner;

use crate::{
    error::CliError,
    output::{Form, print, style},
    resources,
    run_folder::{RunFolder, command_line},
};

/// A cell's result, in its run's folder; written last.
const CELL_FILE: &str = "cell.json";
/// Files of a sweep above this are refused.
const MOST_BYTES: u64 = 64 << 20;

/// A cell's folder, relative to the sweep's.
pub(crate) fn cell_folder(matrix: &Matrix, index: usize) -> String {
    let key = &matrix.cells[index];
    let name = Path::new(&key.checkpoint).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let recipe = Path::new(&key.recipe).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let words = [name, key.device.clone(), recipe];
    let plain = |word: &String| -> String {
        word.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).take(60).collect()
    };
    let words: String = words.iter().filter(|word| !word.is_empty()).map(|word| format!("-{}", plain(word))).collect();
    format!("cells/{:03}{words}", index + 1)
}

/// A cell that was finished before, if it is of this matrix.
pub(crate) fn finished(folder: &Path, matrix: &Matrix, index: usize) -> Result<Option<Cell>, CliError> {
    let relative = cell_folder(matrix, index);
    let path = folder.join(&relative).join(CELL_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let mut cell: Cell = read(&path)?;
    let known = cell.format == CELL_FORMAT && cell.version == CELL_VERSION;
    if !known || cell.index != index || cell.key != matrix.cells[index] {
        return Err(CliError::OtherSweep { folder: folder.to_owned() });
    }
    // A file may say what it likes; links lead into the sweep.
    cell.run = relative;
    Ok(Some(cell))
}

/// Keeps a cell's result.
pub(crate) fn keep(folder: &Path, cell: &Cell) -> Result<(), CliError> {
    let path = folder.join(&cell.run).join(CELL_FILE);
    let failed = |action, path: PathBuf, source| CliError::Io { action, path, source };
    let parent = folder.join(&cell.run);
    fs::create_dir_all(&parent).map_err(|source| failed("create", parent, source))?;
    let text = serde_json::to_string(cell).map(|text| text + "\n").unwrap_or_default();
    resources::write(&path, text)
}

/// Writes and says what the cells are together.
pub(crate) fn conclude(folder: &RunFolder, cells: &[Cell], form: Form) -> Result<u8, CliError> {
    write_sweep(folder.path(), cells, &command_line())?;
    let code = worst_exit_code(cells.iter().map(|cell| cell.exit_code));
    let line = sweep_line(cells, code, folder.wall_time(), &folder.path().join("sweep.html")) + "\n";
    print(&match form {
        Form::Tables => format!("{}\n{line}", sweep_terminal(cells, style())),
        Form::Line | Form::Json => line,
    });
    Ok(code)
}

/// A JSON file of a sweep, from this machine or another.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let unfit = |reason: String| CliError::NoShard { folder: path.to_owned(), reason };
    let size = fs::metadata(path).map_err(failed)?.len();
    if size > MOST_BYTES {
        return Err(unfit(format!("{size} bytes, at most {MOST_BYTES} are read")));
    }
    serde_json::from_slice(&fs::read(path).map_err(failed)?).map_err(|error| unfit(error.to_string()))
}
